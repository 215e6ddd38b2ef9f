"""The commit gate opens with model output, not with scaffolding."""

import pytest

from streamweir.core.errors import UpstreamError
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    Extra,
    FinishReason,
    LogprobsDelta,
    ReasoningDelta,
    RefusalDelta,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    StreamTagged,
    TextDelta,
    ToolCallStarted,
    UsageReported,
)
from streamweir.core.usage import Usage
from streamweir.pipeline.commit import MAX_HELD, CommitGate

SCAFFOLDING: list[Event] = [
    StreamStarted("id-1"),
    StreamTagged("fp"),
    UsageReported(Usage(output=1)),
    Extra(None, {"prompt_filter_results": []}),
    LogprobsDelta(0, None),
]
ERROR = UpstreamError("upstream_overloaded", "busy")


@pytest.mark.parametrize(
    "event",
    [
        TextDelta(0, "a"),
        ReasoningDelta(0, "a"),
        RefusalDelta(0, "a"),
        ToolCallStarted(0, 0, None, "f"),
        ChoiceFinished(0, FinishReason.STOP),
        StreamCompleted(),
    ],
    ids=lambda event: type(event).__name__,
)
def test_model_output_opens_it_and_lets_out_what_was_held(event: Event) -> None:
    gate = CommitGate()
    assert [held for part in SCAFFOLDING for held in gate.feed(part)] == []
    assert not gate.committed
    assert gate.feed(event) == [*SCAFFOLDING, event]
    assert gate.committed
    assert gate.feed(TextDelta(0, "b")) == [TextDelta(0, "b")]


def test_a_failure_after_scaffolding_is_still_before_the_commit() -> None:
    gate = CommitGate()
    for event in SCAFFOLDING:
        gate.feed(event)
    assert gate.feed(StreamFailed(ERROR)) == []
    assert (gate.committed, gate.failure) == (False, ERROR)
    assert gate.finish() == []


def test_a_failure_after_the_commit_goes_out() -> None:
    gate = CommitGate()
    gate.feed(TextDelta(0, "a"))
    assert gate.feed(StreamFailed(ERROR)) == [StreamFailed(ERROR)]
    assert gate.failure is None


def test_it_opens_on_release() -> None:
    gate = CommitGate()
    gate.feed(SCAFFOLDING[0])
    assert gate.release() == [SCAFFOLDING[0]]
    assert gate.committed
    assert gate.release() == []


def test_it_does_not_hold_without_a_bound() -> None:
    gate = CommitGate()
    let_out = [gate.feed(StreamTagged("fp")) for _ in range(MAX_HELD)]
    assert [len(part) for part in let_out] == [0] * (MAX_HELD - 1) + [MAX_HELD]
