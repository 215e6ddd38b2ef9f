"""Whether a usage report is plausible for its request, and how much of an implausible one is billed.

An implausible report is flagged and billed as it was reported: it may be true all the same, and the gateway's own
estimate would bill next to nothing. Only a limit of the operator reduces it (`bounded`), against errors such as a
shifted decimal point. Invalid counts (negative, fractions) never get here: then the gateway counts itself. The bounds
are wide on purpose: providers bill for much that is not visible, such as reasoning, templates, content that their own
tools have read, and linked images.
"""

from msgspec import Struct, structs

from streamweir.core.usage import Usage

_OVERRUN = 4
"""An answer may be so many times as long as its limit, as in `server.relay.deadlines`: a longer one is cut."""
_OUTPUT_SLACK = 8192
"""An image in an answer has one or two thousand tokens; a limit may be a handful."""
_UNSEEN_OUTPUT = 262_144
"""Reasoning that is billed and not shown: twice the longest output of today's models."""
_UNSEEN_PROMPT = 65_536
"""Templates, and results of a provider's own search."""
_REMOTE_PROMPT = 2_097_152
"""The largest context window: a link or a file name does not show the size of its content."""
MAX_BILLED_TOKENS = 10_000_000
MAX_SEARCHES = 1000
"""Deep research makes some dozens of searches."""
_COUNTS = (
    "input_uncached",
    "cache_read",
    "cache_write_5m",
    "cache_write_1h",
    "audio_input",
    "image_input",
    "output",
    "reasoning",
    "audio_output",
    "image_output",
)


class UsageBounds(Struct, frozen=True):
    """The maximum that a request can have used, derived from the request itself."""

    request_bytes: int
    """The size of the body that was sent to the provider."""
    max_output: int | None = None
    """The requested limit, for all choices together."""
    is_unbounded: bool = False
    """The request contains images, audio or files, or makes the provider read other content: stored content, links,
    results of its own tools, in any number of steps."""
    max_billed_tokens: int = MAX_BILLED_TOKENS
    """Tokens of prompt and answer together that are billed for an implausible report."""


def is_possible(usage: Usage, bounds: UsageBounds, response_bytes: int) -> bool:
    """`response_bytes`: the size of the received text. A token is at least one byte of text."""
    if usage.searches is not None and usage.searches > MAX_SEARCHES:
        return False
    unseen = _REMOTE_PROMPT if bounds.is_unbounded else _UNSEEN_PROMPT
    if usage.prompt_tokens > bounds.request_bytes + unseen:
        return False
    if max(usage.reasoning or 0, usage.audio_output or 0, usage.image_output or 0) > response_bytes + _UNSEEN_OUTPUT:
        return False
    limit = bounds.max_output
    beyond_text = _UNSEEN_OUTPUT if limit is None or bounds.is_unbounded else _OVERRUN * limit + _OUTPUT_SLACK
    return usage.output <= response_bytes + beyond_text


def bounded(usage: Usage, limit: int) -> Usage:
    """The usage scaled down to at most `limit` tokens in total, and with at most `MAX_SEARCHES`. The same object if it
    has no more."""
    total, searches = usage.total_tokens, usage.searches
    if searches is not None and searches > MAX_SEARCHES:
        usage = structs.replace(usage, searches=MAX_SEARCHES)
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
