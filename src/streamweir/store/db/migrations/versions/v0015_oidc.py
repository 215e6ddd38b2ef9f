"""People of an identity provider: by which address they are recognized, and whether it says their role."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.add_column("people", sa.Column("email", sa.String))
    op.add_column("people", sa.Column("has_provider_role", sa.Boolean, nullable=False, server_default=sa.false()))
    op.create_index("people_email", "people", ["email"], unique=True)
