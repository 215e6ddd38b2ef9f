"""The parameters of a request, and why it was refused. Older rows have neither."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("requests", sa.Column("parameters", sa.Text))
    op.add_column("requests", sa.Column("refusal", sa.Text))
