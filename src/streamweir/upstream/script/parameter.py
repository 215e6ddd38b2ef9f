"""Parses the name of a simulated model: a script, and its parameters as in the query of a URL.

    lorem?words=200&pace_ms=20

One table defines the allowed values of each parameter, for parsing, error messages and documentation. Errors are
reported to the caller, because the caller chose the name.
"""

from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import parse_qsl

from msgspec import Struct

from streamweir.core.errors import CallerError
from streamweir.core.text import cut

USAGES = ("own", "finish", "every", "twice", "none", "zero", "absurd")
CUTS = ("fin", "rst", "end", "half-frame", "no-done", "no-finish")

_MAX_WAIT_MS = 600_000

PARAMETER_VALUES: dict[str, range | tuple[str, ...] | None] = {
    # An integer of the range, one of the words, or any text (None).
    "text": None,
    "chunk": range(1, 65_537),
    "pace_ms": range(_MAX_WAIT_MS + 1),
    "first_ms": range(_MAX_WAIT_MS + 1),
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
"""The parameters of every script; each script lists its further ones."""


class Options(Struct, frozen=True, kw_only=True):
    text: str | None = None
    """Replaces the script's own text."""
    chunk: int | None = None
    """Characters per delta; None: one token per delta."""
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
    """The number of frames before the failure; None: the failure replaces the answer."""
    how: str = "fin"
    bytes: int = 2 * 1024 * 1024


def refused(message: str) -> CallerError:
    return CallerError("invalid_value", message, param="model")


def read_options(query: str, script: str, own: Collection[str], defaults: Mapping[str, Any]) -> Options:
    """Parses the parameters of a script, the common ones and its `own`. Raises `CallerError`."""
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
    """A value of the caller for an error message."""
    return repr(cut(text, 40))


def _read(name: str, value: str) -> int | str:
    allowed = PARAMETER_VALUES[name]
    if allowed is None:
        return value
    if isinstance(allowed, range):
        is_number = value.isascii() and value.isdecimal() and len(value) < 10
        if is_number and int(value) in allowed:
            return int(value)
        raise refused(f"The simulator's parameter {name} is a whole number from {allowed[0]} to {allowed[-1]}.")
    if value in allowed:
        return value
    raise refused(f"The simulator's parameter {name} is one of {', '.join(allowed)}.")
