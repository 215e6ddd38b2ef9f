"""What is remembered: the ledger, the request log, keys and workspaces, in SQLite or PostgreSQL."""
