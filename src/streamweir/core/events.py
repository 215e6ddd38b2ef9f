"""What happened in a stream, whichever provider sent it and whatever dialect reads it.

The rules that every decoder keeps and every encoder relies on:

1. Exactly one terminal event (`StreamCompleted` or `StreamFailed`), and it is last.
   End of input without the wire's own terminal condition is a failure.
2. `StreamStarted` comes first, once, unless the stream failed before it could start.
3. `call` is our ordinal 0, 1, 2 per choice, never the vendor's index. A call's
   `ToolCallStarted` comes before its `ToolCallDelta`s.
4. `LogprobsDelta` comes before the delta of the same choice that it describes.
5. A choice finishes at most once, and nothing of that choice follows.
   `StreamCompleted` implies that every choice that was started has finished.
6. `reason` is our word, `raw` is theirs. Unknown reasons are `OTHER`, not guessed.
7. Usage is cumulative: the newest report replaces the one before it, never adds to it.
8. Events are values: no clock, no storage key, no logger.
"""

from enum import StrEnum
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from streamweir.core.errors import StreamweirError
from streamweir.core.usage import Usage

MAX_CHOICES = 128
"""How many choices an answer may have: `n` cannot ask for more, and no index lies beyond."""


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    FUNCTION_CALL = "function_call"
    OTHER = "other"
    """A word we do not know: dialects write `stop`, or `tool_calls` where a call was sent."""


class Event(Struct, frozen=True, gc=False, tag=True):
    """The base of all events. Where one is written for another process, its name stands with it."""


class StreamStarted(Event, frozen=True, gc=False):
    """Who answers. Empty and zero values of the wire arrive here as None."""

    id: str | None = None
    model: str | None = None
    created: int | None = None
    system_fingerprint: str | None | UnsetType = UNSET
    service_tier: str | None | UnsetType = UNSET


class StreamTagged(Event, frozen=True, gc=False):
    """The upstream's labels came, or changed, after the start (Groq: with the usage). UNSET: unchanged."""

    system_fingerprint: str | None | UnsetType = UNSET
    service_tier: str | None | UnsetType = UNSET


class TextDelta(Event, frozen=True, gc=False):
    choice: int
    text: str


class ReasoningDelta(Event, frozen=True, gc=False):
    """Reasoning text, and what must come back on the next turn.

    `details` are entries of the `reasoning_details` member (type, text, signature,
    data, format, index, ...) as they go out and as they are accepted back.
    """

    choice: int
    text: str
    details: tuple[dict[str, Any], ...] = ()


class RefusalDelta(Event, frozen=True, gc=False):
    choice: int
    text: str


class ToolCallStarted(Event, frozen=True, gc=False):
    """`id` is None where the vendor sent none: the dialect then derives one.

    `legacy` marks OpenAI's deprecated `function_call`.
    """

    choice: int
    call: int
    id: str | None
    name: str
    legacy: bool = False


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


class UsageReported(Event, frozen=True, gc=False):
    usage: Usage


class UsageDiscarded(Event, frozen=True, gc=False):
    """A report came whose counts cannot be counts (negative, absurd, no numbers). It says nothing else."""

    is_final: bool = False
    """It was the last one, or that never came, and what was reported before is not of the whole answer."""


class Extra(Event, frozen=True, gc=False):
    """Members that are carried, not understood: of one choice's delta, or (None) of the stream."""

    choice: int | None
    fields: dict[str, Any]


class StreamCompleted(Event, frozen=True, gc=False):
    """Terminal: the upstream's answer is whole."""


class StreamFailed(Event, frozen=True, gc=False):
    """Terminal: the answer is not whole, and whose fault that is."""

    error: StreamweirError
