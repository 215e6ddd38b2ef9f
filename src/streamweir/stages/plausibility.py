"""Whether a report of usage can be true of the request it is about.

What is beyond it is not billed: the gateway counts by itself and flags the row (spec/failures.md
U33). The bounds are wide on purpose. Providers bill for much that nobody sees: reasoning, templates,
what their own tools have read, pictures that were named by a link. A bound that a true report can
reach would cost somebody money; one that a slip of a decimal point cannot pass is enough.
"""

from msgspec import Struct

from streamweir.core.usage import Usage

_OVERRUN = 4
"""How many times its limit an answer may be, as in `server.patience`: beyond it would have been cut."""
_OUTPUT_SLACK = 8192
"""A picture in an answer is a thousand tokens or two; a limit may be a handful."""
_UNSEEN_OUTPUT = 262_144
"""Reasoning that is billed and not shown: twice the longest answer that a model of today can give."""
_UNSEEN_PROMPT = 65_536
"""Templates, and what a provider's own search put before the question."""
_MEDIA_PROMPT = 2_097_152
"""The widest context there is: a link or a file's name says nothing of what stands behind it."""


class Scope(Struct, frozen=True):
    """What a request can have used at most, as far as the request itself tells."""

    request_bytes: int
    """Of the body that went to the provider."""
    max_output: int | None = None
    """The limit that was asked for, of all choices together."""
    has_media: bool = False
    """It holds pictures, recordings, files, or tools that the provider runs itself."""


def is_possible(usage: Usage, scope: Scope, response_bytes: int) -> bool:
    """`response_bytes`: of the text that came. A token is never less than a byte of text."""
    unseen = _MEDIA_PROMPT if scope.has_media else _UNSEEN_PROMPT
    if usage.prompt_tokens > scope.request_bytes + unseen:
        return False
    if max(usage.reasoning or 0, usage.audio_output or 0) > response_bytes + _UNSEEN_OUTPUT:
        return False
    limit = scope.max_output
    beyond_text = _UNSEEN_OUTPUT if limit is None else _OVERRUN * limit + _OUTPUT_SLACK
    return usage.output <= response_bytes + beyond_text
