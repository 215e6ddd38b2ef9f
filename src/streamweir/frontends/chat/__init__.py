"""Right of the event: what callers are promised on the wire. Knows nothing of the provider."""
