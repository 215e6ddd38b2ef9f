"""One answer: a provider's bytes in, the caller's bytes out, with all steps in one chain.

    bytes -> intake -Frame-> decoder -Event-> commit gate -> meter -> encoder -> bytes   TRANSLATE
                        \\--> tap ---------------------------------------------> bytes   PASS, FILTER

The chain uses no socket: its methods return the bytes to write (`feed`, `finish`, `fail`, `release`); `committed` and
`ended` are its state. A failure before the commit writes nothing: it is in `failure`, and leads to an error status or
to another attempt. A detached exchange (`detach`) writes nothing more and reads on for the usage. `WholeExchange` is
the same for an answer that is not streamed. The `Frontend` is an argument; `pipeline.native` has the tap for a
native pair.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec import structs

from streamweir.core.completion import Accumulator
from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.core.events import (
    Event,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    TextDelta,
    ToolCallStarted,
    UsageReported,
)
from streamweir.core.usage import Usage
from streamweir.frontends.base import Frontend, Reply, StreamEncoder, WholeBody
from streamweir.pipeline.commit import MAX_HELD, CommitGate
from streamweir.pipeline.intake import Intake
from streamweir.pipeline.large_answer import MAX_BYTES_ON_LOOP, ReplyData, is_large, reply_data_of
from streamweir.pipeline.meter import NOTHING_DELIVERED, Delivered, Meter
from streamweir.pipeline.native import NATIVE, Tap
from streamweir.pipeline.plan import Mode
from streamweir.providers.base import Provider, truncated
from streamweir.wire.sse import Frame, SplitError

MAX_STREAMED_CHARACTERS = 4 * 1024 * 1024
"""Characters of a stream that is written as one body: joining and encoding more would block the event loop. No model
writes as much."""
MAX_CALLS = 10_000
"""Tool calls of a stream that is translated. All that are open are ended in one step. Of a stream that is written as
one body, also the turns that text, reasoning and calls take."""


class Exchange:
    """A streamed answer. One per attempt."""

    # Decoder and encoder are created when they are needed: most streams that can be passed on need none.
    _decode: Callable[[Frame], Sequence[Event]]
    _encoder: StreamEncoder

    def __init__(self, provider: Provider, frontend: Frontend, reply: Reply, mode: Mode, meter: Meter) -> None:
        self.has_progressed = False
        """An event was read since the relay reset this."""
        self.has_read_no_event = False
        """The last read has comments only. The relay resets this."""
        self._is_over = False
        self._is_committed = False  # a copy of `committed`, which is needed for every frame
        self._has_junk = False
        self._meter = meter
        self._deliver = meter.record.delivered.write  # all that the meter does with text
        self._reply = reply
        self._frontend = frontend
        self._intake = Intake(provider, reply.choices, max_whole_bytes=MAX_BYTES_ON_LOOP)
        self._split = self._intake.split
        self._gate = CommitGate()
        self._tap: Tap | None = None
        wire = frontend.native_wire if mode is not Mode.TRANSLATE else None
        if wire is None:
            self._start_translating()
        else:
            self._tap = NATIVE[wire].tap(meter.record, mode is Mode.PASS, reply.choices)
        # Frames that can be passed on, with the bytes to send for them, until the commit.
        self._waiting: list[tuple[Frame, bytes]] = []

    @property
    def committed(self) -> bool:
        return self._gate.committed

    @property
    def ended(self) -> bool:
        """The terminator was written, or the stream failed before the commit: nothing more is sent."""
        return self._is_over or (self._tap is not None and self._tap.ended)

    @property
    def has_junk(self) -> bool:
        """Bytes followed the end in the same read. They were ignored (docs/spec/failures.md U29)."""
        return self._has_junk or (self.ended and self.is_mid_event)

    @property
    def failure(self) -> StreamweirError | None:
        return self._gate.failure

    @property
    def next_number(self) -> int:
        """The number of the next frame, for an API that numbers them; otherwise 0."""
        return self._tap.next_number if self._tap is not None else self._frontend.next_number_in(self._encoder)

    def take_keep_alive(self) -> bytes:
        """The bytes to write now, because a stream that has begun is idle."""
        tap, frontend = self._tap, self._frontend
        if tap is None:
            return frontend.keep_alive_in(self._encoder)
        return frontend.keep_alive if tap.record.completion_id else frontend.early_keep_alive

    @property
    def passes(self) -> bool:
        """Frames are still passed on unchanged."""
        return self._tap is not None

    @property
    def may_end_when_idle(self) -> bool:
        """Every requested choice has finished: if nothing more arrives for a short time, `finish` can be called."""
        return self._tap.has_finished if self._tap is not None else self._intake.may_end_when_idle

    @property
    def is_mid_event(self) -> bool:
        """The upstream has begun an event and not ended it."""
        return self._intake.is_mid_event

    def feed(self, chunk: bytes, /) -> bytes:
        try:
            frames = self._split(chunk)
        except SplitError as reason:
            before = b"".join([self._take(frame) for frame in reason.frames]) + self._stop_passing()
            return before if self.ended else before + self._write(self._intake.fail_to_split(reason))
        if self._is_committed and len(frames) == 1:  # nearly every read
            if frames[0].data is not None:  # comments are no events
                self.has_progressed = True
            else:
                self.has_read_no_event = True
            tap = self._tap
            if tap is None:
                events = self._decode(frames[0])
                if len(events) == 1 and type(event := events[0]) is TextDelta:
                    self._deliver(event.text)
                    try:
                        out = self._encoder.feed(event)
                    except UpstreamError as error:
                        return self._fail_encoding(error)
                    return out[0] if len(out) == 1 else b"".join(out)
                return self._send(events)
            passed = tap.feed(frames[0])
            return passed if passed is not None else self._translate_deviating(tap, frames[0])
        self._split = self._intake.split
        for frame in frames:
            if frame.data is not None:
                self.has_progressed = True
                break
        else:
            self.has_read_no_event = not self.is_mid_event
        return b"".join([self._take(frame) for frame in frames])

    def finish(self) -> bytes:
        """The body ended cleanly."""
        out = b"".join([self._take(frame) for frame in self._intake.remaining_frames()]) + self._stop_passing()
        if not self.ended:
            out += self._write(self._intake.end())
            self._meter.record.missing_done = self._intake.lacks_terminator
        return out

    def fail(self, error: StreamweirError, /) -> bytes:
        """The body will not continue: a reset, a timeout, a stop."""
        if self.ended:
            return b""
        return self._stop_passing() + self._write(self._intake.fail(error))

    def detach(self, error: StreamweirError | None = None, delivered: Delivered | None = None, /) -> bytes:
        """The caller gets this error and nothing else, or has disconnected (None). The upstream is read on.

        Before the commit an error is a `failure`, as with `fail`.
        """
        if self.ended:
            return b""
        if error is not None and not self.committed:
            return self.fail(error)
        before = self._stop_passing(delivered)
        if delivered is not None:
            self._frontend.return_to(self._encoder, delivered.number)
        # This ends the encoder. A caller that has disconnected does not get what it writes.
        last = self._encoder.feed(truncated() if error is None else StreamFailed(error))
        self._meter.detach(error, delivered)
        self._deliver = self._meter.record.delivered.write
        return b"" if error is None else b"".join([before, *last])

    def replace_end(self, error: StreamweirError, delivered: Delivered | None, /) -> bytes:
        """Replaces the end of a complete answer, if that was not sent: the caller gets the error instead."""
        self._meter.detach(error, delivered)
        failed = StreamFailed(error)
        if self._tap is not None:
            self._reply = _behind(self._reply, self._tap, delivered)
            self._encoder = self._new_encoder()
            self._encoder.begin()  # that was sent
        if delivered is not None:
            self._frontend.return_to(self._encoder, delivered.number)
        written = self._encoder.feed(failed)
        if not written:  # it has ended
            encoder = self._new_encoder()
            encoder.begin()
            written = encoder.feed(failed)
        return b"".join(written)

    def release(self) -> bytes:
        """Commits now: the status cannot be held back any longer."""
        if self.committed or self._is_over:
            return b""
        if self._tap is not None:
            return self._release_passed()
        self._is_committed = True
        return self._send(self._gate.release()) + b"".join(self._encoder.begin())

    def _release_passed(self) -> bytes:
        waiting = b"".join([passed for _, passed in self._waiting])
        self._waiting.clear()
        self._is_committed = True
        self._gate.release()
        return waiting

    def _take(self, frame: Frame) -> bytes:
        tap = self._tap
        if tap is None:
            self._has_junk |= self._is_over
            return self._write(self._decode(frame))
        passed = tap.feed(frame)
        if passed is None:
            return self._translate_deviating(tap, frame)
        if self._is_committed:
            return passed
        self._waiting.append((frame, passed))
        record = tap.record
        must_release = (
            record.delivered.tell()
            or tap.has_reasoned
            or record.finishes
            or tap.ended
            or len(self._waiting) >= MAX_HELD
        )
        return self._release_passed() if must_release else b""

    def _translate_deviating(self, tap: Tap, frame: Frame) -> bytes:
        """A frame that cannot be passed on: translation begins with it, unless the answer is over."""
        if tap.ended:
            self._has_junk = True
            return b""
        before, failure = self._stop_passing(), tap.failure
        return before + self._write(self._decode(frame) if failure is None else self._intake.fail(failure))

    def _stop_passing(self, delivered: Delivered | None = None) -> bytes:
        """From here on the stream is translated; returns the translation of the frames that were not sent.

        The frames that were sent are not in memory any more. Decoder and encoder process a short answer that brings
        them into the same state, and the output for it is dropped.
        """
        tap = self._tap
        if tap is None or tap.ended:
            return b""
        if self.committed:
            self._reply = _behind(self._reply, tap, delivered)
        self._tap = None
        self._start_translating()
        waiting, self._waiting = self._waiting, []
        if self.committed:
            if tap.record.completion_id is not None:
                self._encoder.begin()  # that was sent
            for frame in tap.replay_frames():
                for event in self._decode(frame):
                    self._encoder.feed(event)
            self._frontend.return_to(self._encoder, self._reply.first_number)
            waiting = tap.held
        else:
            tap.record.completion_id = tap.record.model = None  # nothing was sent: the decoder reads all frames again
        return b"".join([self._write(self._decode(frame)) for frame, _ in waiting])

    def _start_translating(self) -> None:
        self._decode = self._intake.decode
        self._encoder = self._new_encoder()

    def _new_encoder(self) -> StreamEncoder:
        return self._frontend.encoder(_with_id_and_count(self._reply, self._frontend, self._meter))

    def _write(self, events: Sequence[Event]) -> bytes:
        if self._is_committed:
            return self._send(events)
        out = b""
        for event in events:
            out += self._send(self._gate.feed(event))
        self._is_committed = self._gate.committed
        if self._gate.failure is not None:
            self._is_over = True
        return out

    def _send(self, events: Sequence[Event]) -> bytes:
        out: list[bytes] = []
        for event in events:
            if type(event) is ToolCallStarted and event.call >= MAX_CALLS:
                error = UpstreamError("response_too_large", "The answer has too many tool calls.")
                return b"".join([*out, self._fail_encoding(error)])
            passed = self._meter.feed(event)
            try:
                out += self._encoder.feed(passed[0])
            except UpstreamError as error:
                return b"".join([*out, self._fail_encoding(error)])
            kind = type(event)
            if kind is StreamStarted:
                self._meter.record.completion_id = self._encoder.completion_id
            elif kind is StreamCompleted or kind is StreamFailed:
                for last in passed[1:]:
                    out += self._encoder.feed(last)
                self._is_over = True
        return b"".join(out)

    def _fail_encoding(self, error: UpstreamError) -> bytes:
        """The answer is too large for this API."""
        return self._send(self._intake.fail(error) or (StreamFailed(error),))


class WholeExchange:
    """A whole answer: nothing is sent before the end, then one body, or a `failure`.

    For an answer that is too large for the event loop, `finish` is not called: `large_body` is processed elsewhere
    (`pipeline.large_answer`), `take_large` gets its events, and `finish_large` the body that was written; or
    `pass_large` gives the body itself.
    """

    def __init__(self, provider: Provider, frontend: Frontend, reply: Reply, mode: Mode, meter: Meter) -> None:
        self.ended = False
        self.failure: StreamweirError | None = None
        self._meter = meter
        self._reply = reply
        self.frontend = frontend
        self._intake = Intake(provider, reply.choices)
        self._accumulator = Accumulator()
        wire = frontend.native_wire if mode is not Mode.TRANSLATE else None
        self._native = NATIVE[wire] if wire is not None else None
        self._is_detached = False
        self._large_usage: Usage | None = None
        self._large_id: str | None = None
        self.provider = provider
        self.choices = reply.choices

    def large_body(self) -> bytes | None:
        """The body, if it is one document and takes too long for one turn of the loop."""
        body = self._intake.whole if not self.ended else None
        return body if body is not None and is_large(body) else None

    def take_large(self, events: Sequence[Event]) -> None:
        if self.ended:
            return
        for event in events:
            for passed in self._meter.feed(event):
                if type(passed) is UsageReported:
                    self._large_usage = passed.usage
            if type(event) is StreamFailed:
                self.ended, self.failure = True, self.failure or event.error
            elif type(event) is StreamStarted:
                self._large_id = event.id

    def pass_large(self, body: bytes) -> bytes | None:
        """The body as it came, after its last event. None: it is written anew, or not at all."""
        native, shows_price = self._native, self._meter.record.price_of is not None
        if self.ended or native is None or not native.passes_large or shows_price or self._large_id is None:
            return None
        return self.finish_large(WholeBody(self._large_id, body))

    def reply_data(self) -> ReplyData | None:
        """The parameters for writing the large answer, after its last event. None: it is not written."""
        if self.ended:
            return None
        if self._is_detached:
            self.ended = True
            return None
        reply = _with_id_and_count(self._reply, self.frontend, self._meter)
        return reply_data_of(self.frontend.name, reply, self._large_usage or self._meter.count_usage())

    def finish_large(self, written: WholeBody) -> bytes:
        if self.ended:
            return b""
        self.ended = True
        if self._is_detached:
            return b""
        self._meter.record.completion_id = written.completion_id or None
        return written.body

    def feed(self, chunk: bytes, /) -> bytes:
        events = self._intake.feed(chunk)
        if not events:
            return b""
        out = self._take(events)
        is_beyond = self._meter.record.written > MAX_STREAMED_CHARACTERS or self._accumulator.blocks > MAX_CALLS
        if is_beyond and not self.ended:
            error = UpstreamError("response_too_large", "The answer is too large for a response that is not streamed.")
            return self.fail(error)
        return out

    def finish(self) -> bytes:
        if self._native is not None and not self.ended and (body := self._intake.whole) is not None:
            passed = self._native.take_whole(body, self._meter.record, self._reply.choices)
            if passed is not None:
                self.ended = True
                return passed
        out = self._take(self._intake.finish())
        self._meter.record.missing_done = self._intake.lacks_terminator
        return out

    def fail(self, error: StreamweirError, /) -> bytes:
        return self._take(self._intake.fail(error))

    def detach(self, error: StreamweirError | None = None, _: Delivered | None = None, /) -> bytes:
        """See `Exchange.detach`. Of a whole answer nothing was delivered."""
        if not self.ended:
            self.failure = error
            self._native = None  # the short path is only for an answer that is delivered
            self._is_detached = True
            self._meter.detach(error, NOTHING_DELIVERED)
        return b""

    def _take(self, events: Iterable[Event]) -> bytes:
        if self.ended:
            return b""
        for event in events:
            for passed in self._meter.feed(event):
                self._accumulator.feed(passed)
            if type(event) is StreamFailed:
                self.ended, self.failure = True, self.failure or event.error
            elif type(event) is StreamCompleted:
                self.ended = True
                return b"" if self._is_detached else self._write()
        return b""

    def _write(self) -> bytes:
        completion = self._accumulator.fold()
        reply = _with_id_and_count(self._reply, self.frontend, self._meter)
        id, body = self.frontend.write_whole(completion, reply)
        self._meter.record.completion_id = id or None
        return body


def _behind(reply: Reply, tap: Tap, delivered: Delivered | None) -> Reply:
    """The reply for what is written behind frames that were passed on: with their id, if they are numbered."""
    number = delivered.number if delivered is not None else tap.next_number
    id = tap.record.completion_id
    return structs.replace(reply, first_number=number, id=id or reply.id) if number else reply


def _with_id_and_count(reply: Reply, frontend: Frontend, meter: Meter) -> Reply:
    """The reply with the gateway's own id and count, which encoding may need."""
    id = reply.id or frontend.make_id(reply.entropy)
    return structs.replace(reply, id=id, count_usage=meter.count_usage, price_of=meter.record.price_of)
