"""The margin as a sum of its own: price without cost, of the requests that have both.

Before this it was computed of the other two sums, which have requests without a cost, or without a price, as well. What
these were is not known any more, so the old sums keep the margin that was shown for them.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    for name in ("usage_minutes", "usage_quarters", "usage_hours", "usage_days", "attribution_days"):
        op.add_column(name, sa.Column("margin", sa.BigInteger, nullable=False, server_default=sa.text("0")))
        sums = sa.table(name, *map(sa.column, ("margin", "price", "cost")))
        op.execute(sums.update().values(margin=sums.c.price - sums.c.cost))
