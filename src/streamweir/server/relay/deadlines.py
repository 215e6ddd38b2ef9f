"""How long an attempt may take, in everything that can take too long; and when to look again.

Pure: times are handed in, and a `AttemptSnapshot` says what there is to see. The relay looks once per tick of
its one timer, never per chunk. While the caller does not read, the upstream is not to blame: only
the total time runs on.
"""

from msgspec import Struct

from streamweir.core.errors import UpstreamError
from streamweir.pipeline.meter import BYTES_PER_TOKEN

_OVERRUN = 4
"""How many times the limit that was asked for an answer may grow before it is cut: docs/spec/failures.md U26."""
_SHORTEST_LIMIT = 64
"""In tokens: a guess at the tokens of a few words is too coarse to cut by."""
_LEAST_STEP_BYTES = 256
_UNSEEN_BYTES = 16 * 1024
"""Of text: so much of an answer may pass beyond its allowance before that is seen, and only where frames suddenly
carry more than twice the text that they did before."""
MOST_BYTES = 4
"""Of a character, in UTF-8."""
_SHORTEST_WAIT_S = 0.001
_SHORTEST_PULSE_S = 0.02
"""No setting makes a stream that just flows look more often than this."""


class AttemptTimeouts(Struct, frozen=True, kw_only=True):
    """Until when an attempt waits. `_at` is a time of the loop's clock, `_s` a number of seconds."""

    commit_at: float
    total_at: float
    first_event_s: float
    idle_s: float
    assembly_s: float
    keepalive_s: float
    silence_s: float
    abandoned_s: float
    most_bytes: int
    most_output_tokens: int | None = None


class AttemptSnapshot(Struct, frozen=True, kw_only=True):
    """What there is to see of an attempt at one moment."""

    now: float
    is_paused: bool
    """The caller does not read, and so we do not."""
    has_first_event: bool
    read_at: float | None
    """When the last piece of the body came; None before the first."""
    wrote_at: float | None
    """When the caller was last written to; None where nothing was sent yet."""
    is_committed: bool
    has_moved: bool | None
    """An event was read since the last look. None: a whole answer, which has no events."""
    is_mid_event: bool
    written: int
    """Characters of the answer so far."""


class Deadlines:
    __slots__ = ("_began_at", "_event_at", "_framed_at", "_timing")

    def __init__(self, timing: AttemptTimeouts, began_at: float) -> None:
        self._timing = timing
        self._began_at = began_at
        self._framed_at = began_at
        self._event_at: float | None = None

    def overdue(self, look: AttemptSnapshot) -> UpstreamError | None:
        """Why the attempt must end now."""
        timing, now = self._timing, look.now
        self._note_event(look)
        if now >= timing.total_at:
            return UpstreamError(
                "stream_deadline_exceeded", "The answer took longer than the configured total timeout."
            )
        if look.is_paused:
            return None
        if not look.has_first_event and now - self._began_at >= timing.first_event_s:
            return UpstreamError("upstream_timeout", "The provider did not begin its answer in time.")
        if self._event_at is not None and now - self._event_at >= timing.idle_s:
            return UpstreamError("stream_idle_timeout", "The provider stopped in the middle of its answer.")
        if look.is_mid_event and now - self._framed_at >= timing.assembly_s:
            return UpstreamError("stream_deadline_exceeded", "The provider took too long to send one event.")
        most = timing.most_output_tokens
        if most is not None and look.written > _OVERRUN * BYTES_PER_TOKEN * max(most, _SHORTEST_LIMIT):
            return too_large()
        return None

    def is_silent(self, look: AttemptSnapshot) -> bool:
        """Nothing came for as long as the usage behind a finish is waited for. Asked after `overdue`."""
        if look.is_paused or self._event_at is None:
            return False
        return look.now - self._event_at >= self._timing.silence_s

    def is_quiet(self, look: AttemptSnapshot) -> bool:
        """The caller was told nothing for so long that a sign of life is due."""
        return look.wrote_at is not None and not look.is_paused and look.now - look.wrote_at >= self._timing.keepalive_s

    def first_look(self, *, is_stream: bool) -> float:
        """When to look for the first time, at an attempt that has just begun."""
        timing, now = self._timing, self._began_at
        due = min(timing.total_at, now + self._pulse_s(), now + timing.first_event_s)
        return max(min(due, timing.commit_at) if is_stream else due, now + _SHORTEST_WAIT_S)

    def next_look(self, look: AttemptSnapshot) -> float:
        timing, now = self._timing, look.now
        due = min(timing.total_at, now + self._pulse_s())
        if not look.is_committed:
            due = min(due, timing.commit_at)
        if not look.is_paused:
            if look.wrote_at is not None:
                due = min(due, look.wrote_at + timing.keepalive_s)
            if not look.has_first_event:
                due = min(due, self._began_at + timing.first_event_s)
            if self._event_at is not None:
                due = min(due, self._event_at + timing.idle_s)
        return max(due, now + _SHORTEST_WAIT_S)

    def _pulse_s(self) -> float:
        """At least as often as the shortest of them: which one applies changes with what is read, not with a tick."""
        timing = self._timing
        return max(min(timing.silence_s, timing.assembly_s, timing.idle_s, timing.keepalive_s), _SHORTEST_PULSE_S)

    def _note_event(self, look: AttemptSnapshot) -> None:
        """An upstream that sends only comments has stopped: they are bytes and no events (docs/spec/failures.md U15).
        Before the first token they may say that it is at work; for that it has `first_event_s` and no more.

        When an event came is known to a tick; the last read is never before it.
        """
        if look.has_moved is None:
            self._event_at = look.read_at
        elif look.has_moved:
            self._framed_at, self._event_at = look.now, look.read_at
        elif look.is_mid_event:
            self._event_at = look.read_at
        else:
            self._framed_at = look.now
            if self._event_at is not None and not look.has_first_event:
                self._event_at = look.read_at
        if look.is_paused and self._event_at is not None:
            self._event_at = look.now


def next_check_at(bytes_in: int, tokens: int, left: int, most_bytes: int) -> int:
    """How many bytes of an answer may come before its length must be looked at again, with so many tokens `left`.

    No text has more tokens than the bytes that brought it; near the end that would be a look at every piece. Most of
    those bytes are framing, though: where the `tokens` so far tell how much, half of what they foretell may come,
    within the bound of `_UNSEEN_BYTES`.
    """
    surely = left
    foretold = left * bytes_in // (2 * tokens) if tokens else 0
    step = max(surely, min(foretold, surely + _UNSEEN_BYTES), _LEAST_STEP_BYTES)
    return min(most_bytes, bytes_in + step)


def too_large() -> UpstreamError:
    return UpstreamError("response_too_large", "The answer exceeds the configured size limit.")
