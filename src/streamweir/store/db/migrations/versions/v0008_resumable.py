"""Keys whose callers can come back to streams; and of a stream, how often that was done, and when nobody read it."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("keys", sa.Column("resumable", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("requests", sa.Column("resumed", sa.Integer))
    op.add_column("requests", sa.Column("reader_gaps", sa.Text))
