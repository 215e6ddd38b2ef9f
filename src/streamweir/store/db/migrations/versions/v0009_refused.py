"""An index of the refused requests, which the overview counts."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    is_refused = sa.text("verdict = 'rejected'")
    columns = ["at_ms", "workspace_id", "key_id", "model", "verdict"]
    op.create_index("requests_refused", "requests", columns, sqlite_where=is_refused, postgresql_where=is_refused)
