"""The chat completions API, in its dialects. It does not depend on providers."""
