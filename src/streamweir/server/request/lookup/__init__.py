"""Requests for which no provider is called: models, keys and requests that callers ask about."""
