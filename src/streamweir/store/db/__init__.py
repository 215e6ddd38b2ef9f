"""A database, SQLite or PostgreSQL: connections, schema, tables and statements."""
