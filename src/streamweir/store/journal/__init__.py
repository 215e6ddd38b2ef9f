"""The local files that every entry is written to before anything depends on it."""
