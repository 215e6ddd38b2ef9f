"""Data for the console: the timeline of a request, its rates, sessions of keys, usage in shorter steps."""

from typing import Literal

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_FILTERED = ("model", "target", "verdict", "dialect", "status", "error", "stream", "cost")
_SUMS = (
    "requests",
    "errors",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "cost",
    "unpriced",
)
_BUCKETS = 24


def upgrade() -> None:
    _add_request_columns()
    _create_filter_indexes()
    _sum_up_usage()


def _add_request_columns() -> None:
    for column in (
        sa.Column("service_tier", sa.String),
        sa.Column("rates", sa.Text),
        sa.Column("admitted_ms", sa.Integer),
        sa.Column("settled_ms", sa.Integer),
        sa.Column("strip", sa.Text),
    ):
        op.add_column("requests", column)
    op.add_column("open_requests", sa.Column("first_ms", sa.BigInteger))
    op.add_column("open_requests", sa.Column("last_ms", sa.BigInteger))
    op.add_column("sessions", sa.Column("key_id", sa.String))
    op.add_column("sessions", sa.Column("key_digest", sa.LargeBinary))


def _create_filter_indexes() -> None:
    for name, first, last in (
        ("requests_by_time", (), ("workspace_id", "key_id")),
        ("requests_of_workspace", ("workspace_id",), ("key_id",)),
        ("requests_of_key", ("key_id",), ("workspace_id",)),
    ):
        op.drop_index(name, "requests")
        op.create_index(name, "requests", [*first, "at_ms", "seq", *last, *_FILTERED])


def _sum_up_usage() -> None:
    # Recreated also where it gets another form.
    recreate: Literal["always", "never"] = "always" if op.get_bind().dialect.name == "sqlite" else "never"
    with op.batch_alter_table("usage_hours", recreate=recreate, table_kwargs={"sqlite_with_rowid": False}) as hours:
        for bucket in _ttft():
            hours.add_column(bucket)
    _make_usage("usage_minutes", "minute")  # earlier usage is not known in minutes
    _make_usage("usage_quarters", "quarter")
    _make_usage("usage_days", "day")
    _sum_up_days()


def _sum_up_days() -> None:
    group = ("workspace_id", "key_id", "model", "provider")
    hours = sa.table("usage_hours", *map(sa.column, ("hour", *group, *_SUMS)))
    days = sa.table("usage_days", *map(sa.column, ("day", *group, *_SUMS)))
    steps = [sa.literal_column("hour / 24"), *(hours.c[name] for name in group)]
    sums = [sa.func.sum(hours.c[name]) for name in _SUMS]
    op.execute(days.insert().from_select(["day", *group, *_SUMS], sa.select(*steps, *sums).group_by(*steps)))


def _make_usage(name: str, unit: str) -> None:
    op.create_table(
        name,
        sa.Column(unit, sa.BigInteger, primary_key=True),
        sa.Column("workspace_id", sa.String, primary_key=True),
        sa.Column("key_id", sa.String, primary_key=True),
        sa.Column("model", sa.String, primary_key=True),
        sa.Column("provider", sa.String, primary_key=True),
        *(sa.Column(each, sa.BigInteger, nullable=False) for each in _SUMS),
        *_ttft(),
        sqlite_with_rowid=False,
    )


def _ttft() -> list[sa.Column[int]]:
    return [
        sa.Column(f"ttft_{bucket:02}", sa.BigInteger, nullable=False, server_default=sa.text("0"))
        for bucket in range(_BUCKETS)
    ]
