"""The request log: open requests, usage, stored content, and retention."""
