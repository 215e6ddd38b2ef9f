"""The entries of the journal, which are also the entries of a batch for the database.

An entry contains everything that its rows need. So another process can apply it, later and repeatedly: applying it
twice has the same effect as applying it once. All text in an entry is plain: the code that creates an entry removes
the characters that a database does not accept (`plain`).
"""

import re

from msgspec import Struct, structs

from streamweir.store.db.request_log import MAX_NAME_LENGTH, Row

_NOT_PLAIN = re.compile("[\x00\ud800-\udfff]")


def plain(text: str) -> str:
    """Replaces the characters that PostgreSQL or UTF-8 does not accept, NUL and lone surrogates, by U+FFFD."""
    try:
        text.encode()  # several times faster than the search
    except UnicodeEncodeError:
        return _NOT_PLAIN.sub("\ufffd", text)
    return text.replace("\0", "\ufffd") if "\0" in text else text


def short(text: str) -> str:
    """As `plain`, cut to the length of a name."""
    if len(text) <= MAX_NAME_LENGTH and text.isascii() and text.isprintable():
        return text  # nearly always
    return plain(text[:MAX_NAME_LENGTH])


class Hold(Struct, kw_only=True, tag="hold", omit_defaults=True):
    """A request is about to be sent to an upstream: its reservation. Opens the row of the request."""

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
    """The reserved amount, in nano-dollars."""
    account: str | None = None
    """The account of the key's budget in the period of the admission: `key:{key}:{period}`."""
    prices: str
    prompt_tokens: int
    idempotency: bytes | None = None
    body_digest: bytes | None = None
    end_user: str | None = None
    """Like the next two: what the caller says about the request, as it is in the row of the request log."""
    session: str | None = None
    tags: str | None = None
    accounts: tuple[str, ...] = ()
    """The accounts of rules under [[limits]] that it is charged to as well."""


class Extend(Struct, frozen=True, kw_only=True, tag="extend", omit_defaults=True):
    """The answer exceeds its reservation: more is reserved. The ledger's kind is `extend.{number}`, from 1."""

    request_id: str
    at_ms: int
    number: int
    amount: int
    """In addition to what is already reserved."""


class Progress(Struct, frozen=True, kw_only=True, tag="progress", omit_defaults=True):
    """The progress of the open requests of a process. Orphans are settled by it, and operators see it."""

    at_ms: int
    rows: list[tuple[str, str, int]]
    """Request id, target, output tokens that were delivered so far."""
    times: list[tuple[int | None, int | None]] = []
    """For each row: the times at which the first token and the last piece were sent. Empty: not known. Journals of
    older versions do not have them."""
    readers: list[tuple[int, int, int | None] | None] = []
    """For each row: how many read a resumable stream, how often nobody did, and since when nobody does. None, and in
    journals of older versions empty: it is no such stream."""


class Settle(Struct, frozen=True, kw_only=True, tag="settle", omit_defaults=True):
    """A request with a reservation has ended. `row.price` is charged; the whole reservation is released."""

    row: Row
    account: str | None = None
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    accounts: tuple[str, ...] = ()
    """The accounts of rules, for a reservation that is lost."""
    frees_idempotency: bool = False
    """Nothing was delivered and nothing charged: the same Idempotency-Key may be used again."""
    credential: str = ""
    """The name of the provider's credential that answered, if it has several."""
    has_price: bool = False
    """False in the journals of older versions, for which the cost was the price."""

    def priced_row(self) -> Row:
        return self.row if self.has_price else structs.replace(self.row, price=self.row.cost)


class Refused(Struct, frozen=True, kw_only=True, tag="refused", omit_defaults=True):
    """A request that was refused before anything was reserved: a row of the request log, and no money."""

    row: Row


Entry = Hold | Extend | Progress | Settle | Refused
