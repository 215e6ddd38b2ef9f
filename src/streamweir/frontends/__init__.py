"""The APIs that callers use, one package each. Nothing here knows a provider."""
