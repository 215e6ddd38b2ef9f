"""The initial schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_SEQUENCE = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    _make_access()
    _make_money()
    _make_open_requests()
    _make_log()
    _make_usage()
    _make_administration()


def _make_access() -> None:
    op.create_table(
        "workspaces",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("name", sa.String, nullable=False, unique=True),
        sa.Column("prepaid", sa.Boolean, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False, index=True),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("workspace_id", sa.String, nullable=False, index=True),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("origin", sa.String, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),
        sa.Column("last4", sa.String, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("models", sa.Text),
        sa.Column("dialect", sa.String),
        sa.Column("rpm", sa.BigInteger),
        sa.Column("tpm", sa.BigInteger),
        sa.Column("max_streams", sa.BigInteger),
        sa.Column("budget_nano", sa.BigInteger),
        sa.Column("budget_period", sa.String),
        sa.Column("log_content", sa.Boolean, nullable=False),
        sa.Column("expires_ms", sa.BigInteger),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("revoked_ms", sa.BigInteger),
        sa.Column("old_digest", sa.LargeBinary, unique=True),
        sa.Column("old_until_ms", sa.BigInteger),
        sa.Column("version", sa.BigInteger, nullable=False, index=True),
    )
    op.create_table(
        "counters",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False),
    )


def _make_money() -> None:
    op.create_table(
        "accounts",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("workspace_id", sa.String, nullable=False, index=True),
        sa.Column("key_id", sa.String, index=True),
        sa.Column("granted", sa.BigInteger, nullable=False),
        sa.Column("spent", sa.BigInteger, nullable=False),
        sa.Column("held", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "ledger",
        sa.Column("seq", _SEQUENCE, primary_key=True, autoincrement=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("workspace_id", sa.String, nullable=False),
        sa.Column("key_id", sa.String),
        sa.Column("request_id", sa.String),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("cost", sa.BigInteger),
        sa.Column("note", sa.Text),
        sa.UniqueConstraint("request_id", "kind", name="ledger_once"),
        sa.Index("ledger_of_workspace", "workspace_id", "seq"),
    )


def _make_open_requests() -> None:
    op.create_table(
        "open_requests",
        sa.Column("request_id", sa.String, primary_key=True),
        sa.Column("instance", sa.String, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("workspace_id", sa.String, nullable=False),
        sa.Column("key_id", sa.String, nullable=False),
        sa.Column("key_name", sa.String, nullable=False),
        sa.Column("dialect", sa.String, nullable=False),
        sa.Column("model", sa.String, nullable=False),
        sa.Column("target", sa.String),
        sa.Column("stream", sa.Boolean, nullable=False),
        sa.Column("held", sa.BigInteger, nullable=False),
        sa.Column("account", sa.String),
        sa.Column("prices", sa.Text, nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger, nullable=False),
        sa.Column("output_tokens", sa.BigInteger, nullable=False),
        sa.Column("progress_ms", sa.BigInteger),
        sa.Column("cancel_ms", sa.BigInteger),
        sa.Column("idempotency", sa.LargeBinary),
        sa.Index(
            "open_requests_cancelled",
            "instance",
            sqlite_where=sa.text("cancel_ms IS NOT NULL"),
            postgresql_where=sa.text("cancel_ms IS NOT NULL"),
        ),
    )
    op.create_table(
        "idempotency",
        sa.Column("key_id", sa.String, primary_key=True),
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        sa.Column("body_digest", sa.LargeBinary, nullable=False),
        sa.Column("request_id", sa.String, nullable=False),
        sa.Column("is_over", sa.Boolean, nullable=False),
        sa.Column("until_ms", sa.BigInteger, nullable=False, index=True),
    )
    op.create_table(
        "instances",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("node", sa.String, nullable=False),
        sa.Column("started_ms", sa.BigInteger, nullable=False),
        sa.Column("seen_ms", sa.BigInteger, nullable=False),
        sa.Column("stopped_ms", sa.BigInteger),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("holder", sa.String, nullable=False),
        sa.Column("until_ms", sa.BigInteger, nullable=False),
    )


def _make_log() -> None:
    op.create_table(
        "requests",
        sa.Column("seq", _SEQUENCE, primary_key=True, autoincrement=True),
        sa.Column("request_id", sa.String, nullable=False, unique=True),
        sa.Column("completion_id", sa.String),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("workspace_id", sa.String),
        sa.Column("key_id", sa.String),
        sa.Column("key_name", sa.String),
        sa.Column("dialect", sa.String),
        sa.Column("model", sa.String),
        sa.Column("target", sa.String),
        sa.Column("attempts", sa.Text, nullable=False),
        sa.Column("stream", sa.Boolean, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("verdict", sa.String, nullable=False),
        sa.Column("error", sa.String),
        sa.Column("finish", sa.String),
        sa.Column("prompt_tokens", sa.BigInteger),
        sa.Column("completion_tokens", sa.BigInteger),
        sa.Column("usage", sa.Text),
        sa.Column("usage_source", sa.String),
        sa.Column("flags", sa.Text),
        sa.Column("held", sa.BigInteger),
        sa.Column("cost", sa.BigInteger),
        sa.Column("price_version", sa.String),
        sa.Column("ttft_ms", sa.Integer),
        sa.Column("duration_ms", sa.Integer, nullable=False),
        sa.Column("chunks", sa.Integer),
        sa.Column("gap_p50_ms", sa.Integer),
        sa.Column("gap_p99_ms", sa.Integer),
        sa.Column("gap_max_ms", sa.Integer),
        sa.Column("bytes_in", sa.BigInteger),
        sa.Column("bytes_out", sa.BigInteger),
        sa.Column("peer", sa.String),
        sa.Column("client", sa.String),
        sa.Column("client_id", sa.String),
        sa.Column("dropped", sa.Text),
        sa.Column("instance", sa.String, nullable=False),
        sa.Column("has_content", sa.Boolean, nullable=False),
        sa.Index("requests_by_time", "at_ms", "seq"),
        sa.Index("requests_of_workspace", "workspace_id", "at_ms", "seq"),
        sa.Index("requests_of_key", "key_id", "at_ms", "seq"),
        sa.Index("requests_of_completion", "completion_id", "seq"),
        sqlite_autoincrement=True,
    )


def _make_usage() -> None:
    op.create_table(
        "usage_hours",
        sa.Column("hour", sa.BigInteger, primary_key=True),
        sa.Column("workspace_id", sa.String, primary_key=True),
        sa.Column("key_id", sa.String, primary_key=True),
        sa.Column("model", sa.String, primary_key=True),
        sa.Column("provider", sa.String, primary_key=True),
        sa.Column("requests", sa.BigInteger, nullable=False),
        sa.Column("errors", sa.BigInteger, nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger, nullable=False),
        sa.Column("cached_tokens", sa.BigInteger, nullable=False),
        sa.Column("completion_tokens", sa.BigInteger, nullable=False),
        sa.Column("reasoning_tokens", sa.BigInteger, nullable=False),
        sa.Column("cost", sa.BigInteger, nullable=False),
        sa.Column("unpriced", sa.BigInteger, nullable=False),
        sa.Index("usage_of_key", "key_id", "hour"),
    )
    op.create_table(
        "contents",
        sa.Column("request_id", sa.String, primary_key=True),
        sa.Column("workspace_id", sa.String, nullable=False),
        sa.Column("key_id", sa.String, nullable=False, index=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False, index=True),
        sa.Column("prompt", sa.LargeBinary, nullable=False),
        sa.Column("answer", sa.LargeBinary, nullable=False),
        sa.Column("upstream_frames", sa.LargeBinary, nullable=False),
        sa.Column("caller_frames", sa.LargeBinary, nullable=False),
        sa.Column("is_cut", sa.Boolean, nullable=False),
    )


def _make_administration() -> None:
    op.create_table(
        "audit",
        sa.Column("seq", _SEQUENCE, primary_key=True, autoincrement=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.String, nullable=False),
        sa.Column("workspace_id", sa.String),
        sa.Column("action", sa.String, nullable=False),
        sa.Column("object", sa.String, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("previous", sa.LargeBinary, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "secrets",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "sessions",
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("used_ms", sa.BigInteger, nullable=False),
    )
