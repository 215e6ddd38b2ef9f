"""What is written down while requests run: the entries of the journal, and of a batch for the database.

An entry says everything that its rows need, so that it can be applied by another process, later,
and again: applied twice it changes nothing the second time. All text in it is plain: whoever makes
one has taken out what a database does not take (`plain`).
"""

import re

from msgspec import Struct

_NOT_PLAIN = re.compile("[\x00\ud800-\udfff]")


def plain(text: str) -> str:
    """Without what PostgreSQL or UTF-8 does not take: NUL and lone surrogates become U+FFFD."""
    return _NOT_PLAIN.sub("\ufffd", text)


LONGEST_NAME = 256
"""Of what callers and providers choose: names of models, ids."""


def short(text: str) -> str:
    """Plain, and no longer than a name may be."""
    if len(text) <= LONGEST_NAME and text.isascii() and text.isprintable():
        return text  # nearly always
    return plain(text[:LONGEST_NAME])


class Hold(Struct, frozen=True, kw_only=True, tag="hold", omit_defaults=True):
    """A request is about to go to an upstream. Opens its row."""

    request_id: str
    instance: str
    at_ms: int
    workspace_id: str
    key_id: str
    key_name: str
    dialect: str
    model: str
    stream: bool
    amount: int
    """Held, nano-dollars."""
    account: str | None = None
    """Of the key's budget, in the period of the admission: `key:{key}:{period}`."""
    prices: str
    prompt_tokens: int
    idempotency: bytes | None = None
    body_digest: bytes | None = None


class Extend(Struct, frozen=True, kw_only=True, tag="extend", omit_defaults=True):
    """The answer runs beyond its hold: more is held. The ledger's kind is `extend.{number}`, from 1."""

    request_id: str
    at_ms: int
    number: int
    amount: int
    """On top of what was held before."""


class Progress(Struct, frozen=True, kw_only=True, tag="progress", omit_defaults=True):
    """How far the open requests of a process are: what an orphan is settled by, and what operators see of them."""

    at_ms: int
    rows: list[tuple[str, str, int]]
    """Request id, target, output tokens delivered so far."""
    times: list[tuple[int | None, int | None]] = []
    """Of each of them: when the first token went out, and the last piece. Empty: they are not known, as in a journal
    from before they were told."""


class Row(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The terminal row of a request: the columns of `tables.requests`, by their names."""

    request_id: str
    at_ms: int
    instance: str
    status: int
    verdict: str
    duration_ms: int
    completion_id: str | None = None
    workspace_id: str | None = None
    key_id: str | None = None
    key_name: str | None = None
    dialect: str | None = None
    model: str | None = None
    target: str | None = None
    attempts: str = "[]"
    stream: bool = False
    error: str | None = None
    finish: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    usage: str | None = None
    usage_source: str | None = None
    flags: str | None = None
    held: int | None = None
    cost: int | None = None
    price_version: str | None = None
    ttft_ms: int | None = None
    chunks: int | None = None
    gap_p50_ms: int | None = None
    gap_p99_ms: int | None = None
    gap_max_ms: int | None = None
    bytes_in: int | None = None
    bytes_out: int | None = None
    peer: str | None = None
    client: str | None = None
    client_id: str | None = None
    dropped: str | None = None
    has_content: bool = False
    service_tier: str | None = None
    rates: str | None = None
    admitted_ms: int | None = None
    settled_ms: int | None = None
    strip: str | None = None


class Settle(Struct, frozen=True, kw_only=True, tag="settle", omit_defaults=True):
    """A request that was held is over. `row.cost` is what it cost; its hold is released whatever that is."""

    row: Row
    account: str | None = None
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    frees_idempotency: bool = False
    """Nothing was delivered and nothing charged: the same Idempotency-Key may be tried again."""


class Refused(Struct, frozen=True, kw_only=True, tag="refused", omit_defaults=True):
    """A request that was refused before anything was held for it: a row of the log, and no money."""

    row: Row


Entry = Hold | Extend | Progress | Settle | Refused
