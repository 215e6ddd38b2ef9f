"""Bytes to events and a growing answer, for any of the four dialects: the core that all shells drive.

    reader.feed(data)  -> events        as often as bytes come, cut anywhere
    reader.finish()    -> events        the body ended cleanly
    reader.cut(why)    -> events        it ended otherwise: a reset, a connection that closed in the midst
    reader.ended, reader.error          afterwards: nothing more is to be read; and what went wrong, if anything did

Nothing is raised: events that came before a failure are given out first, whoever drives it raises `error` then.
What ends an answer is the dialect's own word. Where it has a terminator (`[DONE]`), that must come, and every choice
must have finished before; without one (bitseek) the finish ends it, or else the clean end of the body, and then the
answer has no finish reason. Where several choices were asked for, each of them must be there. Anything else is
truncated. Pure: no socket, no clock.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from streamweir.client.answer import Answer, Completion
from streamweir.client.error import (
    ClientError,
    Phase,
    StreamError,
    StreamInvalid,
    StreamTimeout,
    StreamTooLarge,
    StreamTruncated,
)
from streamweir.client.failed_response import FailedResponse, hide, told_in_bytes
from streamweir.core.errors import StreamweirError
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    ReasoningDelta,
    RefusalDelta,
    StreamCompleted,
    StreamFailed,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
)
from streamweir.frontends.chat.dialect import Dialect
from streamweir.frontends.chat.table import DIALECTS
from streamweir.providers.openai.chunk import decode_chunk
from streamweir.providers.openai.decoder import OpenAIDecoder
from streamweir.providers.openai.finish import failure_of
from streamweir.providers.openai.provider import OpenAIProvider
from streamweir.providers.openai.vendor import Vendor
from streamweir.wire import jsonio
from streamweir.wire.body import BodySplitter, Form
from streamweir.wire.sse import EventTooLarge, Frame

_SAYING = (
    TextDelta,
    ReasoningDelta,
    RefusalDelta,
    ToolCallStarted,
    ToolCallDelta,
    ChoiceFinished,
    StreamCompleted,
)
_ENDED = "the stream ended before its end"
_EMPTY = "the answer was empty"
_UNREADABLE = "the answer cannot be read, or has not the {} choices that were asked for"


class Limits(Struct, frozen=True, kw_only=True):
    """How much is taken from a server. Beyond it an answer ends with `StreamTooLarge`."""

    event_bytes: int = 16 * 1024 * 1024
    answer_bytes: int = 256 * 1024 * 1024
    """Of the whole body, with all its framing."""


USUAL = Limits()


def dialect_named(dialect: str | Dialect) -> Dialect:
    if isinstance(dialect, Dialect):
        return dialect
    if dialect not in DIALECTS:
        raise ValueError(f"no dialect is named {dialect!r}; there are {', '.join(DIALECTS)}")
    return DIALECTS[dialect]


class Reader:
    """One answer. `secret` is taken out of whatever a server says."""

    def __init__(
        self, dialect: str | Dialect = "openai", limits: Limits = USUAL, *, secret: str = "", n: int | None = None
    ) -> None:
        """`n`: how many choices were asked for; None: one, or that is not known."""
        self.dialect = dialect_named(dialect)
        self.answer = Answer()
        self.ended = False
        self.error: ClientError | None = None
        self.seen = 0
        """How many events have come, from the first on that says something: who answers, or that nothing was said yet,
        is no sign that the model is at work."""
        self._limits = limits
        self._secret = secret
        self._received = 0
        self._body = BodySplitter(limits.event_bytes, limits.answer_bytes)
        self._asked = n
        self._decoder = OpenAIDecoder(choices=n)
        self._saw_data = False

    @property
    def completion(self) -> Completion:
        return self.answer.completion()

    def feed(self, data: bytes, /) -> Sequence[Event]:
        if self.ended:
            return ()
        self._received += len(data)
        is_too_large = self._received > self._limits.answer_bytes
        try:
            frames = self._body.feed(data) if not is_too_large else []
        except EventTooLarge as reason:
            frames, is_too_large = reason.frames, True
        events = self._read_all(frames)
        if is_too_large and not self.ended:
            self._fail(StreamTooLarge("the answer is larger than was allowed", self.completion))
        return events

    def finish(self) -> Sequence[Event]:
        if self.ended:
            return ()
        if self._body.form is Form.WHOLE:
            return self.read_whole(self._body.whole)
        events = self._read_all(self._body.finish())
        if self.ended:
            return events
        if not self._saw_data:
            self._fail(self._truncated(_EMPTY))
        elif self._lacks_choices:
            self._fail(self._truncated(_ENDED))
        elif self.dialect.terminator:
            is_finished = self._decoder.may_end_in_silence
            if is_finished:  # what is held back for the end is no secret: it belongs to what arrived
                events += self._take(event for event in self._decoder.finish() if type(event) is not StreamCompleted)
            self._fail(self._truncated(_ENDED, is_finished=is_finished))
        else:
            events += self._take([StreamCompleted()])
        return events

    def cut(self, why: str) -> Sequence[Event]:
        """The connection broke."""
        if not self.ended:
            self._fail(self._truncated(f"{_ENDED}: {hide(why, self._secret)}", self._decoder.may_end_in_silence))
        return ()

    def time_out(self, limit_s: float) -> StreamTimeout:
        """Nothing came for so long."""
        phase: Phase = "between_events" if self.seen else "first_event"
        error = StreamTimeout(f"no event came for {limit_s:g} seconds", self.completion, phase=phase)
        self._fail(error)
        return error

    def read_whole(self, body: bytes) -> Sequence[Event]:
        """An answer that was not streamed."""
        if self.ended:
            return ()
        told = told_in_bytes(body, self._secret)
        if told is not None:
            self._fail(self._told(told))
            return ()
        events: list[Event] = []
        for event in _WHOLE.decode_whole(body, self._asked):
            if isinstance(event, StreamFailed):
                message = "the answer cannot be read" if self._asked is None else _UNREADABLE.format(self._asked)
                message = message if body.strip() else _EMPTY
                self._fail(StreamInvalid(message, self.completion))
            else:
                events += self._take([event])
        return events

    def _read_all(self, frames: Sequence[Frame]) -> list[Event]:
        events: list[Event] = []
        for frame in frames:
            if self.ended:
                break
            events += self._read(frame)
        return events

    def _read(self, frame: Frame) -> list[Event]:
        has_end = bool(self.dialect.terminator)
        if frame.data is not None and frame.data.strip():
            if not has_end and frame.data.strip() == b"[DONE]":
                return self._take([StreamCompleted()]) if self._saw_data and not self._lacks_choices else []
            self._saw_data = True
        events: list[Event] = []
        for event in self._decoder.feed(frame):
            if isinstance(event, StreamFailed):
                self._fail(self._error_of(event.error, frame))
            else:
                events += self._take([event])
        if not has_end and not self.ended and self._decoder.may_end_in_silence:
            events += self._take(self._decoder.finish())
        return events

    def _take(self, events: Sequence[Event] | Iterator[Event]) -> list[Event]:
        taken = list(events)
        for event in taken:
            self.answer.feed(event)
            if self.seen or isinstance(event, _SAYING):
                self.seen += 1
            if type(event) is StreamCompleted:
                self.ended = True
        return taken

    @property
    def _lacks_choices(self) -> bool:
        return self._asked is not None and len(self.completion.choices) < self._asked

    def _error_of(self, failure: StreamweirError, frame: Frame) -> ClientError:
        """The decoder knows that the frame is a failure, and the frame has the server's own words for it."""
        told = self._words_in(frame)
        if told is not None:
            return self._told(told)
        if failure.code == "upstream_stream_truncated":
            return self._truncated(_ENDED, is_finished=self._decoder.may_end_in_silence)
        if failure.code == "upstream_invalid_frame":
            return StreamInvalid("a frame of the stream cannot be read", self.completion)
        if failure.code == "upstream_bad_response" and self._asked is not None:
            return StreamInvalid(f"the server sent more choices than the {self._asked} asked for", self.completion)
        return self._told(FailedResponse("the server gave no reason"))

    def _words_in(self, frame: Frame) -> FailedResponse | None:
        data = frame.data
        if data is None:  # quirk: an error outside of any data line (fixture gpustack/error_on_unknown_field)
            data = frame.raw.strip().removeprefix(b"error:")
        told = told_in_bytes(data, self._secret)
        if told is not None:
            return told
        if frame.event == b"error":  # quirk: an error by the name of its event (fixture groq/error_event)
            return told_in_bytes(b'{"error":%b}' % data, self._secret) or FailedResponse("the server gave no reason")
        try:
            choices = decode_chunk(data).choices or ()
        except jsonio.InvalidJson:
            return None
        words = [choice.finish_reason for choice in choices if choice.finish_reason]
        broken = [word for word in words if failure_of(word) is not None]
        return FailedResponse("the answer was broken off", "finish_reason", broken[0]) if broken else None

    def _told(self, told: FailedResponse) -> StreamError:
        return StreamError(told.message, self.completion, type=told.type, code=told.code, param=told.param)

    def _truncated(self, why: str, is_finished: bool = False) -> StreamTruncated:
        return StreamTruncated(why, self.completion, is_finished=is_finished, may_retry=not self.seen)

    def _fail(self, error: ClientError) -> None:
        error.request_id = self.answer.request_id
        self.error = error
        self.ended = True


_WHOLE = OpenAIProvider(Vendor(name="any", base_url=""))
