"""What is written down while requests run: the entries of the journal, and of a batch for the database.

An entry says everything that its rows need, so that it can be applied by another process, later,
and again: applied twice it changes nothing the second time. All text in it is plain: whoever makes
one has taken out what a database does not take (`plain`).
"""

import re

from msgspec import Struct

from streamweir.store.db.request_log import LONGEST_NAME, Row

_NOT_PLAIN = re.compile("[\x00\ud800-\udfff]")


def plain(text: str) -> str:
    """Without what PostgreSQL or UTF-8 does not take: NUL and lone surrogates become U+FFFD."""
    return _NOT_PLAIN.sub("\ufffd", text)


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
