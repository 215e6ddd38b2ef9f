"""Left of the event: one module per protocol that upstreams speak. Knows nothing of the caller's dialect."""
