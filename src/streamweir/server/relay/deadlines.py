"""The deadlines of an attempt: which one has passed, and when the timer must fire next.

Pure: the caller passes the time and an `AttemptSnapshot`. The relay checks deadlines when its timer fires, never per
chunk. While the caller does not read, the upstream cannot send: then only the total time counts. When every choice has
finished, no deadline is an error any more: the answer is whole, and ends `silence_s` after its last event, or with the
total time (docs/spec/quirks.md Q45).
"""

from msgspec import Struct

from streamweir.core.errors import UpstreamError
from streamweir.pipeline.settlement import BYTES_PER_TOKEN

_OVERRUN_FACTOR = 4
"""An answer is cut when it is so many times as long as the requested limit: docs/spec/failures.md U26."""
_MIN_LIMIT_TOKENS = 64
"""A smaller limit is not enforced: the estimate for a few words is too coarse."""
_MIN_STEP_BYTES = 256
_MAX_UNCHECKED_BYTES = 16 * 1024
"""Of text: an answer may exceed its allowance by so much before it is noticed, and only if frames suddenly contain more
than twice as much text as before."""
MAX_BYTES_PER_CHARACTER = 4
"""In UTF-8."""
_MIN_WAIT_S = 0.001
_MIN_INTERVAL_S = 0.02
"""The timer of a stream fires no more often, whatever is configured."""


class AttemptTimeouts(Struct, frozen=True, kw_only=True):
    """How long an attempt waits. `_at` is a time of the loop's clock, `_s` a number of seconds."""

    commit_at: float
    total_at: float
    is_callers: bool = False
    """The caller has chosen `total_at`: that it passes says nothing about the target."""
    first_event_s: float
    idle_s: float
    assembly_s: float
    keepalive_s: float
    silence_s: float
    abandoned_s: float
    max_bytes: int
    max_output_tokens: int | None = None


class AttemptSnapshot(Struct, frozen=True, kw_only=True):
    """An attempt at one moment, as far as deadlines depend on it."""

    now: float
    is_paused: bool
    """The upstream is not read, because the caller does not read."""
    has_first_event: bool
    read_at: float | None
    """When the last piece of the body arrived; None before the first."""
    wrote_at: float | None
    """When something was last written to the caller; None if nothing was sent yet."""
    is_committed: bool
    has_progressed: bool | None
    """An event was read since the last check. None: a whole answer, which has no events."""
    is_mid_event: bool
    is_finished: bool
    """Every choice has finished: only usage and the end can follow."""
    written: int
    """Characters of the answer until now."""


