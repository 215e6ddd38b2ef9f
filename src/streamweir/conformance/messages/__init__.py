"""Checks of Anthropic's Messages API: rules for its streams, bodies and errors, and the requests to an endpoint."""
