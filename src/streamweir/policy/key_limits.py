"""The kinds of limits that a key may have, money apart: each is declared here, once.

A kind is a field of `KeyLimits` and an entry of `KINDS`. From these follow the settings of the file, the columns of the
store, the members of the API, the options of the command line and the fields of the console (`scripts/generate.py`).
What a kind counts is decided in `policy.limits`, and for several processes in `store/limits/limits.lua`. Pure.
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
    """What it counts, in one word: a refusal says it (`policy.limit_request.Decision.because`)."""
    code: str
    """Of the refusal."""
    refusal: str
    """What a caller is told, with the limit."""
    maximum: int
    label: str
    unit: str
    """Behind the number, on the command line."""
    brief: str
    """Behind the number, in the console."""


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
    """UNSET stays as it is, None takes a limit away."""

    rpm: PerMinute | None | UnsetType = UNSET
    tpm: PerMinute | None | UnsetType = UNSET
    max_streams: Streams | None | UnsetType = UNSET


def with_limits(base: type[Struct], *, is_shown: bool = False) -> type[Struct]:
    """`base`, and behind its fields the limits: a struct has but one base, and some show their fields in order.

    `is_shown`: they have no default, for they are always there.
    """
    fields: list[Any] = []
    for field in structs.fields(KeyLimits):
        fields.append((field.name, int | None) if is_shown else (field.name, field.type, None))
    return defstruct(f"{base.__name__}AndLimits", fields, bases=(base,), kw_only=True)


def limits_of(limits: KeyLimits) -> dict[str, Any]:
    """By their names: what another struct that has them is made with."""
    return {name: getattr(limits, name) for name in NAMES}


def has_limits(limits: KeyLimits) -> bool:
    return any(getattr(limits, name) is not None for name in NAMES)
