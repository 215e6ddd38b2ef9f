"""Sockets towards the callers, and the wiring of everything."""
