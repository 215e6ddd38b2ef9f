"""Checks of OpenAI's embeddings API: rules for its bodies, and the requests to an endpoint."""
