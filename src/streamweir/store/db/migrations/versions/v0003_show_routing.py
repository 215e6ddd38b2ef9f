"""Keys whose callers are told the target, the attempts and the cost of an answer."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("keys", sa.Column("show_routing", sa.Boolean, nullable=False, server_default=sa.false()))
