"""Streamweir: a streaming-first LLM gateway."""

__version__ = "0.2.0"
