"""How often nobody read a resumable stream: the gaps themselves are bounded."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("requests", sa.Column("reader_gap_count", sa.Integer))
