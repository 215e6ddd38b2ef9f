"""The meter: the record of a stream, and exactly one settlement of it.

Events pass through unchanged. An implausible usage report is flagged, and followed by a smaller one if it exceeds the
limit for such reports (`pipeline.plausibility`). The meter keeps what accounting and the log need: usage, finish
reasons, the error, and the delivered text, so that tokens can be counted if the provider reported none. If bytes are
passed on without events, the tap writes into the same `Record`. The usage that the caller was sent is the usage that
is settled. `close` may be called by the end of the stream, a timer and a disconnect: the first call decides, the
others return the same result. Counting may take long, so the caller of `close` chooses where to do it.
"""

from collections.abc import Callable, Collection
from io import StringIO
from typing import NamedTuple, Protocol

from msgspec import Struct, field

from streamweir.core.delivered import DeliveredPart
from streamweir.core.errors import StreamweirError, hide_secrets
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    FinishReason,
    ReasoningDelta,
    RefusalDelta,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    StreamTagged,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
    UsageDiscarded,
    UsageReported,
)
from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict, verdict_of_error, verdict_of_finish
from streamweir.pipeline.plausibility import UsageBounds, bounded, is_possible
from streamweir.pipeline.settlement import (
    BYTES_PER_TOKEN,
    Count,
    CountableText,
    Counter,
    PendingSettlement,
    Settlement,
    UsageSource,
    estimate,
    size_of,
)

_MAX_BYTES_PER_CHARACTER = 4


class Text(Protocol):
    """The methods of `StringIO` that are used here."""

    def write(self, text: str, /) -> object: ...

    def tell(self) -> int: ...

    def getvalue(self) -> str: ...


class CountedText:
    """Replaces a text that is not needed any more: further text is counted, not stored."""

    __slots__ = ("_delivered", "_size")

    def __init__(self, text: Text, delivered: int | None) -> None:
        """`delivered`: the number of characters that the caller got; None: all."""
        self._delivered = text.getvalue()[:delivered]
        self._size = text.tell()

    def write(self, text: str, /) -> None:
        self._size += len(text)

    def tell(self) -> int:
        return self._size

    def getvalue(self) -> str:
        return self._delivered


class Record(Struct):
    """What is known about one stream so far; the same for passed and translated streams."""

    completion_id: str | None = None
    """The id in the chunks: the upstream's if the frontend accepts it, else the gateway's."""
    model: str | None = None
    service_tier: str | None = None
    """As the provider reported it: it can differ from the requested one, and has its own prices."""
    delivered: Text = field(default_factory=StringIO)
    """Everything of the model's output that was sent: text, refusals, calls with their arguments.

    A buffer, not a list of pieces: a piece is a few bytes of text in an object of fifty bytes.
    """
    reasoning_text: Text = field(default_factory=StringIO)
    finishes: dict[int, FinishReason] = field(default_factory=dict)
    usage: Usage | None = None
    usage_at: int = 0
    """The number of characters before the report."""
    error: StreamweirError | None = None
    """The first error: the reason why the caller got no more."""
    completed: bool = False
    """The upstream's answer is complete, although the caller may not have all of it."""
    is_interim: bool = False
    """The usage does not cover the whole answer, and no better report will follow."""
    anomaly: bool = False
    """A usage report was implausible."""
    is_cut: bool = False
    """It was reduced to the limit for such reports."""
    missing_done: bool = False
    junk_after_done: bool = False
    finish_inferred: bool = False
    """A choice has no finish, but the answer is complete."""
    bounds: UsageBounds | None = None
    plausible: Usage | None = None
    """The last report that was plausible. It remains so: what is received only becomes more."""
    secrets: Collection[str] = ()
    price_of: Callable[[Usage], float | None] | None = None
    """What the caller pays for a usage, in dollars, if it is shown that."""

    @property
    def written(self) -> int:
        """The number of received characters."""
        return self.delivered.tell() + self.reasoning_text.tell()

    @property
    def usage_is_final(self) -> bool:
        """The reported usage covers everything that was received."""
        if self.usage is None or self.is_interim:
            return False
        return self.completed or self.written <= self.usage_at

    def is_plausible(self, usage: Usage, pending: int = 0) -> bool:
        """`pending`: the number of characters of the answer that are not in this record yet."""
        if self.bounds is None or usage is self.plausible:
            return True
        if not is_possible(usage, self.bounds, _MAX_BYTES_PER_CHARACTER * (self.written + pending)):
            return False
        self.plausible = usage
        return True

    def flags(self) -> tuple[str, ...]:
        if not (self.anomaly or self.missing_done or self.junk_after_done or self.finish_inferred):
            return ()
        reported = {
            "usage_anomaly": self.anomaly,
            "usage_cut": self.is_cut,
            "missing_done": self.missing_done,
            "junk_after_done": self.junk_after_done,
            "finish_inferred": self.finish_inferred,
        }
        return tuple(name for name, holds in reported.items() if holds)


