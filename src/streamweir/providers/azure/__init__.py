"""Azure OpenAI and Microsoft Foundry: chat completions, Responses and Messages, with the errors of their front.

Each wire has a module with its `PROVIDER`.
"""
