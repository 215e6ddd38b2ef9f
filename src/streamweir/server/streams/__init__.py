"""Streams that a caller can come back to: their frames, their readers, and how they are found."""
