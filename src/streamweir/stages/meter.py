"""The meter: what a stream was, and exactly one settlement of it, whatever happened to it.

Events pass through unchanged. The meter keeps what the books and the log need: usage, finish
reasons, how it ended, and the delivered text, so that tokens can be counted where the provider
reported none. Where bytes are passed on without events, the tap writes into the same `Record`.
`settle` may be called from the end of the stream, a timer and a disconnect at once: the first
call decides, every other one gets the same settlement.
"""

from collections.abc import Callable
from enum import StrEnum
from io import StringIO
from math import ceil

from msgspec import Struct, field, structs

from streamweir.core.errors import StreamweirError
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    FinishReason,
    ReasoningDelta,
    RefusalDelta,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
    UsageReported,
)
from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict, verdict_of_error, verdict_of_finish

BYTES_PER_TOKEN = 4
"""The rule of thumb behind `estimate`, where no tokenizer is at hand."""


class UsageSource(StrEnum):
    PROVIDER = "provider"
    TOKENIZER = "tokenizer"
    ESTIMATE = "estimate"


def estimate_tokens(text: str) -> int:
    return ceil(len(text.encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN)


class Record(Struct):
    """The facts of one stream so far, the same whichever way its bytes went."""

    completion_id: str | None = None
    """The id in the chunks: the upstream's, where the dialect keeps it, else ours."""
    model: str | None = None
    delivered: StringIO = field(default_factory=StringIO)
    """Everything the model wrote that went out: text, refusals, calls with their arguments.

    A buffer and not a list of pieces: a piece is a few bytes of text in fifty bytes of object.
    """
    reasoned: StringIO = field(default_factory=StringIO)
    finishes: dict[int, FinishReason] = field(default_factory=dict)
    usage: Usage | None = None
    usage_at: int = 0
    """How much had been written when it was reported."""
    error: StreamweirError | None = None
    completed: bool = False


class Settlement(Struct, frozen=True, kw_only=True):
    """What is booked: one per stream."""

    verdict: Verdict
    usage: Usage
    usage_source: UsageSource
    completion_id: str | None
    model: str | None
    finishes: dict[int, FinishReason]
    error: StreamweirError | None


class Meter:
    """Events to the same events, with a `record` on the side.

    `count` turns text into tokens and `source` says by what means; `prompt_tokens` is what
    admission counted.
    """

    def __init__(
        self,
        prompt_tokens: int = 0,
        count: Callable[[str], int] = estimate_tokens,
        source: UsageSource = UsageSource.ESTIMATE,
    ) -> None:
        self.record = Record()
        self._deliver = self.record.delivered.write
        self._prompt_tokens = prompt_tokens
        self._count = count
        self._source = source
        self._settlement: Settlement | None = None

    def feed(self, event: Event, /) -> tuple[Event]:
        if type(event) is TextDelta:
            self._deliver(event.text)
        else:
            note = _NOTES.get(type(event))
            if note is not None:
                note(self.record, event)
        return (event,)

    def finish(self) -> tuple[()]:
        return ()

    def count_usage(self) -> Usage:
        """Usage by our own count, for a provider that reported none."""
        record = self.record
        reasoned, delivered = record.reasoned.getvalue(), record.delivered.getvalue()
        return Usage(
            input_uncached=self._prompt_tokens,
            output=self._count(delivered),
            reasoning=self._count(reasoned) if reasoned else None,
        )

    def _count_on(self, reported: Usage | None) -> Usage:
        """A report from within an answer knows its prompt, and of the answer only what came before it."""
        counted = self.count_usage()
        if reported is None:
            return counted
        reasoning = max(reported.reasoning or 0, counted.reasoning or 0) or reported.reasoning
        return structs.replace(reported, output=max(reported.output, counted.output), reasoning=reasoning)

    def settle(self, verdict: Verdict | None = None) -> Settlement:
        """The settlement. `verdict` is for what no event can tell: the caller is gone, say."""
        if self._settlement is None:
            record = self.record
            usage = record.usage
            is_told = usage is not None and (record.completed or _written(record) <= record.usage_at)
            self._settlement = Settlement(
                verdict=verdict or _verdict_of(record),
                usage=usage if usage is not None and is_told else self._count_on(usage),
                usage_source=UsageSource.PROVIDER if is_told else self._source,
                completion_id=record.completion_id,
                model=record.model,
                finishes=dict(record.finishes),
                error=record.error,
            )
        return self._settlement


def _written(record: Record) -> int:
    return record.delivered.tell() + record.reasoned.tell()


def _verdict_of(record: Record) -> Verdict:
    if record.error is not None:
        return verdict_of_error(record.error)
    if record.completed:
        return verdict_of_finish(set(record.finishes.values()))
    return Verdict.TRUNCATED


def _note_start(record: Record, event: StreamStarted) -> None:
    record.model = event.model  # the id is the encoder's to choose


def _note_reasoning(record: Record, event: ReasoningDelta) -> None:
    record.reasoned.write(event.text)


def _note_refusal(record: Record, event: RefusalDelta) -> None:
    record.delivered.write(event.text)


def _note_call(record: Record, event: ToolCallStarted) -> None:
    record.delivered.write(event.name)


def _note_arguments(record: Record, event: ToolCallDelta) -> None:
    record.delivered.write(event.arguments)


def _note_finish(record: Record, event: ChoiceFinished) -> None:
    record.finishes[event.choice] = event.reason


def _note_usage(record: Record, event: UsageReported) -> None:
    record.usage = event.usage
    record.usage_at = _written(record)


def _note_completion(record: Record, _: StreamCompleted) -> None:
    record.completed = True


def _note_failure(record: Record, event: StreamFailed) -> None:
    record.error = event.error


_NOTES: dict[type[Event], Callable[..., None]] = {
    StreamStarted: _note_start,
    ReasoningDelta: _note_reasoning,
    RefusalDelta: _note_refusal,
    ToolCallStarted: _note_call,
    ToolCallDelta: _note_arguments,
    ChoiceFinished: _note_finish,
    UsageReported: _note_usage,
    StreamCompleted: _note_completion,
    StreamFailed: _note_failure,
}
