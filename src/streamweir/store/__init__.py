"""Persistent data: the ledger, the request log, keys and workspaces, in SQLite or PostgreSQL."""
