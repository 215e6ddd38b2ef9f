"""Whether a report of usage can be true of the request it is about, and how much of one that cannot is billed.

What is beyond it is flagged, and billed as it was reported: it may be true all the same, and a guess of
our own would bill next to nothing. Only a bound that the operator sets limits it, for a slip of a decimal
point (`bounded`). Counts that no count can be (negative, fractions) never get here: those are our own to
count. The bounds of belief are wide on purpose. Providers bill for much that nobody sees: reasoning,
templates, what their own tools have read, pictures that were named by a link.
"""

from msgspec import Struct, structs

from streamweir.core.usage import Usage

_OVERRUN = 4
"""How many times its limit an answer may be, as in `server.relay.deadlines`: beyond it would have been cut."""
_OUTPUT_SLACK = 8192
"""A picture in an answer is a thousand tokens or two; a limit may be a handful."""
_UNSEEN_OUTPUT = 262_144
"""Reasoning that is billed and not shown: twice the longest answer that a model of today can give."""
_UNSEEN_PROMPT = 65_536
"""Templates, and what a provider's own search put before the question."""
_REMOTE_PROMPT = 2_097_152
"""The widest context there is: a link or a file's name says nothing of what stands behind it."""
MAX_BILLED_TOKENS = 10_000_000
_COUNTS = (
    "input_uncached",
    "cache_read",
    "cache_write_5m",
    "cache_write_1h",
    "audio_input",
    "output",
    "reasoning",
    "audio_output",
)


class UsageBounds(Struct, frozen=True):
    """What a request can have used at most, as far as the request itself tells."""

    request_bytes: int
    """Of the body that went to the provider."""
    max_output: int | None = None
    """The limit that was asked for, of all choices together."""
    is_unbounded: bool = False
    """It holds pictures, recordings or files, or lets the provider read what is not in it: stored content, links, what
    its own tools find, in as many steps as these take."""
    max_billed_tokens: int = MAX_BILLED_TOKENS
    """Tokens, of prompt and answer together, of a report that cannot be true."""


def is_possible(usage: Usage, bounds: UsageBounds, response_bytes: int) -> bool:
    """`response_bytes`: of the text that came. A token is never less than a byte of text."""
    unseen = _REMOTE_PROMPT if bounds.is_unbounded else _UNSEEN_PROMPT
    if usage.prompt_tokens > bounds.request_bytes + unseen:
        return False
    if max(usage.reasoning or 0, usage.audio_output or 0) > response_bytes + _UNSEEN_OUTPUT:
        return False
    limit = bounds.max_output
    beyond_text = _UNSEEN_OUTPUT if limit is None or bounds.is_unbounded else _OVERRUN * limit + _OUTPUT_SLACK
    return usage.output <= response_bytes + beyond_text


def bounded(usage: Usage, limit: int) -> Usage:
    """With no more than `most` tokens in all, each count in its proportion. The same object where it has no more."""
    total = usage.total_tokens
    if total <= limit:
        return usage
    counts = {name: getattr(usage, name) for name in _COUNTS}
    return structs.replace(
        usage,
        **{name: None if count is None else count * limit // total for name, count in counts.items()},
        accepted_prediction=None,
        rejected_prediction=None,
        prompt_details=None,
        completion_details=None,
    )
