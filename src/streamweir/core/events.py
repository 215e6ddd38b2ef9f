"""The events of a stream, independent of provider and frontend.

The rules that every decoder keeps and every encoder relies on:

1. Exactly one terminal event (`StreamCompleted` or `StreamFailed`), and it is last.
   End of input without the wire's own terminal condition is a failure.
2. `StreamStarted` comes first, once, unless the stream failed before it could start.
3. `call` is the gateway's ordinal 0, 1, 2 per choice, never the vendor's index. A call's
   `ToolCallStarted` comes before its `ToolCallDelta`s.
4. `LogprobsDelta` comes before the delta of the same choice that it describes.
5. A choice finishes at most once, and nothing of that choice follows.
   `StreamCompleted` implies that every choice that was started has finished.
6. `reason` is the gateway's value, `raw` the vendor's. Unknown reasons are `OTHER`, not guessed.
7. Usage is cumulative: the newest report replaces the one before it, never adds to it.
8. Events are values: no clock, no storage key, no logger.
"""

from enum import StrEnum
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from streamweir.core.errors import StreamweirError
from streamweir.core.usage import Usage

MAX_CHOICES = 128
"""The maximum number of choices: of `n` in a request, and of indexes in an answer."""


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    FUNCTION_CALL = "function_call"
    OTHER = "other"
    """An unknown value: dialects write `stop`, or `tool_calls` if a call was sent."""


class Event(Struct, frozen=True, gc=False, tag=True):
    """The base of all events. The tag is the event's name when it is written for another process."""


class StreamStarted(Event, frozen=True, gc=False):
    """Id, model and time of the answer. Empty and zero values of the upstream are None here."""

    id: str | None = None
    model: str | None = None
    created: int | None = None
    system_fingerprint: str | None | UnsetType = UNSET
    service_tier: str | None | UnsetType = UNSET


class StreamTagged(Event, frozen=True, gc=False):
    """Labels that the upstream sent or changed after the start (Groq: with the usage). UNSET: unchanged."""

    system_fingerprint: str | None | UnsetType = UNSET
    service_tier: str | None | UnsetType = UNSET


class TextDelta(Event, frozen=True, gc=False):
    choice: int
    text: str


class ReasoningDelta(Event, frozen=True, gc=False):
    """Reasoning text, and the details that the caller must send back on the next turn.

    `details` are entries of the `reasoning_details` member (type, text, signature,
    data, format, index, ...), in the form that is sent and accepted.
    """

    choice: int
    text: str
    details: tuple[dict[str, Any], ...] = ()


class RefusalDelta(Event, frozen=True, gc=False):
    choice: int
    text: str


class ToolCallStarted(Event, frozen=True, gc=False):
    """`id` is None if the vendor sent none: then the dialect derives one.

    `legacy` marks OpenAI's deprecated `function_call`.
    """

    choice: int
    call: int
    id: str | None
    name: str
    legacy: bool = False
    custom: bool = False
    """A free-form call: its input is any text, not the JSON of an object."""


class ToolCallDelta(Event, frozen=True, gc=False):
    choice: int
    call: int
    arguments: str


class LogprobsDelta(Event, frozen=True, gc=False):
    """The `logprobs` member as sent: an object for the next delta of this choice.

    None: from here on the upstream sends an explicit null. UNSET: it no longer sends
    the member. Both hold until the next event of this type.
    """

    choice: int
    logprobs: dict[str, Any] | None | UnsetType


class ChoiceFinished(Event, frozen=True, gc=False):
    choice: int
    reason: FinishReason
    raw: str = ""
    stop_sequence: str | None = None
    """The caller's stop sequence that ended the answer, where the upstream says which."""
    is_inferred: bool = False
    """The upstream sent none, but its answer is complete (docs/spec/quirks.md Q41)."""


class UsageReported(Event, frozen=True, gc=False):
    usage: Usage


class UsageDiscarded(Event, frozen=True, gc=False):
    """A usage report was ignored because its counts are invalid (negative, too large, not numbers)."""

    is_final: bool = False
    """It was the last report, or the last one is missing: earlier reports do not cover the whole answer."""


class Extra(Event, frozen=True, gc=False):
    """Members that are passed on uninterpreted: of one choice's delta, or (None) of the stream."""

    choice: int | None
    fields: dict[str, Any]


class EmbeddingRead(Event, frozen=True, gc=False):
    """The vector of one input. Only whole answers to requests for embeddings have them."""

    index: int
    packed: bytes
    """As 32-bit floats, little-endian."""
    numbers: bytes | None = None
    """As the JSON array that the upstream sent. None: it sent them packed."""


class StreamCompleted(Event, frozen=True, gc=False):
    """Terminal: the upstream's answer is complete."""


class StreamFailed(Event, frozen=True, gc=False):
    """Terminal: the answer is incomplete; `error` is the reason."""

    error: StreamweirError
