"""OpenAI's embeddings API for callers."""
