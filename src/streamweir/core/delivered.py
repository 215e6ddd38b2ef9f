"""The part of an answer that its caller got, and the usage of that part.

A provider reports the usage of the whole answer, also if the caller disconnected or was cut off in the middle of it.
The share of each kind of output is that of its characters. Pure.
"""

from typing import NamedTuple

from msgspec import structs

from streamweir.core.usage import Usage


class DeliveredPart(NamedTuple):
    """How much of a received answer was sent to the caller, in characters."""

    text: int
    text_received: int
    reasoning: int
    reasoning_received: int


def delivered_usage(usage: Usage, part: DeliveredPart) -> Usage:
    """The whole prompt with its searches, and the delivered share of the answer, rounded down."""
    text, text_received, *_ = part
    # Reasoning that was not shown belongs to the text.
    reasoning, reasoning_received = part[2:] if part.reasoning_received else (text, text_received)
    return structs.replace(
        usage,
        output=_share(usage.output, text, text_received),
        reasoning=_share(usage.reasoning, reasoning, reasoning_received),
        audio_output=_share(usage.audio_output, text, text_received),
        image_output=_share(usage.image_output, text, text_received),
    )


def _share(tokens: int | None, delivered: int, received: int) -> int:
    return tokens * min(delivered, received) // received if tokens and received else 0
