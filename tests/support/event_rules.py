"""The rules of `core.events`, as a check of a whole stream of events: every decoder must keep them."""

from collections.abc import Sequence

from streamweir.core.events import (
    ChoiceFinished,
    Event,
    Extra,
    LogprobsDelta,
    ReasoningDelta,
    RefusalDelta,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
)

OF_A_CHOICE = (TextDelta, ReasoningDelta, RefusalDelta, ToolCallStarted, ToolCallDelta, LogprobsDelta, ChoiceFinished)


def assert_valid_events(events: Sequence[Event]) -> None:
    assert events, "a stream of events is never empty: it has a terminal event"
    terminal = [i for i, event in enumerate(events) if isinstance(event, StreamCompleted | StreamFailed)]
    assert terminal == [len(events) - 1], "exactly one terminal event, and it is last"
    starts = [i for i, event in enumerate(events) if isinstance(event, StreamStarted)]
    assert starts == ([] if len(events) == 1 and isinstance(events[0], StreamFailed) else [0]), "StreamStarted is first"
    started: set[int] = set()
    finished: set[int] = set()
    calls: dict[int, int] = {}
    for event in events:
        if isinstance(event, TextDelta | RefusalDelta):
            assert event.text, "an empty delta is no event"
        elif isinstance(event, ReasoningDelta):
            assert event.text or event.details, "an empty delta is no event"
        elif isinstance(event, ToolCallStarted):
            assert event.call == calls.get(event.choice, 0), "calls are counted 0, 1, 2 per choice"
            assert event.id != "", "an absent id is None"
            calls[event.choice] = event.call + 1
        elif isinstance(event, ToolCallDelta):
            assert event.arguments, "an empty delta is no event"
            assert event.call < calls.get(event.choice, 0), "a call starts before its arguments"
        if isinstance(event, (*OF_A_CHOICE, Extra)) and event.choice is not None:
            assert event.choice not in finished, "nothing of a choice follows its finish"
            started.add(event.choice)
        if isinstance(event, ChoiceFinished):
            finished.add(event.choice)
    if isinstance(events[-1], StreamCompleted):
        assert started == finished, "a complete stream has finished every choice that it started"
        assert finished, "a complete stream has a choice"
