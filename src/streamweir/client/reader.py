"""Converts the bytes of an answer to events and a growing answer, for any of the four dialects.

    reader.feed(data)  -> events        for each piece of the body, split anywhere
    reader.finish()    -> events        the body ended normally
    reader.cut(why)    -> events        the body did not end normally: a reset, or an early close
    reader.ended, reader.error          afterwards: no more data is needed; and the error, if there was one

The reader raises nothing: it returns the events before a failure, and its caller then raises `error`. The dialect
determines the end of an answer. With a terminator (`[DONE]`), the terminator must arrive, and every choice must have
finished before it. Without one (bitseek), the finish reason ends the answer, or the normal end of the body, and then
the answer has no finish reason. If several choices were requested, all must be there. Everything else is truncated.
Pure: no socket, no clock.
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
from streamweir.client.failed_response import FailedResponse, find_error_in_bytes, mask_secret
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
from streamweir.providers.base import Decoder
from streamweir.providers.openai.chunk import decode_chunk
from streamweir.providers.openai.decoder import OpenAIDecoder
from streamweir.providers.openai.finish import failure_of
from streamweir.providers.openai.provider import OpenAIProvider
from streamweir.providers.openai.vendor import Vendor
from streamweir.wire import jsonio
from streamweir.wire.body import BodyFormat, BodySplitter
from streamweir.wire.sse import EventTooLarge, Frame

_CONTENT_EVENTS = (
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
    """The maximum sizes of an answer. A larger one ends with `StreamTooLarge`."""

    event_bytes: int = 16 * 1024 * 1024
    answer_bytes: int = 256 * 1024 * 1024
    """Of the whole body, including its framing."""


DEFAULT_LIMITS = Limits()


def find_dialect(dialect: str | Dialect) -> Dialect:
    if isinstance(dialect, Dialect):
        return dialect
    if dialect not in DIALECTS:
        raise ValueError(f"no dialect is named {dialect!r}; there are {', '.join(DIALECTS)}")
    return DIALECTS[dialect]


class Reader:
    """Reads one answer. `secret` is masked in all messages of the server."""

    def __init__(
        self,
        dialect: str | Dialect = "openai",
        limits: Limits = DEFAULT_LIMITS,
        *,
        secret: str = "",
        n: int | None = None,
    ) -> None:
        """`n`: the requested number of choices; None: one, or not known."""
        self.dialect = find_dialect(dialect)
        self.answer = Answer()
        self.ended = False
        self.error: ClientError | None = None
        self.seen = 0
        """The number of events since the first one with content. Events before it (the id, the role) do not show that
        the model has started to answer."""
        self._limits = limits
        self._secret = secret
        self._received = 0
        self._body = BodySplitter(limits.event_bytes, limits.answer_bytes)
        self._choice_count = n
        self._decoder: Decoder = OpenAIDecoder(choices=n)
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
            self.too_large()
        return events

    def too_large(self) -> None:
        """More arrived than the limits allow."""
        self._fail(StreamTooLarge("the answer is larger than was allowed", self.completion))

    def finish(self) -> Sequence[Event]:
        if self.ended:
            return ()
        if self._body.format is BodyFormat.WHOLE:
            return self.read_whole(self._body.whole)
        events = self._read_all(self._body.finish())
        if self.ended:
            return events
        if not self._saw_data:
            self._fail(self._truncated(_EMPTY))
        elif self._lacks_choices:
            self._fail(self._truncated(_ENDED))
        elif self.dialect.terminator:
            is_finished = self._is_finished
            if is_finished:  # events that the decoder held back have arrived too
                held = self._decoder.finish()
                events += self._feed_answer([e for e in held if type(e) not in (StreamCompleted, StreamFailed)])
            self._fail(self._truncated(_ENDED, is_finished=is_finished))
        else:
            events += self._feed_answer([StreamCompleted()])
        return events

    def cut(self, why: str) -> Sequence[Event]:
        """The connection was lost."""
        if not self.ended:
            self._fail(self._truncated(f"{_ENDED}: {mask_secret(why, self._secret)}", self._is_finished))
        return ()

    def time_out(self, limit_s: float) -> StreamTimeout:
        """Nothing arrived for `limit_s` seconds."""
        phase: Phase = "between_events" if self.seen else "first_event"
        error = StreamTimeout(f"no event came for {limit_s:g} seconds", self.completion, phase=phase)
        self._fail(error)
        return error

    def read_whole(self, body: bytes) -> Sequence[Event]:
        """Reads an answer that was not streamed."""
        if self.ended:
            return ()
        reported = find_error_in_bytes(body, self._secret)
        if reported is not None:
            self._fail(self._stream_error(reported))
            return ()
        events: list[Event] = []
        for event in self._decode_whole(body):
            if isinstance(event, StreamFailed):
                message = (
                    "the answer cannot be read"
                    if self._choice_count is None
                    else _UNREADABLE.format(self._choice_count)
                )
                message = message if body.strip() else _EMPTY
                self._fail(StreamInvalid(message, self.completion))
            else:
                events += self._feed_answer([event])
        return events

    def _decode_whole(self, body: bytes) -> Sequence[Event]:
        return _WHOLE.decode_whole(body, self._choice_count)

    def _read_all(self, frames: Sequence[Frame]) -> list[Event]:
        events: list[Event] = []
        for frame in frames:
            if self.ended:
                break
            events += self._read(frame)
        return events

    def _read(self, frame: Frame) -> list[Event]:
        has_terminator = bool(self.dialect.terminator)
        if frame.data is not None and frame.data.strip():
            if not has_terminator and frame.data.strip() == b"[DONE]":
                return self._feed_answer([StreamCompleted()]) if self._saw_data and not self._lacks_choices else []
            self._saw_data = True
        events: list[Event] = []
        for event in self._decoder.feed(frame):
            if isinstance(event, StreamFailed):
                self._fail(self._error_of(event.error, frame))
            else:
                events += self._feed_answer([event])
        if not has_terminator and not self.ended and self._decoder.may_end_when_idle:
            events += self._feed_answer(self._decoder.finish())
        return events

    def _feed_answer(self, events: Sequence[Event] | Iterator[Event]) -> list[Event]:
        added = list(events)
        for event in added:
            self.answer.feed(event)
            if self.seen or isinstance(event, _CONTENT_EVENTS):
                self.seen += 1
            if type(event) is StreamCompleted:
                self.ended = True
        return added

    @property
    def _is_finished(self) -> bool:
        """Only the end is missing: every choice has finished."""
        return self._decoder.may_end_when_idle

    @property
    def _lacks_choices(self) -> bool:
        return self._choice_count is not None and len(self.completion.choices) < self._choice_count

    def _error_of(self, failure: StreamweirError, frame: Frame) -> ClientError:
        """The error for a frame that the decoder rejects; the message is the server's own, if the frame has one."""
        reported = self._reported_error(frame)
        if reported is not None:
            return self._stream_error(reported)
        if failure.code == "upstream_stream_truncated":
            return self._truncated(_ENDED, is_finished=self._is_finished)
        if failure.code == "upstream_invalid_frame":
            return StreamInvalid("a frame of the stream cannot be read", self.completion)
        if failure.code == "upstream_bad_response" and self._choice_count is not None:
            return StreamInvalid(
                f"the server sent more choices than the {self._choice_count} asked for", self.completion
            )
        return self._stream_error(FailedResponse("the server gave no reason"))

    def _reported_error(self, frame: Frame) -> FailedResponse | None:
        data = frame.data
        if data is None:  # quirk: an error outside of any data line (fixture gpustack/error_on_unknown_field)
            data = frame.raw.strip().removeprefix(b"error:")
        reported = find_error_in_bytes(data, self._secret)
        if reported is not None:
            return reported
        if frame.event == b"error":  # quirk: an error by the name of its event (fixture groq/error_event)
            return find_error_in_bytes(b'{"error":%b}' % data, self._secret) or FailedResponse(
                "the server gave no reason"
            )
        try:
            choices = decode_chunk(data).choices or ()
        except jsonio.InvalidJson:
            return None
        words = [choice.finish_reason for choice in choices if choice.finish_reason]
        failed = [word for word in words if failure_of(word) is not None]
        return FailedResponse("the answer was broken off", "finish_reason", failed[0]) if failed else None

    def _stream_error(self, reported: FailedResponse) -> StreamError:
        return StreamError(
            reported.message, self.completion, type=reported.type, code=reported.code, param=reported.param
        )

    def _truncated(self, why: str, is_finished: bool = False) -> StreamTruncated:
        return StreamTruncated(why, self.completion, is_finished=is_finished, may_retry=not self.seen)

    def _fail(self, error: ClientError) -> None:
        error.request_id = self.answer.request_id
        self.error = error
        self.ended = True


_WHOLE = OpenAIProvider(Vendor(name="any", base_url=""))
