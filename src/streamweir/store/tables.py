"""The tables, for SQLite and PostgreSQL alike. `migrations/` makes them; a test holds the two against each other.

Money is in integer nano-dollars, moments in Unix milliseconds, JSON in text that only this program
reads. The ledger is append-only: its rows are never changed and never deleted, and the balance of a
workspace is the sum of its amounts. `accounts` holds the same sums ready made, changed in the same
transaction as the rows that change them. Request ids begin with the time, so that their order is
the order of arrival.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData()

_Sequence = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts up by itself only in a column of the type INTEGER."""

workspaces = Table(
    "workspaces",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("prepaid", Boolean, nullable=False),  # spends only what was credited before
    Column("created_ms", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False, index=True),  # of the change that made it what it is
)

keys = Table(
    "keys",
    metadata,
    Column("id", String, primary_key=True),
    Column("workspace_id", String, nullable=False, index=True),
    Column("name", String, nullable=False),
    Column("origin", String, nullable=False),  # store | file: the operator's file rules over the latter
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("last4", String, nullable=False),
    Column("scopes", Text, nullable=False),  # JSON list
    Column("models", Text),  # JSON list; NULL: every model
    Column("dialect", String),
    Column("rpm", BigInteger),
    Column("tpm", BigInteger),
    Column("max_streams", BigInteger),
    Column("budget_nano", BigInteger),
    Column("budget_period", String),  # day | week | month | total
    Column("log_content", Boolean, nullable=False),
    Column("expires_ms", BigInteger),
    Column("created_ms", BigInteger, nullable=False),
    Column("revoked_ms", BigInteger),
    Column("old_digest", LargeBinary, unique=True),  # of the secret before the last rotation
    Column("old_until_ms", BigInteger),
    Column("version", BigInteger, nullable=False, index=True),
)

