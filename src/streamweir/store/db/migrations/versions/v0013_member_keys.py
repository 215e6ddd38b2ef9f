"""Keys that members make for themselves: what a workspace allows, and since when a key has been somebody's."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("workspaces", sa.Column("member_keys", sa.Text))
    op.add_column("keys", sa.Column("person_since_ms", sa.BigInteger))
