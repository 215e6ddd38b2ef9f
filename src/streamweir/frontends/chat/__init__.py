"""The chat completions API, in its dialects. Nothing here knows a provider."""