counters = Table(
    "counters",
    metadata,
    # `changes`: the newest version of workspaces, keys and credits; `audit`: how many rows the audit log has
    Column("name", String, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

accounts = Table(
    "accounts",
    metadata,
    # `ws:{workspace}`, or `key:{key}:{period}` for a key with a budget, the period as `policy.budget` names it
    Column("id", String, primary_key=True),
    Column("workspace_id", String, nullable=False, index=True),
    Column("key_id", String, index=True),
    Column("granted", BigInteger, nullable=False),  # credits, of a workspace alone
    Column("spent", BigInteger, nullable=False),
    Column("held", BigInteger, nullable=False),
)

ledger = Table(
    "ledger",
    metadata,
    Column("seq", _Sequence, primary_key=True, autoincrement=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("kind", String, nullable=False),  # hold | extend.{n} | settle | credit
    Column("workspace_id", String, nullable=False),
    Column("key_id", String),
    Column("request_id", String),  # NULL for a credit
    Column("amount", BigInteger, nullable=False),  # hold, extend: -held; settle: +held - cost; credit: +credited
    Column("cost", BigInteger),  # of a settlement; NULL where the model has no price
    Column("note", Text),
    UniqueConstraint("request_id", "kind", name="ledger_once"),
    Index("ledger_of_workspace", "workspace_id", "seq"),
)

open_requests = Table(
    "open_requests",
    metadata,
    Column("request_id", String, primary_key=True),
    Column("instance", String, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("workspace_id", String, nullable=False),
    Column("key_id", String, nullable=False),
    Column("key_name", String, nullable=False),
    Column("dialect", String, nullable=False),
    Column("model", String, nullable=False),
    Column("target", String),
    Column("stream", Boolean, nullable=False),
    Column("held", BigInteger, nullable=False),
    Column("account", String),  # of the key's budget
    Column("prices", Text, nullable=False),  # JSON: what an orphan is settled by, `policy.prices.Quote`
    Column("prompt_tokens", BigInteger, nullable=False),  # estimated
    Column("output_tokens", BigInteger, nullable=False),  # delivered so far, estimated
    Column("progress_ms", BigInteger),
    Column("cancel_ms", BigInteger),  # an operator wants it stopped
    Column("idempotency", LargeBinary),  # the digest by which `idempotency` knows it
    # What is asked every second. All else is asked seldom, of a table that is as short as the traffic is high.
    Index(
        "open_requests_cancelled",
        "instance",
        sqlite_where=text("cancel_ms IS NOT NULL"),
        postgresql_where=text("cancel_ms IS NOT NULL"),
    ),
)

requests = Table(
    "requests",
    metadata,
    # Rows come in the order in which requests end; `logs --follow` goes by it, so no number is used twice.
    Column("seq", _Sequence, primary_key=True, autoincrement=True),
    Column("request_id", String, nullable=False, unique=True),
    Column("completion_id", String),
    Column("at_ms", BigInteger, nullable=False),
    Column("workspace_id", String),
    Column("key_id", String),
    Column("key_name", String),
    Column("dialect", String),
    Column("model", String),
    Column("target", String),
    Column("attempts", Text, nullable=False),  # JSON list of {target, error, duration_s, resends}
    Column("stream", Boolean, nullable=False),
    Column("status", Integer, nullable=False),
    Column("verdict", String, nullable=False),
    Column("error", String),
    Column("finish", String),
    Column("prompt_tokens", BigInteger),
    Column("completion_tokens", BigInteger),
    Column("usage", Text),  # JSON: the buckets of `core.usage.Usage` that were reported
    Column("usage_source", String),
    Column("flags", Text),  # JSON list: usage_anomaly, ...
    Column("held", BigInteger),
    Column("cost", BigInteger),
    Column("price_version", String),
    Column("ttft_ms", Integer),
    Column("duration_ms", Integer, nullable=False),
    Column("chunks", Integer),
    Column("gap_p50_ms", Integer),
    Column("gap_p99_ms", Integer),
    Column("gap_max_ms", Integer),
    Column("bytes_in", BigInteger),  # the request's body
    Column("bytes_out", BigInteger),
    Column("peer", String),
    Column("client", String),  # its user-agent
    Column("client_id", String),
    Column("dropped", Text),  # JSON list
    Column("instance", String, nullable=False),
    Column("has_content", Boolean, nullable=False),
    Index("requests_by_time", "at_ms", "seq"),
    Index("requests_of_workspace", "workspace_id", "at_ms", "seq"),
    Index("requests_of_key", "key_id", "at_ms", "seq"),
    Index("requests_of_completion", "completion_id", "seq"),
    sqlite_autoincrement=True,
)

usage_hours = Table(
    "usage_hours",
    metadata,
    # Sums that outlive the rows they were made of. `hour`: Unix hours.
    Column("hour", BigInteger, primary_key=True),
    Column("workspace_id", String, primary_key=True),
    Column("key_id", String, primary_key=True),
    Column("model", String, primary_key=True),
    Column("provider", String, primary_key=True),
    Column("requests", BigInteger, nullable=False),
    Column("errors", BigInteger, nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
    Column("reasoning_tokens", BigInteger, nullable=False),
    Column("cost", BigInteger, nullable=False),
    Column("unpriced", BigInteger, nullable=False),  # requests without a price, which `cost` leaves out
    Index("usage_of_key", "key_id", "hour"),  # what a key has spent in a period
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("key_id", String, primary_key=True),
    Column("digest", LargeBinary, primary_key=True),  # of what the caller sent as Idempotency-Key
    Column("body_digest", LargeBinary, nullable=False),
    Column("request_id", String, nullable=False),
    Column("is_over", Boolean, nullable=False),
    Column("until_ms", BigInteger, nullable=False, index=True),
)

contents = Table(
    "contents",
    metadata,
    # Of keys that asked for it alone. Each body is compressed (zlib) and bounded.
    Column("request_id", String, primary_key=True),
    Column("workspace_id", String, nullable=False),
    Column("key_id", String, nullable=False, index=True),
    Column("at_ms", BigInteger, nullable=False, index=True),
    Column("prompt", LargeBinary, nullable=False),  # JSON text
    Column("answer", LargeBinary, nullable=False),  # text
    Column("upstream_frames", LargeBinary, nullable=False),  # JSON list of [ms since arrival, text]
    Column("caller_frames", LargeBinary, nullable=False),
    Column("is_cut", Boolean, nullable=False),  # more than is kept
)

audit = Table(
    "audit",
    metadata,
    Column("seq", _Sequence, primary_key=True, autoincrement=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("actor", String, nullable=False),  # admin | key:{id} | cli | system
    Column("workspace_id", String),
    Column("action", String, nullable=False),  # `key.create`
    Column("object", String, nullable=False),
    Column("detail", Text, nullable=False),  # JSON, without secrets
    Column("previous", LargeBinary, nullable=False),
    Column("digest", LargeBinary, nullable=False),
)

secrets = Table(
    "secrets",
    metadata,
    Column("name", String, primary_key=True),  # admin
    Column("digest", LargeBinary, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    Column("digest", LargeBinary, primary_key=True),  # of the cookie
    Column("created_ms", BigInteger, nullable=False),
    Column("used_ms", BigInteger, nullable=False),
)

instances = Table(
    "instances",
    metadata,
    # A process that opens requests. Silent for too long, it is dead, and its open requests are orphans.
    Column("id", String, primary_key=True),
    Column("node", String, nullable=False),  # the workers of one supervisor share it
    Column("started_ms", BigInteger, nullable=False),
    Column("seen_ms", BigInteger, nullable=False),
    Column("stopped_ms", BigInteger),
)

leases = Table(
    "leases",
    metadata,
    Column("name", String, primary_key=True),  # what one process at a time may do: reconcile, purge
    Column("holder", String, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
)