class Delivered(NamedTuple):
    """What the caller got of a stream, if not all that was written."""

    text: int
    """In characters."""
    reasoning: int
    number: int = 0
    """The number of the first frame that was not sent, for an API that numbers them."""


NOTHING_DELIVERED = Delivered(0, 0)


class Meter:
    """Returns the events that it is fed, and updates `record`.

    `prompt_tokens` was counted at admission, `prompt_source` says how. `count` is used on the event loop, when usage
    must be sent to the caller at once; `count_prompt` can be more exact than admission's count then. `bounds` decide
    whether a report is plausible.
    """

    def __init__(
        self,
        prompt_tokens: int = 0,
        count: Counter = estimate,
        *,
        prompt_source: UsageSource = UsageSource.ESTIMATE,
        count_prompt: Callable[[], Count] | None = None,
        bounds: UsageBounds | None = None,
        secrets: Collection[str] = (),
    ) -> None:
        """`secrets`: the gateway's own, which the upstream gets and may quote in an error."""
        self.record = Record(bounds=bounds, secrets=secrets)
        self._deliver = self.record.delivered.write
        self._prompt = prompt_tokens, prompt_source
        self._count_prompt = count_prompt
        self._count = count
        self._shown: tuple[Usage, UsageSource] | None = None
        self._pending: PendingSettlement | None = None
        self._measured = (0, 0)
        self._is_detached = False
        self.sent_share = 1.0
        """How much of the prompt was sent, in an attempt of several calls: the rest is not billed."""

    def feed(self, event: Event, /) -> tuple[Event, ...]:
        if type(event) is TextDelta:
            self._deliver(event.text)
            return (event,)
        note = _NOTES.get(type(event))
        if note is not None:
            note(self.record, event)
        elif type(event) is StreamCompleted:
            self.record.completed = True
            if not self._is_detached:
                is_cut = self._check_report()
                if self._has_interim_usage():
                    return (UsageReported(self.count_usage()), event)
                if is_cut and self.record.usage is not None:
                    return (UsageReported(self.record.usage), event)
        return (event,)

    def finish(self) -> tuple[()]:
        return ()

    def detach(self, error: StreamweirError | None = None, delivered: Delivered | None = None) -> None:
        """Nothing more is sent, because of this error or because the caller has disconnected: only usage matters.

        `delivered`: the number of characters of text and of reasoning that the caller got, if not all.
        """
        record = self.record
        self._is_detached = True
        text, reasoning = delivered[:2] if delivered is not None else (None, None)
        record.delivered = CountedText(record.delivered, text)
        record.reasoning_text = CountedText(record.reasoning_text, reasoning)
        self._deliver = record.delivered.write
        self._shown = None
        if record.error is None:
            record.error = error

    def tokens_so_far(self) -> int:
        """The delivered tokens of the answer: the estimate, or the provider's report if that is more."""
        reported = self.record.usage.completion_tokens if self.record.usage is not None else 0
        return max(self._size_so_far() // BYTES_PER_TOKEN, reported)

    def shown_bytes(self) -> int:
        """The size of everything of the answer that was sent, reasoning included."""
        return self._size_so_far()

    def count_usage(self) -> Usage:
        """The gateway's own count, for usage that must be sent now. This usage will be settled."""
        prompt = self._count_prompt() if self._count_prompt is not None else None
        self._shown = self._countable_text().count(self._count, prompt)
        return self._shown[0]

    def known_usage(self) -> Usage | None:
        """The usage that will be settled for a complete answer. None: it must still be counted."""
        if self._shown is not None:
            return self._shown[0]
        self._check_report()
        return self.record.usage if self.record.usage_is_final else None

    def close(self, verdict: Verdict | None = None) -> PendingSettlement:
        """The settlement, which may still have to be counted.

        `verdict`: for endings without an event, such as a caller that has disconnected.
        """
        if self._pending is None:
            self._pending = self._close(verdict or _verdict_of(self.record))
        return self._pending

    def settle(self, verdict: Verdict | None = None) -> Settlement:
        """As `close`, counted at once."""
        return self.close(verdict).count(self._count)

    def _close(self, verdict: Verdict) -> PendingSettlement:
        record = self.record
        self._check_report()
        usage, source = self._shown or (record.usage, UsageSource.PROVIDER)
        needs_count = self._shown is None and not record.usage_is_final
        settlement = Settlement(
            verdict=verdict,
            usage=usage or Usage(),
            usage_source=source,
            completion_id=record.completion_id,
            model=record.model,
            finishes=dict(record.finishes),
            error=record.error,
            flags=record.flags(),
            delivered=self._delivered_part() if self._is_detached and not needs_count else None,
        )
        return PendingSettlement(settlement, self._countable_text() if needs_count else None)

    def _delivered_part(self) -> DeliveredPart:
        text, reasoning = self.record.delivered, self.record.reasoning_text
        return DeliveredPart(len(text.getvalue()), text.tell(), len(reasoning.getvalue()), reasoning.tell())

    def _countable_text(self) -> CountableText:
        record = self.record
        return CountableText(
            prompt=self._prompt,
            delivered=record.delivered.getvalue(),
            reasoning_text=record.reasoning_text.getvalue(),
            reported=record.usage,
            sent_share=self.sent_share,
        )

    def _check_report(self) -> bool:
        """Flags the newest report if it is implausible. True: less is billed than was reported."""
        record = self.record
        if record.usage is None or record.bounds is None or record.is_plausible(record.usage):
            return False
        record.anomaly = True
        usage = bounded(record.usage, record.bounds.max_billed_tokens)
        if usage is not record.usage:
            record.usage, record.is_cut = usage, True
        return record.is_cut

    def _has_interim_usage(self) -> bool:
        return self.record.usage is not None and self.record.is_interim

    def _size_so_far(self) -> int:
        """In bytes. Measured whenever the text has doubled, and extrapolated in between, because it is needed often."""
        record = self.record
        if self._is_detached:
            return size_of(record.delivered.getvalue()) + size_of(record.reasoning_text.getvalue())
        length = record.written
        if length >= 2 * self._measured[0]:
            size = size_of(record.delivered.getvalue()) + size_of(record.reasoning_text.getvalue())
            self._measured = length, size
        measured, size = self._measured
        return size * length // measured if measured else 0


def note(record: Record, event: Event) -> None:
    """Writes the content of an event to a record, where there is no meter."""
    if type(event) is TextDelta:
        record.delivered.write(event.text)
    elif type(event) is StreamCompleted:
        record.completed = True
    elif (take := _NOTES.get(type(event))) is not None:
        take(record, event)


def _verdict_of(record: Record) -> Verdict:
    if record.error is not None:
        return verdict_of_error(record.error)
    if record.completed:
        return verdict_of_finish(set(record.finishes.values()))
    return Verdict.TRUNCATED


def _note_start(record: Record, event: StreamStarted) -> None:
    record.model = event.model  # the encoder chooses the id
    _note_tier(record, event)


def _note_tier(record: Record, event: StreamStarted | StreamTagged) -> None:
    if isinstance(event.service_tier, str):
        record.service_tier = event.service_tier


def _note_reasoning(record: Record, event: ReasoningDelta) -> None:
    record.reasoning_text.write(event.text)


def _note_refusal(record: Record, event: RefusalDelta) -> None:
    record.delivered.write(event.text)


def _note_call(record: Record, event: ToolCallStarted) -> None:
    record.delivered.write(event.name)


def _note_arguments(record: Record, event: ToolCallDelta) -> None:
    record.delivered.write(event.arguments)


def _note_finish(record: Record, event: ChoiceFinished) -> None:
    record.finishes[event.choice] = event.reason
    record.finish_inferred |= event.is_inferred


def _note_usage(record: Record, event: UsageReported) -> None:
    record.usage, record.is_interim = event.usage, False
    record.usage_at = record.delivered.tell() + record.reasoning_text.tell()  # some providers report with every frame


def _note_anomaly(record: Record, event: UsageDiscarded) -> None:
    record.anomaly = True
    record.is_interim |= event.is_final


def _note_failure(record: Record, event: StreamFailed) -> None:
    hide_secrets(event.error, record.secrets)  # before it is written
    if record.error is None:
        record.error = event.error


_NOTES: dict[type[Event], Callable[..., None]] = {
    StreamStarted: _note_start,
    StreamTagged: _note_tier,
    ReasoningDelta: _note_reasoning,
    RefusalDelta: _note_refusal,
    ToolCallStarted: _note_call,
    ToolCallDelta: _note_arguments,
    ChoiceFinished: _note_finish,
    UsageReported: _note_usage,
    UsageDiscarded: _note_anomaly,
    StreamFailed: _note_failure,
}
