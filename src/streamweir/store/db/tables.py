"""The tables, the same for SQLite and PostgreSQL. `migrations/` creates them too; a test compares the two.

Money is in integer nano-dollars, times in Unix milliseconds, JSON is text that only this program reads. The ledger is
append-only: its rows are never changed or deleted, and the balance of a workspace is the sum of its amounts. `accounts`
has the same sums precomputed; they change in the same transaction as the rows. Request ids begin with the time, so
their order is the order of arrival.
"""

from typing import Any

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
    TextClause,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.types import TypeEngine

from streamweir.policy.limits.key_limits import NAMES
from streamweir.policy.routing.latency import BUCKETS
from streamweir.store.db.request_log import COLUMNS, DeclaredColumn

metadata = MetaData()

_Sequence = BigInteger().with_variant(Integer, "sqlite")
"""SQLite increments automatically only in a column of the type INTEGER."""


def _index_where(condition: TextClause, name: str, *columns: str) -> Index:
    """An index of some of the rows."""
    return Index(name, *columns, sqlite_where=condition, postgresql_where=condition)


workspaces = Table(
    "workspaces",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("prepaid", Boolean, nullable=False),  # can spend only its credit
    Column("created_ms", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False, index=True),  # of its last change
    Column("price_group", String),  # of the operator's file; NULL: the default one
    Column("member_keys", Text),  # JSON of store.keys.member_keys; NULL: the defaults
)

keys = Table(
    "keys",
    metadata,
    Column("id", String, primary_key=True),
    Column("workspace_id", String, nullable=False, index=True),
    Column("name", String, nullable=False),
    Column("origin", String, nullable=False),  # store | file: the operator's file defines the latter
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("last4", String, nullable=False),
    Column("scopes", Text, nullable=False),  # JSON list
    Column("models", Text),  # JSON list; NULL: every model
    Column("dialect", String),
    *(Column(name, BigInteger) for name in NAMES),
    Column("budget_nano", BigInteger),
    Column("budget_period", String),  # day | week | month | total
    Column("log_content", Boolean, nullable=False),
    Column("expires_ms", BigInteger),
    Column("created_ms", BigInteger, nullable=False),
    Column("revoked_ms", BigInteger),
    Column("old_digest", LargeBinary, unique=True),  # of the secret before the last rotation
    Column("old_until_ms", BigInteger),
    Column("version", BigInteger, nullable=False, index=True),
    Column("show_routing", Boolean, nullable=False, server_default=false()),
    Column("price_group", String),  # NULL: that of its workspace
    Column("show_cost", Boolean, nullable=False, server_default=false()),  # in the usage of every answer
    Column("resumable", Boolean, nullable=False, server_default=false()),  # its callers can come back to streams
    Column("person_id", String, index=True),  # whose key it is: a member of its workspace
    Column("person_since_ms", BigInteger),  # if it was given to the person later; NULL: since it was made
)

people = Table(
    "people",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", String, nullable=False),
    Column("login", String, nullable=False, unique=True),  # the name in the form that is compared
    Column("role", String, nullable=False),  # policy.permission
    Column("workspace_id", String, index=True),  # of a role that is bound to a workspace
    Column("password", Text),  # its argon2id hash with parameters and salt; NULL: it has none
    Column("subject", String, unique=True),  # who it is for the identity provider: issuer and subject
    Column("invitation", LargeBinary, unique=True),  # the digest of the token with which a password can be chosen
    Column("invited_until_ms", BigInteger),
    Column("created_ms", BigInteger, nullable=False),
    Column("seen_ms", BigInteger),  # its last login
    Column("disabled_ms", BigInteger),
    Column("removed_ms", BigInteger),  # the row stays, because the audit log has the name
    Column("email", String),  # by which an account of the identity provider is recognized the first time
    Column("has_provider_role", Boolean, nullable=False, server_default=false()),  # the identity provider says the role
    Index("people_email", "email", unique=True),
)

# Attempts to log in with a password, those that failed or are not decided: for the bounds in policy.login_limit.
login_attempts = Table(
    "login_attempts",
    metadata,
    Column("id", _Sequence, primary_key=True, autoincrement=True),
    Column("at_ms", BigInteger, nullable=False, index=True),
    Column("account", LargeBinary, nullable=False, index=True),  # the digest of the name: a password may be typed there
    Column("address", String, nullable=False, index=True),
)

# Logins that were begun at the identity provider, each good for one return.
sign_ins = Table(
    "sign_ins",
    metadata,
    Column("digest", LargeBinary, primary_key=True),  # of the cookie of the browser that began it
    Column("state", LargeBinary, nullable=False),  # the digest of the state that comes back
    Column("nonce", String, nullable=False),
    Column("verifier", String, nullable=False),  # of PKCE
    Column("issuer", String, nullable=False),
    Column("at_ms", BigInteger, nullable=False, index=True),
)

