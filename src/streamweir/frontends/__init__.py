"""Right of the event: one package per API that callers speak. Knows nothing of the provider."""
