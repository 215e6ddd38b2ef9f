"""The commit gate: holds events back until there is model output to send.

Before the commit nothing was sent: a failure can still have its own HTTP status, and another target can still be
tried. The gate opens with the first event that contains model output (text, reasoning, a refusal, a tool call, a
finish), not with the first event: some providers send opening events first, and then their error. It also opens by
`release`, when the status cannot be held back any longer, and when it holds `MAX_HELD` events.
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
"""Events, or frames. Normally a handful precede the output; an upstream that sends more is not held back longer."""

_OPENING = frozenset({TextDelta, ReasoningDelta, RefusalDelta, ToolCallStarted, ChoiceFinished, StreamCompleted})


class CommitGate:
    def __init__(self) -> None:
        self.committed = False
        self.failure: StreamweirError | None = None
        """The error of a stream that failed before anything was sent. Its events are dropped."""
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
        """Commits now, and returns the held events."""
        self.committed = True
        held, self._held = self._held, []
        return held

    def finish(self) -> list[Event]:
        return []
