"""Alembic's environment: it migrates the given connection, inside its open transaction.

Used only by `store.db.schema`. It opens no database and reads no configuration.
"""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