class Deadlines:
    __slots__ = ("_began_at", "_event_at", "_framed_at", "_timeouts")

    def __init__(self, timeouts: AttemptTimeouts, began_at: float) -> None:
        self._timeouts = timeouts
        self._began_at = began_at
        self._framed_at = began_at
        self._event_at: float | None = None

    def note_event(self, at: float) -> None:
        """When the last event arrived, if something that is no event has arrived since."""
        self._framed_at = self._event_at = at

    def overdue(self, snapshot: AttemptSnapshot) -> UpstreamError | None:
        """Why the attempt must end now; None: it may go on."""
        timeouts, now = self._timeouts, snapshot.now
        self._note_progress(snapshot)
        if now >= timeouts.total_at and not (snapshot.is_finished and not snapshot.is_mid_event):
            return self._total_exceeded()
        if snapshot.is_paused:
            return None
        if not snapshot.is_finished:  # else see `is_silent`
            if not snapshot.has_first_event and now - self._began_at >= timeouts.first_event_s:
                return UpstreamError("upstream_timeout", "The provider did not begin its answer in time.")
            if self._event_at is not None and now - self._event_at >= timeouts.idle_s:
                return UpstreamError("stream_idle_timeout", "The provider stopped in the middle of its answer.")
        if snapshot.is_mid_event and now - self._framed_at >= timeouts.assembly_s:
            return UpstreamError("stream_deadline_exceeded", "The provider took too long to send one event.")
        max_output_tokens = timeouts.max_output_tokens
        if max_output_tokens is not None and snapshot.written > _OVERRUN_FACTOR * BYTES_PER_TOKEN * max(
            max_output_tokens, _MIN_LIMIT_TOKENS
        ):
            return too_large()
        return None

    def _total_exceeded(self) -> UpstreamError:
        is_callers = self._timeouts.is_callers
        limit = "the request's own x-request-timeout" if is_callers else "the configured total timeout"
        error = UpstreamError("stream_deadline_exceeded", f"The answer took longer than {limit}.")
        error.is_of_caller = is_callers
        return error

    def is_silent(self, snapshot: AttemptSnapshot) -> bool:
        """A finished stream has waited long enough for its usage and its end. Call it after `overdue`."""
        if not snapshot.is_finished:
            return False
        if snapshot.now >= self._timeouts.total_at:
            return True
        if snapshot.is_paused or self._event_at is None:
            return False
        return snapshot.now - self._event_at >= self._timeouts.silence_s

    def is_quiet(self, snapshot: AttemptSnapshot) -> bool:
        """Nothing was written to the caller for so long that a keep-alive comment is due."""
        return (
            snapshot.wrote_at is not None
            and not snapshot.is_paused
            and snapshot.now - snapshot.wrote_at >= self._timeouts.keepalive_s
        )

    def first_timer_at(self, *, is_stream: bool) -> float:
        """When the timer must fire first, for an attempt that has just begun."""
        timeouts, now = self._timeouts, self._began_at
        due = min(timeouts.total_at, now + self._interval_s(), now + timeouts.first_event_s)
        return max(min(due, timeouts.commit_at) if is_stream else due, now + _MIN_WAIT_S)

    def next_timer_at(self, snapshot: AttemptSnapshot) -> float:
        timeouts, now = self._timeouts, snapshot.now
        due = min(timeouts.total_at, now + self._interval_s())
        if not snapshot.is_committed:
            due = min(due, timeouts.commit_at)
        if not snapshot.is_paused:
            if snapshot.wrote_at is not None:
                due = min(due, snapshot.wrote_at + timeouts.keepalive_s)
            if not snapshot.has_first_event and not snapshot.is_finished:
                due = min(due, self._began_at + timeouts.first_event_s)
            if self._event_at is not None:
                due = min(due, self._event_at + (timeouts.silence_s if snapshot.is_finished else timeouts.idle_s))
        return max(due, now + _MIN_WAIT_S)

    def _interval_s(self) -> float:
        """The shortest of these timeouts: which of them applies can change between two checks."""
        timeouts = self._timeouts
        return max(min(timeouts.silence_s, timeouts.assembly_s, timeouts.idle_s, timeouts.keepalive_s), _MIN_INTERVAL_S)

    def _note_progress(self, snapshot: AttemptSnapshot) -> None:
        """An upstream that sends only comments has stopped: comments are bytes, not events (docs/spec/failures.md U15).
        Before the first token they may mean that it works; `first_event_s` limits that.

        An event since the last check came with the last read: if not, `note_event` was called.
        """
        if snapshot.has_progressed is None:
            self._event_at = snapshot.read_at
        elif snapshot.has_progressed:
            self._framed_at, self._event_at = snapshot.now, snapshot.read_at
        elif snapshot.is_mid_event:
            self._event_at = snapshot.read_at
        else:
            self._framed_at = snapshot.now
            if self._event_at is not None and not snapshot.has_first_event and not snapshot.is_finished:
                self._event_at = snapshot.read_at
        if snapshot.is_paused and self._event_at is not None:
            self._event_at = snapshot.now


def next_check_at(bytes_in: int, tokens: int, remaining: int, max_bytes: int, slack: int = 0) -> int:
    """At how many bytes of an answer its length must be checked again, if so many tokens are `remaining`.

    A text has no more tokens than bytes. With that bound alone, every piece near the end would be checked. But most of
    the bytes are framing: the `tokens` until now show how much. So half of the predicted bytes may pass unchecked, at
    most `_MAX_UNCHECKED_BYTES`. `slack`: so many tokens may pass in any case.
    """
    certain = remaining
    predicted = remaining * bytes_in // (2 * tokens) if tokens else 0
    step = max(certain, min(predicted, certain + _MAX_UNCHECKED_BYTES), _MIN_STEP_BYTES)
    if slack and tokens:
        step = max(step, slack * bytes_in // tokens)
    return min(max_bytes, bytes_in + step)


def too_large() -> UpstreamError:
    return UpstreamError("response_too_large", "The answer exceeds the configured size limit.")
