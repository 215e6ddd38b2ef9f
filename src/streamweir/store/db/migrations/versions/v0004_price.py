"""Cost and price apart, what callers say about requests, accounts of rules, alerts and payments.

Before this there was one amount for both: it is the price of everything that is there.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_USAGE = ("usage_minutes", "usage_quarters", "usage_hours", "usage_days")
_TARGET_SUMS = ("requests", "prompt_tokens", "cached_tokens", "completion_tokens", "cost", "uncosted")
_SUMS = (
    "requests",
    "errors",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "cost",
    "unpriced",
    "price",
    "uncosted",
)
_FILTERED = ("model", "target", "verdict", "dialect", "status", "error", "stream", "cost", "price")
_PAGES = {
    "requests_by_time": ("at_ms", "seq", "workspace_id", "key_id"),
    "requests_of_workspace": ("workspace_id", "at_ms", "seq", "key_id"),
    "requests_of_key": ("key_id", "at_ms", "seq", "workspace_id"),
}


def upgrade() -> None:
    _separate_price()
    _add_columns()
    _make_attribution()
    _make_target_hours()
    _make_alerts()
    _make_payments()


def _separate_price() -> None:
    # Filters by price need only the index, as all others. It is made anew after all rows have changed.
    for name in _PAGES:
        op.drop_index(name, "requests")
    for name in ("requests", "ledger"):
        op.add_column(name, sa.Column("price", sa.BigInteger))
        table = sa.table(name, sa.column("price"), sa.column("cost"))
        op.execute(table.update().where(table.c.cost.is_not(None)).values(price=table.c.cost))
    for name, columns in _PAGES.items():
        op.create_index(name, "requests", [*columns, *_FILTERED])
    for name in _USAGE:
        for column in ("price", "uncosted"):
            op.add_column(name, sa.Column(column, sa.BigInteger, nullable=False, server_default=sa.text("0")))
        usage = sa.table(name, *map(sa.column, ("price", "cost", "uncosted", "unpriced")))
        op.execute(usage.update().values(price=usage.c.cost, uncosted=usage.c.unpriced))


def _add_columns() -> None:
    for column in ("cost_rates", "tags"):
        op.add_column("requests", sa.Column(column, sa.Text))
    for column in ("charge_rule", "end_user", "session"):
        op.add_column("requests", sa.Column(column, sa.String))
    for column in ("end_user", "session"):
        is_known = sa.column(column).is_not(None)
        op.create_index(
            f"requests_of_{column}",
            "requests",
            [column, "at_ms", "seq"],
            sqlite_where=is_known,
            postgresql_where=is_known,
        )
        op.add_column("open_requests", sa.Column(column, sa.String))
    op.add_column("open_requests", sa.Column("tags", sa.Text))
    op.add_column("open_requests", sa.Column("accounts", sa.Text))
    op.add_column("workspaces", sa.Column("price_group", sa.String))
    op.add_column("keys", sa.Column("price_group", sa.String))
    op.add_column("keys", sa.Column("show_cost", sa.Boolean, nullable=False, server_default=sa.false()))


def _make_attribution() -> None:
    op.create_table(
        "limit_rules",
        *(sa.Column(name, sa.String, primary_key=True) for name in ("workspace_id", "name", "per", "key_id")),
    )
    op.create_table(
        "attribution_days",
        sa.Column("day", sa.BigInteger, primary_key=True),
        sa.Column("workspace_id", sa.String, primary_key=True),
        sa.Column("key_id", sa.String, primary_key=True),
        sa.Column("kind", sa.String, primary_key=True),
        sa.Column("value", sa.String, primary_key=True),
        sa.Column("digest", sa.String),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in _SUMS),
        sqlite_with_rowid=False,
    )
    op.create_index("attribution_of_value", "attribution_days", ["workspace_id", "kind", "value", "day"])
    has_digest = sa.text("digest IS NOT NULL")
    op.create_index(
        "attribution_of_user",
        "attribution_days",
        ["workspace_id", "digest", "day"],
        sqlite_where=has_digest,
        postgresql_where=has_digest,
    )


def _make_target_hours() -> None:
    """Filled from the requests that are kept. Their credentials are only in the JSON of their attempts: left empty."""
    hours = op.create_table(
        "target_hours",
        sa.Column("hour", sa.BigInteger, primary_key=True),
        *(sa.Column(name, sa.String, primary_key=True) for name in ("provider", "model", "credential")),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in _TARGET_SUMS),
        sqlite_with_rowid=False,
    )
    counts = ("at_ms", "prompt_tokens", "completion_tokens", "cost")
    rows = sa.table(
        "requests",
        sa.column("target", sa.String),
        sa.column("usage", sa.Text),
        *(sa.column(name, sa.BigInteger) for name in counts),
    )
    cached: sa.ColumnElement[int]
    if op.get_bind().dialect.name == "sqlite":
        slash, cached = sa.func.instr(rows.c.target, "/"), sa.func.json_extract(rows.c.usage, "$.cache_read")
    else:
        slash = sa.func.strpos(rows.c.target, "/")
        cached = sa.cast(sa.func.json_extract_path_text(sa.cast(rows.c.usage, sa.JSON), "cache_read"), sa.BigInteger)
    inner = (
        sa.select(
            (rows.c.at_ms // 3_600_000).label("hour"),
            sa.func.substr(rows.c.target, 1, slash - 1).label("provider"),
            sa.func.substr(rows.c.target, slash + 1).label("model"),
            rows.c.prompt_tokens,
            cached.label("cached_tokens"),
            rows.c.completion_tokens,
            rows.c.cost,
        )
        .where(
            rows.c.target.like("%/%"),
            sa.or_(rows.c.prompt_tokens.is_not(None), sa.func.coalesce(rows.c.cost, 0) != 0),
        )
        .subquery()
        .c
    )
    group = (inner.hour, inner.provider, inner.model)
    sums = (sa.func.coalesce(sa.func.sum(inner[name]), 0) for name in _TARGET_SUMS[1:-1])
    uncosted = sa.func.sum(sa.case((inner.cost.is_(None), 1), else_=0))
    found = sa.select(*group, sa.literal(""), sa.func.count(), *sums, uncosted).group_by(*group)
    op.execute(sa.insert(hours).from_select(["hour", "provider", "model", "credential", *_TARGET_SUMS], found))


def _make_alerts() -> None:
    op.create_table(
        "alerts",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("id", sa.String, nullable=False, unique=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("workspace_id", sa.String),
        sa.Column("body", sa.Text, nullable=False),
        sa.Index("alerts_of_workspace", "workspace_id", "seq"),
        sqlite_autoincrement=True,
    )
    is_waiting = sa.text("delivered_ms IS NULL AND given_up_ms IS NULL")
    op.create_table(
        "alert_deliveries",
        sa.Column("webhook", sa.String, primary_key=True),
        sa.Column("alert_seq", sa.BigInteger, primary_key=True),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("next_ms", sa.BigInteger, nullable=False),
        sa.Column("delivered_ms", sa.BigInteger),
        sa.Column("given_up_ms", sa.BigInteger),
        sa.Column("error", sa.Text),
        sa.Index(
            "alert_deliveries_waiting",
            "webhook",
            "alert_seq",
            sqlite_where=is_waiting,
            postgresql_where=is_waiting,
        ),
    )
    op.create_table(
        "alert_conditions",
        sa.Column("subject", sa.String, primary_key=True),
        sa.Column("level", sa.Integer, nullable=False),
        sa.Column("basis", sa.BigInteger, nullable=False),
        sa.Column("until_ms", sa.BigInteger),
    )
    op.create_table(
        "provider_signs",
        sa.Column("provider", sa.String, primary_key=True),
        sa.Column("instance", sa.String, primary_key=True),
        sa.Column("failed_ms", sa.BigInteger),
        sa.Column("answered_ms", sa.BigInteger),
    )


def _make_payments() -> None:
    op.create_table(
        "payments",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("workspace_id", sa.String, nullable=False, index=True),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("session_id", sa.String, unique=True),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("paid_ms", sa.BigInteger),
    )
    op.create_table(
        "payment_events",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("payment_id", sa.String),
        sa.Column("result", sa.String, nullable=False),
    )
