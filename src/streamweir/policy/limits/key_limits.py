"""The kinds of limits that a key may have, except money: each is declared here, once.

A kind is a field of `KeyLimits` and an entry of `KINDS`. The settings of the file, the columns of the store, the
members of the API, the options of the command line and the fields of the console are derived from these
(`scripts/generate.py`). What a kind counts is implemented in `policy.limits.local`, and for several processes in
`store/limits/limits.lua`. Targets, providers and credentials can have the same kinds (`policy.limits.target_limits`).
Pure.
"""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, defstruct, structs

RATE, STREAMS = "rate_limit_exceeded", "concurrency_limit_exceeded"

MAX_PER_MINUTE = 1_000_000_000
MAX_STREAMS = 1_000_000
PerMinute = Annotated[int, Meta(ge=1, le=MAX_PER_MINUTE)]
Streams = Annotated[int, Meta(ge=1, le=MAX_STREAMS)]


class LimitKind(Struct, frozen=True, kw_only=True):
    name: str
    counts: str
    """What it counts, in one word: a refusal contains it (`policy.limits.limit_request.Decision.limited_by`)."""
    code: str
    """The error code of the refusal."""
    refusal: str
    """The message for the caller, with the limit."""
    maximum: int
    label: str
    unit: str
    """After the number, on the command line."""
    brief: str
    """After the number, in the console."""


KINDS = (
    LimitKind(
        name="rpm",
        counts="requests",
        code=RATE,
        refusal="Rate limit reached: {} requests per minute.",
        maximum=MAX_PER_MINUTE,
        label="requests per minute",
        unit="rpm",
        brief="requests/min",
    ),
    LimitKind(
        name="tpm",
        counts="tokens",
        code=RATE,
        refusal="Rate limit reached: {} tokens per minute.",
        maximum=MAX_PER_MINUTE,
        label="tokens per minute",
        unit="tpm",
        brief="tokens/min",
    ),
    LimitKind(
        name="max_streams",
        counts="streams",
        code=STREAMS,
        refusal="Concurrency limit reached: {} requests at the same time.",
        maximum=MAX_STREAMS,
        label="concurrent requests",
        unit="streams",
        brief="concurrent",
    ),
)
"""In the order in which they are shown, and sent to Valkey."""
NAMES = tuple(kind.name for kind in KINDS)
BY_COUNT = {kind.counts: kind for kind in KINDS}


class KeyLimits(Struct, frozen=True, kw_only=True):
    """None: no limit."""

    rpm: PerMinute | None = None
    tpm: PerMinute | None = None
    max_streams: Streams | None = None


class LimitChanges(Struct, frozen=True, kw_only=True):
    """UNSET: no change. None: removes the limit."""

    rpm: PerMinute | None | UnsetType = UNSET
    tpm: PerMinute | None | UnsetType = UNSET
    max_streams: Streams | None | UnsetType = UNSET


def with_limits(base: type[Struct], *, is_shown: bool = False) -> type[Struct]:
    """`base`, with the limits after its fields: a struct has only one base, and some show their fields in order.

    `is_shown`: they have no default, because they are always present.
    """
    fields: list[Any] = []
    for field in structs.fields(KeyLimits):
        fields.append((field.name, int | None) if is_shown else (field.name, field.type, None))
    return defstruct(f"{base.__name__}AndLimits", fields, bases=(base,), kw_only=True)


def limits_of(limits: KeyLimits) -> dict[str, Any]:
    """The limits by name: arguments for another struct that has them."""
    return {name: getattr(limits, name) for name in NAMES}


def limits_in(settings: object) -> KeyLimits:
    """The limits among other settings, which are fields with the same names."""
    return KeyLimits(**{name: getattr(settings, name) for name in NAMES})


def has_limits(limits: KeyLimits) -> bool:
    return any(getattr(limits, name) is not None for name in NAMES)
