"""Who reads a resumable stream that runs: how many, how often nobody did, and since when nobody does."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.add_column("open_requests", sa.Column("readers", sa.Integer))
    op.add_column("open_requests", sa.Column("reader_gap_count", sa.Integer))
    op.add_column("open_requests", sa.Column("away_since_ms", sa.BigInteger))
