"""Rules for an endpoint: each checks several answers of a probe session together."""
