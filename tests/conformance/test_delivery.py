"""What the times of an answer tell of its way, and when they tell nothing: over recordings, without a clock."""

import json
from collections.abc import Sequence

import pytest

from streamweir.conformance.endpoint.delivery import RULES
from streamweir.conformance.evaluate import apply_rules
from streamweir.conformance.plan import ProbeRequest
from streamweir.conformance.probe_session import FailureKind, ObservedExchange, ProbeSession
from streamweir.conformance.recording import Piece, Recording, RequestInfo
from streamweir.conformance.rule import Outcome, Verdict
from streamweir.frontends.chat.openai import OPENAI


def heard(name: str, times: Sequence[float], *, was_cut: bool = False, status: int = 200) -> ObservedExchange:
    """A streamed answer whose frames came at these times."""
    body, pieces = b"", []
    for at_s in times:
        choice = {"index": 0, "delta": {"content": "word"}, "finish_reason": None}
        pieces.append(Piece(len(body), at_s))
        body += b"data: %b\n\n" % json.dumps({"id": name, "choices": [choice]}).encode()
    recording = Recording(
        body=body,
        name=name,
        request=RequestInfo(stream=True),
        status=status,
        headers=(),
        pieces=tuple(pieces),
        ended_s=times[-1] if times else 0.0,
        was_cut=was_cut,
    )
    return ObservedExchange(name=name, probe_request=ProbeRequest(name=name), recording=recording)


def verdict(rule: str, *answers: ObservedExchange) -> Verdict:
    (found,) = [
        each for each in apply_rules(RULES, [ProbeSession(answers)], OPENAI, lambda _: "") if each.rule.id == rule
    ]
    return found


def evenly(first: float, last: float, count: int = 20) -> list[float]:
    return [first + (last - first) * at / (count - 1) for at in range(count)]


SHORT = heard("streamed", [0.2, 0.25, 0.3])


@pytest.mark.parametrize(
    ("times", "outcome"),
    [
        pytest.param(evenly(0.2, 2.0), Outcome.HOLDS, id="word by word"),
        pytest.param(evenly(1.0, 1.5), Outcome.HOLDS, id="after a while, word by word"),
        pytest.param(evenly(2.0, 2.01), Outcome.BROKEN, id="all at the end"),
        pytest.param([2.0] * 20, Outcome.BROKEN, id="in one piece"),
        pytest.param(evenly(1.0, 1.2), Outcome.BROKEN, id="most of the time nothing"),
        pytest.param(evenly(0.4, 0.45), Outcome.SKIPPED, id="a slow start and a fast model"),
        pytest.param(evenly(0.01, 0.2), Outcome.SKIPPED, id="too fast"),
        pytest.param(evenly(2.0, 2.01, 7), Outcome.SKIPPED, id="too short"),
        pytest.param([], Outcome.SKIPPED, id="nothing in it"),
    ],
)
def test_as_made(times: list[float], outcome: Outcome) -> None:
    again = heard("cancelled", times[:2], was_cut=True)
    assert verdict("delivery.as-made", SHORT, heard("long", times), again).outcome is outcome


@pytest.mark.parametrize("others", [[], [heard("cancelled", [0.2], was_cut=True)], [heard("cancelled", [])]])
def test_one_late_answer_is_not_conclusive(others: list[ObservedExchange]) -> None:
    found = verdict("delivery.as-made", SHORT, heard("long", [2.0] * 20), *others)
    assert (found.outcome, found.reason) == (Outcome.SKIPPED, "it was made in 0.00 s: too fast to tell")


def test_a_lump_is_shown_with_its_measures() -> None:
    again = heard("cancelled", [1.9], was_cut=True)
    (finding,) = verdict("delivery.as-made", SHORT, heard("long", evenly(2.0, 2.1)), again).findings
    assert finding.answer == "long"
    assert finding.message == (
        "20 frames came within 5% of the answer's time: from 2.00 s to 2.10 s (a short answer begins at 0.20 s)"
    )


def test_no_times_were_recorded() -> None:
    found = verdict(
        "delivery.as-made",
        SHORT,
        ObservedExchange(name="long", probe_request=ProbeRequest(name="long"), recording=bare("long")),
    )
    assert (found.outcome, found.reason) == (Outcome.SKIPPED, "no time was taken")


def bare(name: str) -> Recording:
    return Recording(body=heard(name, evenly(0, 1)).recording.body, name=name, status=200)  # type: ignore[union-attr]


LONG = heard("long", evenly(0.2, 3.2))
LEFT = heard("cancelled", [0.2, 0.3], was_cut=True)


@pytest.mark.parametrize(
    ("begins_s", "outcome"),
    [(0.2, Outcome.HOLDS), (0.9, Outcome.HOLDS), (1.5, Outcome.HOLDS), (3.1, Outcome.ODD)],
)
def test_the_next_answer_need_not_wait(begins_s: float, outcome: Outcome) -> None:
    after = heard("after-cancel", [begins_s, begins_s + 0.1])
    assert verdict("cancel.frees-the-model", SHORT, LONG, LEFT, after).outcome is outcome


def test_a_short_remainder_is_not_conclusive() -> None:
    after = heard("after-cancel", [9.0])
    found = verdict("cancel.frees-the-model", SHORT, heard("long", evenly(0.2, 0.9)), LEFT, after)
    assert (found.outcome, found.reason) == (
        Outcome.SKIPPED,
        "the rest of the answer would have taken too little time to be seen",
    )


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([], "after-cancel was not asked"),
        ([heard("after-cancel", [0.1])], "cancelled was not asked"),
        (
            [heard("cancelled", [0.1]), heard("after-cancel", [0.1])],
            "the answer was over before it could be left",
        ),
        (
            [heard("cancelled", [0.1], status=429), heard("after-cancel", [0.1])],
            "cancelled was answered with status 429",
        ),
        (
            [
                LEFT,
                ObservedExchange(
                    name="after-cancel",
                    probe_request=ProbeRequest(name="after-cancel"),
                    recording=None,
                    failure_kind=FailureKind.TIMED_OUT,
                ),
            ],
            "the next answer did not come in time",
        ),
    ],
)
def test_when_leaving_cannot_be_judged(answers: list[ObservedExchange], reason: str) -> None:
    found = verdict("cancel.next-answer", *answers)
    assert (found.outcome, found.reason) == (Outcome.SKIPPED, reason)


def test_no_answer_to_the_next_request() -> None:
    gone = ObservedExchange(
        name="after-cancel",
        probe_request=ProbeRequest(name="after-cancel"),
        recording=None,
        failure_kind=FailureKind.UNREACHABLE,
        failure="refused",
    )
    (finding,) = verdict("cancel.next-answer", LEFT, gone).findings
    assert finding.message == "the request after it got no answer: refused"
