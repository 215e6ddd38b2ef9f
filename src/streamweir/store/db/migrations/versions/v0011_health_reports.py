"""What each process says about the health of its targets and keys of providers, for all others."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "health_reports",
        sa.Column("instance", sa.String, primary_key=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("report", sa.Text, nullable=False),
    )
