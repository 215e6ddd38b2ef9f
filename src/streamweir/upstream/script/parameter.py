"""The name of a simulated model: a script, and its parameters as in the query of an address.

    lorem?words=200&pace_ms=20

What each parameter takes stands in one table, which reading, its complaints and the documentation
share. What is wrong is told to the caller, for it was the caller who chose the name.
"""

from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import parse_qsl

from msgspec import Struct

from streamweir.core.errors import CallerError

USAGES = ("own", "finish", "every", "twice", "none", "zero", "absurd")
CUTS = ("fin", "rst", "end", "half-frame", "no-done", "no-finish")

_LONGEST_WAIT_MS = 600_000

TAKES: dict[str, range | tuple[str, ...] | None] = {
    # A whole number of the range, one of the words, or (None) any text.
    "text": None,
    "chunk": range(1, 65_537),
    "pace_ms": range(_LONGEST_WAIT_MS + 1),
    "first_ms": range(_LONGEST_WAIT_MS + 1),
    "usage": USAGES,
    "finish": ("stop", "length", "content_filter"),
    "seed": range(1_000_001),
    "words": range(1, 10_001),
    "calls": range(1, 17),
    "status": range(400, 600),
    "code": None,
    "retry_after": range(100_001),
    "at": range(100_001),
    "how": CUTS,
    "bytes": range(1, 64 * 1024 * 1024 + 1),
}
COMMON = ("text", "chunk", "pace_ms", "first_ms", "usage", "finish", "seed")
"""What every script takes; the others are named by the scripts that take them."""


class Options(Struct, frozen=True, kw_only=True):
    text: str | None = None
    """Said in place of the script's own text."""
    chunk: int | None = None
    """Characters per delta; None: a token per delta."""
    pace_ms: int = 0
    first_ms: int = 0
    usage: str = "own"
    finish: str | None = None
    seed: int = 0
    words: int = 60
    calls: int = 2
    status: int = 500
    code: str | None = None
    retry_after: int | None = None
    at: int | None = None
    """How many frames go out before the fault; None: it takes the place of the whole answer."""
    how: str = "fin"
    bytes: int = 2 * 1024 * 1024


def refused(message: str) -> CallerError:
    return CallerError("invalid_value", message, param="model")


def read_options(query: str, script: str, own: Collection[str], defaults: Mapping[str, Any]) -> Options:
    """The parameters of a script, which takes the common ones and its `own`; or a `CallerError`."""
    values: dict[str, Any] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in COMMON and name not in own:
            known = ", ".join((*own, *COMMON))
            raise refused(f"The simulator's script {script} has no parameter {shown(name)}. It takes: {known}.")
        if name in values:
            raise refused(f"The simulator's parameter {name} stands more than once.")
        values[name] = _read(name, value)
    return Options(**{**defaults, **values})


def shown(text: str) -> str:
    """A caller's word as it stands in a complaint."""
    return repr(text[:40])


def _read(name: str, value: str) -> int | str:
    takes = TAKES[name]
    if takes is None:
        return value
    if isinstance(takes, range):
        is_number = value.isascii() and value.isdecimal() and len(value) < 10
        if is_number and int(value) in takes:
            return int(value)
        raise refused(f"The simulator's parameter {name} is a whole number from {takes[0]} to {takes[-1]}.")
    if value in takes:
        return value
    raise refused(f"The simulator's parameter {name} is one of {', '.join(takes)}.")
