"""The routes beside the chat API: console, admin API, probes and metrics."""
