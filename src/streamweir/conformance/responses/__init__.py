"""Checks of OpenAI's Responses API: rules for its streams, bodies and errors, and the requests to an endpoint."""
