"""Google's Vertex AI: what it has beside Gemini, and its failures."""
