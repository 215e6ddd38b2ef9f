"""The log of requests: what is open, what was used, what was said, and how long it is kept."""
