"""The index of refused requests without those that a provider refused: they have a reservation, and are usage."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.drop_index("requests_refused", "requests")
    is_refused = sa.text("verdict = 'rejected' AND held IS NULL")
    columns = ["at_ms", "workspace_id", "key_id", "model", "verdict", "held"]
    op.create_index("requests_refused", "requests", columns, sqlite_where=is_refused, postgresql_where=is_refused)
