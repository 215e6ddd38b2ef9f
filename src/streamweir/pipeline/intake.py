"""Bytes to events: the upstream half of the chain, for one answer of one provider.

It connects the body splitter with the provider's decoder. An event beyond the limit, bytes that are no frame, an empty
body and a whole document instead of a stream become events as well.
"""

from collections.abc import Callable, Sequence
from functools import cached_property

from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.core.events import Event
from streamweir.providers.base import Decoder, Provider, framing_of, invalid_frame, max_event_bytes
from streamweir.wire.body import WHOLE_LIMIT, BodyFormat, BodySplitter
from streamweir.wire.jsonio import is_dense
from streamweir.wire.sse import Frame, InvalidFrame, SplitError


class Intake:
    """`feed` and `finish`; or `split`, `remaining_frames`, `decode` and `end`, for callers that need the frames.

    `split` and `decode` are called for every read, so they are the `feed` methods of the splitter and of the decoder
    themselves. `split` raises `SplitError`; then call `fail_to_split`.
    """

    def __init__(self, provider: Provider, choices: int | None = None, *, max_whole_bytes: int = WHOLE_LIMIT) -> None:
        """`choices`: see `Provider.decoder`. `max_whole_bytes`: the limit of a body that is one document."""
        self._provider = provider
        self._choices = choices
        self._is_for_stream = max_whole_bytes < WHOLE_LIMIT  # read on the event loop, where nothing may take long
        self._body = BodySplitter(max_event_bytes(provider), max_whole_bytes, framing_of(provider))
        self._is_over = False  # by a failure, or by a whole document; otherwise the decoder knows
        self.has_event = False
        """There was an event in what `feed` read last. Comments are no events."""

    @cached_property
    def decode(self) -> Callable[[Frame], Sequence[Event]]:
        return self._decoder.feed

    @cached_property
    def _decoder(self) -> Decoder:
        """Created when it is needed: an answer that is passed on, or whole, needs none."""
        return self._provider.decoder(self._choices)

    @property
    def may_end_when_idle(self) -> bool:
        return self._decoder.may_end_when_idle

    @property
    def lacks_terminator(self) -> bool:
        """The answer is complete, but its terminator is missing: only the body ended."""
        return self._decoder.lacks_terminator

    @property
    def is_mid_event(self) -> bool:
        return self._body.is_mid_event

    @property
    def whole(self) -> bytes | None:
        """The body, if it is a whole document that was not decoded yet."""
        return self._body.whole if self._body.format is BodyFormat.WHOLE and not self._is_over else None

    @property
    def split(self) -> Callable[[bytes], list[Frame]]:
        """Not stored: an object that holds its own bound method is freed only by the cycle collector."""
        return (self._body.events or self._body).feed

    def fail_to_split(self, reason: SplitError) -> Sequence[Event]:
        """After the events of `reason.frames`."""
        return self.fail(invalid_frame().error) if isinstance(reason, InvalidFrame) else self._fail_too_large()

    def _fail_too_large(self) -> Sequence[Event]:
        return self.fail(
            UpstreamError(
                "upstream_frame_too_large",
                "The upstream sent an event that is too large, or too much data without an event.",
            )
        )

    def remaining_frames(self) -> list[Frame]:
        """The frames that were incomplete until the body ended."""
        return self._body.finish()

    def feed(self, chunk: bytes, /) -> list[Event]:
        events: list[Event] = []
        try:
            frames = self.split(chunk)
        except SplitError as reason:
            for frame in reason.frames:
                events += self.decode(frame)
            events += self.fail_to_split(reason)
            return events
        self.has_event = False
        for frame in frames:
            if frame.data is not None:
                self.has_event = True
            events += self.decode(frame)
        return events

    def finish(self) -> list[Event]:
        """The body ended cleanly."""
        events: list[Event] = []
        for frame in self.remaining_frames():
            events += self.decode(frame)
        events += self.end()
        return events

    def end(self) -> Sequence[Event]:
        """The events of the end itself, after those of `remaining_frames`."""
        if self._is_over:
            return ()
        if self._body.format is None:
            return self.fail(UpstreamError("upstream_empty_response", "The upstream's answer was empty."))
        if self._body.format is BodyFormat.WHOLE:
            whole = self._body.whole
            if self._is_for_stream and is_dense(whole):
                return self._fail_too_large()
            self._is_over = True
            return self._provider.decode_whole(whole, self._choices)
        return self._decoder.finish()

    def fail(self, error: StreamweirError, /) -> Sequence[Event]:
        if self._is_over:
            return ()
        self._is_over = True
        return self._decoder.fail(error)
