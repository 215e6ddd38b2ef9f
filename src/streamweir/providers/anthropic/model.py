"""What each Claude model supports: one row per generation, found by the model's name.

Anthropic answers with 400 if a request has a member that the model does not support. Models differ in how they think,
whether thinking can be turned off, and whether they support sampling parameters or a forced tool call. A row is valid
from its version on, until the next row of the same family: a model that is newer than this table is treated like the
newest known one. If a name cannot be parsed, everything is sent as requested, and the service decides.

Sources: platform.claude.com, "Troubleshooting thinking" (the table of models), "Thinking" (limits and feature
compatibility), "Effort", "Structured outputs", the pages of the models.
"""

import re
from enum import StrEnum

from msgspec import Struct

_NEW_NAME = re.compile(r"claude-(?P<family>[a-z]+)(?:-(?P<major>\d{1,2})(?:[-.](?P<minor>\d{1,2}))?)?(?!\d)")
_OLD_NAME = re.compile(r"claude-(?P<major>\d)(?:[-.](?P<minor>\d))?-(?P<family>[a-z]+)")


class Thinking(StrEnum):
    NONE = "none"
    BUDGET = "budget"
    """`enabled`, with a budget in tokens."""
    EITHER = "either"
    ADAPTIVE = "adaptive"
    """`adaptive`, controlled by `output_config.effort`."""


class Traits(Struct, frozen=True, kw_only=True):
    max_output_tokens: int
    thinking: Thinking = Thinking.ADAPTIVE
    thinks_by_default: bool = False
    off: str | None = "disabled"
    """The type of `thinking` that turns thinking off; None if it cannot be turned off."""
    efforts: tuple[str, ...] = ()
    takes_sampling: bool = False
    """temperature, top_p and top_k may differ from their defaults."""
    takes_both_samplings: bool = False
    """temperature and top_p may both be set in one request."""
    takes_forced_tool: bool = True
    takes_schema: bool = True
    """Structured outputs: `output_config.format`, and `strict` tools."""


_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_EFFORTS_4_6 = ("low", "medium", "high", "max")

_NEWEST = Traits(max_output_tokens=128_000, thinks_by_default=True, efforts=_EFFORTS)
_NEVER_OFF = Traits(max_output_tokens=128_000, thinks_by_default=True, efforts=_EFFORTS, off=None)
_NEVER_OFF_OR_FORCED = Traits(
    max_output_tokens=128_000, thinks_by_default=True, efforts=_EFFORTS, off=None, takes_forced_tool=False
)
_EITHER = Traits(max_output_tokens=128_000, thinking=Thinking.EITHER, efforts=_EFFORTS_4_6, takes_sampling=True)


def _budgeted(max_output_tokens: int, *, both: bool = True, schema: bool = False) -> Traits:
    return Traits(
        max_output_tokens=max_output_tokens,
        thinking=Thinking.BUDGET,
        takes_sampling=True,
        takes_both_samplings=both,
        takes_schema=schema,
    )


def _without_thinking(max_output_tokens: int) -> Traits:
    return Traits(
        max_output_tokens=max_output_tokens,
        thinking=Thinking.NONE,
        takes_sampling=True,
        takes_both_samplings=True,
        takes_schema=False,
    )


_ROWS: dict[str, tuple[tuple[tuple[int, int], Traits], ...]] = {
    "fable": (((5, 1), _NEVER_OFF_OR_FORCED), ((0, 0), _NEVER_OFF)),
    "mythos": (((5, 1), _NEVER_OFF_OR_FORCED), ((0, 0), _NEVER_OFF)),
    "opus": (
        ((5, 5), _NEVER_OFF_OR_FORCED),
        ((5, 0), _NEWEST),
        ((4, 7), Traits(max_output_tokens=128_000, efforts=_EFFORTS)),
        ((4, 6), _EITHER),
        ((4, 5), _budgeted(64_000, both=False, schema=True)),
        ((4, 1), _budgeted(32_000, both=False)),
        ((4, 0), _budgeted(32_000)),
        ((1, 0), _without_thinking(4096)),
    ),
    "sonnet": (
        (
            (5, 5),
            Traits(
                max_output_tokens=128_000,
                thinks_by_default=True,
                efforts=_EFFORTS,
                off="between_tools",
                takes_forced_tool=False,
            ),
        ),
        ((5, 0), _NEWEST),
        ((4, 6), _EITHER),
        ((4, 5), _budgeted(64_000, both=False, schema=True)),
        ((3, 7), _budgeted(64_000)),
        ((3, 5), _without_thinking(8192)),
        ((1, 0), _without_thinking(4096)),
    ),
    "haiku": (
        ((5, 0), _NEWEST),
        ((4, 5), _budgeted(64_000, both=False, schema=True)),
        ((3, 5), _without_thinking(8192)),
        ((1, 0), _without_thinking(4096)),
    ),
}

UNKNOWN = _budgeted(8192, schema=True)
"""For a name that cannot be parsed: conservative values."""


def traits_of(model: str) -> Traits:
    """`model` is the upstream's name; prefixes and suffixes of a platform or gateway are ignored."""
    name = model.lower()
    match = _OLD_NAME.search(name) or _NEW_NAME.search(name)
    if match is None:
        return UNKNOWN
    version = (int(match["major"] or 0), int(match["minor"] or 0))
    for since, traits in _ROWS.get(match["family"], ()):
        if version >= since:
            return traits
    return UNKNOWN