counters = Table(
    "counters",
    metadata,
    # `changes`: the newest version of workspaces, keys and credits; `audit`: the number of rows in the audit log;
    # `alerts`: the number of the newest alert
    Column("name", String, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

accounts = Table(
    "accounts",
    metadata,
    # `ws:{workspace}`, `key:{key}:{period}` for a key with a budget, the period as `policy.limits.budget` names it, or
    # the account of a rule under [[limits]]
    Column("id", String, primary_key=True),
    Column("workspace_id", String, nullable=False, index=True),
    Column("key_id", String, index=True),
    Column("granted", BigInteger, nullable=False),  # credits; only for a workspace
    Column("spent", BigInteger, nullable=False),
    Column("held", BigInteger, nullable=False),
    Column("until_ms", BigInteger),  # only of a rule: the end of its period, if that ends
    _index_where(text("until_ms IS NOT NULL"), "accounts_until", "until_ms"),
)

limit_rules = Table(
    "limit_rules",
    metadata,
    # The rules under [[limits]] that have accounts, or had them: what is spent is added to all of their accounts.
    Column("workspace_id", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("per", String, primary_key=True),  # user | key | workspace
    Column("key_id", String, primary_key=True),  # empty: all keys
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
    Column("amount", BigInteger, nullable=False),  # hold, extend: -held; settle: +held - price; credit: +credited
    Column("cost", BigInteger),  # of a settlement: what the provider asks for it; NULL if that is not known
    Column("note", Text),
    Column("price", BigInteger),  # of a settlement: what it is sold for; NULL if the model has no price
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
    Column("prices", Text, nullable=False),  # JSON of `policy.pricing.prices.Quote`, by which an orphan is settled
    Column("prompt_tokens", BigInteger, nullable=False),  # estimated
    Column("output_tokens", BigInteger, nullable=False),  # delivered so far, estimated
    Column("progress_ms", BigInteger),
    Column("cancel_ms", BigInteger),  # when an operator stopped it
    Column("idempotency", LargeBinary),  # its digest in the table `idempotency`
    Column("first_ms", BigInteger),  # when the first token was sent
    Column("last_ms", BigInteger),  # when the last piece was sent, as far as is known
    Column("end_user", String),  # like the next two, for the row of an orphan
    Column("session", String),
    Column("tags", Text),
    Column("accounts", Text),  # JSON list: accounts of rules under [[limits]] that it is charged to
    Column("readers", Integer),  # like the next two, of a resumable stream: how many read it, at all nodes
    Column("reader_gap_count", Integer),  # how often nobody read it
    Column("away_since_ms", BigInteger),  # since when nobody reads it
    # For the query of every second. Other queries are rare, and the table is short.
    _index_where(text("cancel_ms IS NOT NULL"), "open_requests_cancelled", "instance"),
)


def _log_column(column: DeclaredColumn) -> Column[Any]:
    if column.about.json is not None:
        kind: type[TypeEngine[Any]] = Text
    elif column.type is int:
        kind = Integer if column.about.is_small else BigInteger
    else:
        kind = Boolean if column.type is bool else String
    return Column(column.name, kind, nullable=column.is_nullable, unique=column.about.is_unique or None)


IS_REFUSED = text("verdict = 'rejected' AND held IS NULL")
"""Of a row of the request log: nothing was reserved, so no model was asked, and it is not in the usage. A provider's
refusal is another matter. In a query, too, as a database knows the index by it."""
_FILTERED = ("model", "target", "verdict", "dialect", "status", "error", "stream", "cost", "price")

requests = Table(
    "requests",
    metadata,
    # Rows are in the order in which requests end; `logs --follow` uses it, so no number is used twice.
    Column("seq", _Sequence, primary_key=True, autoincrement=True),
    *map(_log_column, COLUMNS),
    # Pages, the newest first: of all, of a workspace, of a key. After the order each has all columns that can be
    # filtered by, so filters need only the index, in any combination: for a million rows without a match a tenth of a
    # second, instead of half a second with the rows. The three take 400 MB for a million rows, and writing takes no
    # longer than without them (an index for a single filter, such as the model: 5 % each).
    Index("requests_by_time", "at_ms", "seq", "workspace_id", "key_id", *_FILTERED),
    Index("requests_of_workspace", "workspace_id", "at_ms", "seq", "key_id", *_FILTERED),
    Index("requests_of_key", "key_id", "at_ms", "seq", "workspace_id", *_FILTERED),
    # The id in the chunks. For the request's own id, or its beginning, there is the unique index above.
    Index("requests_of_completion", "completion_id", "seq"),
    _index_where(text("end_user IS NOT NULL"), "requests_of_end_user", "end_user", "at_ms", "seq"),
    _index_where(text("session IS NOT NULL"), "requests_of_session", "session", "at_ms", "seq"),
    # The overview counts them: there are no sums of what was refused.
    _index_where(IS_REFUSED, "requests_refused", "at_ms", "workspace_id", "key_id", "model", "verdict", "held"),
    sqlite_autoincrement=True,
)

USAGE = ("workspace_id", "key_id", "model", "provider")
"""The columns by which usage is counted, besides the time."""
SUMS = (
    "requests",
    "errors",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "cost",
    "unpriced",  # requests without a price, which are not in `price`
    "price",
    "uncosted",  # requests whose cost is not known, which are not in `cost`
    "margin",  # price without cost, of the requests that have both
)
LATER_SUMS = ("price", "uncosted", "margin")
"""Sums that were added later: 0 in a row that has none."""
TTFT = tuple(f"ttft_{bucket:02}" for bucket in range(BUCKETS))
"""The number of streams with their first token within each of the buckets of `policy.routing.latency`."""


def _sum_columns(later: tuple[str, ...]) -> list[Column[int]]:
    return [
        Column(each, BigInteger, nullable=False, server_default=text("0") if each in later else None) for each in SUMS
    ]


def _usage(name: str, unit: str, *more: Index) -> Table:
    """Sums of requests by the time of their reservation, in `unit`s since 1970.

    There are four of these tables because of reads: a row takes 3 us to read, whatever its unit, and there is one for
    each combination of key, model and provider. So a period of any length is read from rows that are as long as its
    steps, and not from sixty times as many.
    """
    return Table(
        name,
        metadata,
        Column(unit, BigInteger, primary_key=True),
        *(Column(each, String, primary_key=True) for each in USAGE),
        *_sum_columns(LATER_SUMS),
        *(Column(each, BigInteger, nullable=False, server_default=text("0")) for each in TTFT),
        *more,
        sqlite_with_rowid=False,  # so that a period is contiguous: a quarter faster
    )


# Kept for two days, like the next.
usage_minutes = _usage("usage_minutes", "minute")
usage_quarters = _usage("usage_quarters", "quarter")
# These are kept longer than the requests. The index: what a key has spent in a period.
usage_hours = _usage("usage_hours", "hour", Index("usage_of_key", "key_id", "hour"))
usage_days = _usage("usage_days", "day")

ATTRIBUTION = ("workspace_id", "key_id", "kind", "value")
"""The columns by which attributed usage is counted, besides the day."""

attribution_days = Table(
    "attribution_days",
    metadata,
    # Sums of requests by what callers say about them, by day. A request has one row of the kinds `end_user` (its value
    # is empty if it has none) and `api`, one for its session and one for each of its tags. Kept like `usage_days`;
    # sessions and tags like the requests.
    Column("day", BigInteger, primary_key=True),
    *(Column(each, String, primary_key=True) for each in ATTRIBUTION),  # kind: end_user | tag | session | api
    Column("digest", String),  # of an end user, as accounts have it (`policy.end_user`)
    *_sum_columns(("margin",)),
    Index("attribution_of_value", "workspace_id", "kind", "value", "day"),
    Index("attribution_of_kind", "kind", "day"),
    _index_where(text("digest IS NOT NULL"), "attribution_of_user", "workspace_id", "digest", "day"),
    sqlite_with_rowid=False,
)

TARGET = ("provider", "model", "credential")
TARGET_SUMS = ("requests", "prompt_tokens", "cached_tokens", "completion_tokens", "cost", "uncosted")

target_hours = Table(
    "target_hours",
    metadata,
    # Sums of requests by what providers write their bills by. Kept like `usage_days`; by the hour, because the days of
    # some begin elsewhere.
    Column("hour", BigInteger, primary_key=True),
    Column("provider", String, primary_key=True),
    Column("model", String, primary_key=True),  # the provider's name for it
    Column("credential", String, primary_key=True),  # empty: the provider has one, or it is not known
    *(Column(each, BigInteger, nullable=False) for each in TARGET_SUMS),
    sqlite_with_rowid=False,
)

alerts = Table(
    "alerts",
    metadata,
    # The outbox: an alert is written with what it is about, and sent later.
    Column("seq", _Sequence, primary_key=True, autoincrement=True),
    Column("id", String, nullable=False, unique=True),  # the same event has the same id, whoever notices it
    Column("at_ms", BigInteger, nullable=False),
    Column("kind", String, nullable=False),  # `budget.threshold`
    Column("workspace_id", String),  # NULL: of the whole gateway
    Column("body", Text, nullable=False),  # JSON, as it is sent
    Index("alerts_of_workspace", "workspace_id", "seq"),
    sqlite_autoincrement=True,
)

alert_deliveries = Table(
    "alert_deliveries",
    metadata,
    Column("webhook", String, primary_key=True),
    Column("alert_seq", BigInteger, primary_key=True),
    Column("attempts", Integer, nullable=False),
    Column("next_ms", BigInteger, nullable=False),  # not before
    Column("delivered_ms", BigInteger),
    Column("given_up_ms", BigInteger),
    Column("error", Text),  # of the last attempt
    # Those that wait: few, at the end of many.
    _index_where(
        text("delivered_ms IS NULL AND given_up_ms IS NULL"), "alert_deliveries_waiting", "webhook", "alert_seq"
    ),
)

alert_conditions = Table(
    "alert_conditions",
    metadata,
    # What was reported last, so that nothing is reported twice.
    Column("subject", String, primary_key=True),  # the id of an account, or `provider:{name}`
    Column("level", Integer, nullable=False),
    Column("basis", BigInteger, nullable=False),  # the amount that the level is measured against, or a time
    Column("until_ms", BigInteger),  # not of interest after this; NULL: always
)

provider_signs = Table(
    "provider_signs",
    metadata,
    # What a process has seen of a provider that may be down.
    Column("provider", String, primary_key=True),
    Column("instance", String, primary_key=True),
    Column("failed_ms", BigInteger),  # when the last of its ejected targets was ejected; NULL: none is
    Column("answered_ms", BigInteger),
)

payments = Table(
    "payments",
    metadata,
    # What was asked for: a report of the payment provider is believed only as far as it agrees with this.
    Column("id", String, primary_key=True),  # ours, which the payment provider repeats
    Column("workspace_id", String, nullable=False, index=True),
    Column("amount", BigInteger, nullable=False),  # nano-dollars
    Column("status", String, nullable=False),  # open | paid | expired
    Column("session_id", String, unique=True),  # the payment provider's
    Column("created_ms", BigInteger, nullable=False),
    Column("paid_ms", BigInteger),
)

payment_events = Table(
    "payment_events",
    metadata,
    Column("id", String, primary_key=True),  # the payment provider's: an event has an effect once
    Column("at_ms", BigInteger, nullable=False),
    Column("kind", String, nullable=False),
    Column("payment_id", String),
    Column("result", String, nullable=False),  # credited | ignored | refused
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("key_id", String, primary_key=True),
    Column("digest", LargeBinary, primary_key=True),  # of the caller's Idempotency-Key
    Column("body_digest", LargeBinary, nullable=False),
    Column("request_id", String, nullable=False),
    Column("is_over", Boolean, nullable=False),
    Column("until_ms", BigInteger, nullable=False, index=True),
)

contents = Table(
    "contents",
    metadata,
    # Only of keys with `log_content`. Each body is compressed (zlib) and bounded.
    Column("request_id", String, primary_key=True),
    Column("workspace_id", String, nullable=False),
    Column("key_id", String, nullable=False, index=True),
    Column("at_ms", BigInteger, nullable=False, index=True),
    Column("prompt", LargeBinary, nullable=False),  # JSON text
    Column("answer", LargeBinary, nullable=False),  # text
    Column("upstream_frames", LargeBinary, nullable=False),  # JSON list of [ms since arrival, text]
    Column("caller_frames", LargeBinary, nullable=False),
    Column("is_cut", Boolean, nullable=False),  # there was more than the limit
)

audit = Table(
    "audit",
    metadata,
    Column("seq", _Sequence, primary_key=True, autoincrement=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("actor", String, nullable=False),  # admin | person:{name} | key:{id} | cli | system
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
    Column("key_id", String),  # the key that opened it; NULL: the admin secret
    Column("key_digest", LargeBinary),  # of that key's secret: the session ends with it
    Column("person_id", String, index=True),  # who logged in
    Column("address", String),  # where from
    Column("browser", String),  # what it says about itself
)

instances = Table(
    "instances",
    metadata,
    # A process that opens requests. Without a heartbeat for too long it is dead, and its open requests are orphans.
    Column("id", String, primary_key=True),
    Column("node", String, nullable=False),  # the workers of one supervisor share it
    Column("started_ms", BigInteger, nullable=False),
    Column("seen_ms", BigInteger, nullable=False),
    Column("stopped_ms", BigInteger),
)

health_reports = Table(
    "health_reports",
    metadata,
    # What a process says about the health of its targets, for the other processes. It replaces what it has said before.
    Column("instance", String, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),  # by the clock that all processes share
    Column("report", Text, nullable=False),  # JSON: server.nodes.report
)

leases = Table(
    "leases",
    metadata,
    Column("name", String, primary_key=True),  # work that one process at a time may do: alerts, purge
    Column("holder", String, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
)
