"""Alembic's environment: it migrates the connection that it is given, inside the transaction that is open on it.

Run by `store.db.schema` alone. Nothing here opens a database or reads a configuration.
"""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
