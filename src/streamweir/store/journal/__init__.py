"""The journal: local files to which each entry is written before anything depends on it."""
