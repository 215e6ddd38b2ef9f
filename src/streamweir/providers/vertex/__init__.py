"""Vertex AI beside Gemini, which has a package of its own: Claude (`messages`) and open models (`chat`).

All of them have one address, of a project and a location, and take Google's access tokens. Each wire has a module with
its `PROVIDER`.
"""
