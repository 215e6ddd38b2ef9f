"""The commit gate: holds a stream back until there is something worth sending.

Until it opens, the caller has seen nothing: a failure can still have a real HTTP status, and
another target can still be tried. It opens with the first event that carries model output
(text, reasoning, a refusal, a tool call, a finish), not with the first event: providers send
scaffolding first, and then their error. It also opens when told to (`release`: the longest
time that a status may be held back has passed) and when it holds more than it may.
"""

from streamweir.core.errors import StreamweirError
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    ReasoningDelta,
    RefusalDelta,
    StreamCompleted,
    StreamFailed,
    TextDelta,
    ToolCallStarted,
)

MAX_HELD = 64
"""Events, or frames. Scaffolding is a handful; an upstream that sends more of it is not held back for longer."""

_OPENING = frozenset({TextDelta, ReasoningDelta, RefusalDelta, ToolCallStarted, ChoiceFinished, StreamCompleted})


class CommitGate:
    def __init__(self) -> None:
        self.committed = False
        self.failure: StreamweirError | None = None
        """The error of a stream that failed before anything was sent. Nothing goes out of it."""
        self._held: list[Event] = []

    def feed(self, event: Event, /) -> list[Event]:
        if self.committed:
            return [event]
        if type(event) is StreamFailed:
            self.failure = event.error
            self._held.clear()
            return []
        self._held.append(event)
        if type(event) in _OPENING or len(self._held) >= MAX_HELD:
            return self.release()
        return []

    def release(self) -> list[Event]:
        """Commit now: what was held goes out."""
        self.committed = True
        held, self._held = self._held, []
        return held

    def finish(self) -> list[Event]:
        return []
