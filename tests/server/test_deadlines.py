"""When an attempt has taken too long, by its snapshot."""

import pytest
from msgspec import structs

from streamweir.server.relay.deadlines import AttemptSnapshot, AttemptTimeouts, Deadlines

TIMING = AttemptTimeouts(
    commit_at=10.0,
    total_at=600.0,
    first_event_s=120.0,
    idle_s=60.0,
    assembly_s=30.0,
    keepalive_s=15.0,
    silence_s=2.0,
    abandoned_s=30.0,
    max_bytes=1 << 26,
)
START = AttemptSnapshot(
    now=0.0,
    is_paused=False,
    has_first_event=False,
    read_at=None,
    wrote_at=None,
    is_committed=False,
    has_progressed=False,
    is_mid_event=False,
    is_finished=False,
    written=0,
)
FLOWING = structs.replace(
    START, now=5.0, has_first_event=True, read_at=5.0, wrote_at=5.0, is_committed=True, has_progressed=True
)

STALLED = structs.replace(FLOWING, has_progressed=False)


def overdue(patience: Deadlines, look: AttemptSnapshot, **changes: object) -> str | None:
    error = patience.overdue(structs.replace(look, **changes))
    return error.code if error is not None else None


@pytest.mark.parametrize(
    ("look", "before", "after", "code"),
    [
        (START, 119.9, 120.0, "upstream_timeout"),
        (FLOWING, 64.9, 65.0, "stream_idle_timeout"),
        (structs.replace(FLOWING, is_paused=True), 599.9, 600.0, "stream_deadline_exceeded"),
    ],
)
def test_each_has_its_time(look: AttemptSnapshot, before: float, after: float, code: str) -> None:
    patience = Deadlines(TIMING, 0.0)
    assert overdue(patience, look) is None
    assert overdue(patience, look, now=before) is None
    assert overdue(patience, look, now=after) == code


def test_an_event_that_never_ends_is_not_hidden_by_its_bytes() -> None:
    patience = Deadlines(TIMING, 0.0)
    assert overdue(patience, FLOWING) is None
    for now in (10.0, 20.0, 30.0, 34.9):
        assert overdue(patience, STALLED, now=now, read_at=now, is_mid_event=True) is None
    assert overdue(patience, STALLED, now=35.0, read_at=35.0, is_mid_event=True) == "stream_deadline_exceeded"


def test_comments_before_the_first_token_count_as_activity_until_its_timeout() -> None:
    """Some providers name the role at once, and send comments until the model has begun."""
    patience = Deadlines(TIMING, 0.0)
    role = structs.replace(FLOWING, has_first_event=False)
    assert overdue(patience, role) is None
    waiting = structs.replace(role, has_progressed=False)
    for now in range(10, 120, 5):
        assert overdue(patience, waiting, now=float(now), read_at=now - 1.0) is None
    assert overdue(patience, waiting, now=120.0, read_at=119.0) == "upstream_timeout"


def test_silence_after_the_role_is_a_stop() -> None:
    patience = Deadlines(TIMING, 0.0)
    role = structs.replace(FLOWING, has_first_event=False)
    assert overdue(patience, role) is None
    assert overdue(patience, role, has_progressed=False, now=64.9) is None
    assert overdue(patience, role, has_progressed=False, now=65.0) == "stream_idle_timeout"


def test_comments_are_no_events() -> None:
    """Bytes come, no event does, and none is begun: neither is it going on, nor is the finish kept waiting."""
    patience = Deadlines(TIMING, 0.0)
    assert overdue(patience, FLOWING) is None
    quiet = structs.replace(STALLED, now=7.0, read_at=7.0)
    assert overdue(patience, quiet) is None
    assert not patience.is_silent(quiet)
    assert patience.is_silent(structs.replace(quiet, is_finished=True))
    assert overdue(patience, quiet, now=65.0, read_at=65.0) == "stream_idle_timeout"


def test_while_the_caller_does_not_read_nothing_is_the_upstreams_fault() -> None:
    patience = Deadlines(TIMING, 0.0)
    assert overdue(patience, FLOWING) is None
    assert overdue(patience, STALLED, now=300.0, is_paused=True) is None
    assert not patience.is_silent(structs.replace(STALLED, now=300.0, is_paused=True, is_finished=True))
    assert overdue(patience, STALLED, now=301.0) is None
    assert overdue(patience, STALLED, now=360.0) == "stream_idle_timeout"


def test_a_whole_answer_is_watched_by_its_bytes() -> None:
    patience = Deadlines(TIMING, 0.0)
    whole = structs.replace(FLOWING, has_progressed=None, wrote_at=None)
    for now in (30.0, 80.0, 130.0):
        assert overdue(patience, whole, now=now, read_at=now) is None
    assert overdue(patience, whole, now=190.0, read_at=130.0) == "stream_idle_timeout"


@pytest.mark.parametrize(("most", "written", "is_cut"), [(100, 1600, False), (100, 1601, True), (1, 1000, False)])
def test_an_answer_far_beyond_its_limit_is_cut(most: int, written: int, is_cut: bool) -> None:
    patience = Deadlines(structs.replace(TIMING, max_output_tokens=most), 0.0)
    assert overdue(patience, FLOWING, written=written) == ("response_too_large" if is_cut else None)


@pytest.mark.parametrize(
    ("look", "due"),
    [
        (START, 2.0),
        (structs.replace(START, now=9.5), 10.0),
        (structs.replace(FLOWING, now=19.0), 20.0),
        (structs.replace(FLOWING, now=599.5, wrote_at=599.0), 600.0),
        (structs.replace(START, now=700.0), 700.001),
        (structs.replace(FLOWING, now=100.0, is_paused=True), 102.0),
    ],
)
def test_the_next_timer_is_at_the_first_deadline(look: AttemptSnapshot, due: float) -> None:
    assert Deadlines(TIMING, 0.0).next_timer_at(look) == pytest.approx(due)


@pytest.mark.parametrize("is_stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize(
    "changes",
    [{}, {"commit_at": 1.0}, {"total_at": 0.5}, {"first_event_s": 0.25}, {"idle_s": 0.001, "commit_at": 0.0}],
    ids=str,
)
def test_the_first_timer_is_that_of_an_attempt_without_data(changes: dict[str, float], is_stream: bool) -> None:
    patience = Deadlines(structs.replace(TIMING, **changes), 0.0)
    nothing = AttemptSnapshot(
        now=0.0,
        is_paused=False,
        has_first_event=False,
        read_at=None,
        wrote_at=None,
        is_committed=not is_stream,
        has_progressed=False if is_stream else None,
        is_mid_event=False,
        is_finished=False,
        written=0,
    )
    assert patience.first_timer_at(is_stream=is_stream) == patience.next_timer_at(nothing)


def test_a_keep_alive_is_due_after_silence_and_not_for_a_caller_that_does_not_read() -> None:
    patience = Deadlines(TIMING, 0.0)
    quiet = structs.replace(FLOWING, now=20.0)
    assert patience.is_quiet(quiet)
    assert not patience.is_quiet(structs.replace(quiet, is_paused=True))
    assert not patience.is_quiet(structs.replace(quiet, now=19.9))
    assert not patience.is_quiet(structs.replace(quiet, wrote_at=None))


# Silence after every choice has finished (docs/spec/quirks.md Q45).

FINISHED = structs.replace(FLOWING, is_finished=True)
WAITED = structs.replace(FINISHED, has_progressed=False)


def end_of(timing: AttemptTimeouts, last_event_at: float, first_check_at: float = 0.0) -> float:
    """When a finished stream ends whose last event came then, with a timer that fires exactly when it is set to."""
    deadlines = Deadlines(timing, 0.0)
    now, is_noted = first_check_at, False
    for _ in range(1000):
        has_come = now >= last_event_at
        look = structs.replace(
            WAITED if has_come else STALLED,
            now=now,
            read_at=last_event_at if has_come else 0.0,
            wrote_at=min(now, last_event_at),
            has_progressed=has_come and not is_noted,
        )
        is_noted = is_noted or has_come
        assert deadlines.overdue(look) is None
        if deadlines.is_silent(look):
            return now
        now = deadlines.next_timer_at(look)
    raise AssertionError("it never ends")


@pytest.mark.parametrize("idle_s", [0.5, 1.0, 2.0, 2.5, 3.9, 4.0, 60.0])
@pytest.mark.parametrize("last_event_at", [0.01, 0.4, 0.49, 1.99, 2.0, 3.5])
def test_a_finished_stream_ends_the_silence_after_its_last_event(idle_s: float, last_event_at: float) -> None:
    timing = structs.replace(TIMING, idle_s=idle_s)
    first = 0.0 if last_event_at < idle_s else last_event_at - idle_s / 2  # before that it was not idle
    assert end_of(timing, last_event_at, first) == pytest.approx(last_event_at + 2.0, abs=0.1)


@pytest.mark.parametrize("changes", [{"idle_s": 1.0}, {"first_event_s": 1.0}, {"total_at": 6.0}], ids=str)
def test_no_other_deadline_makes_a_finished_stream_an_error(changes: dict[str, float]) -> None:
    deadlines = Deadlines(structs.replace(TIMING, **changes), 0.0)
    for has_first_event in (True, False):
        look = structs.replace(FINISHED, has_first_event=has_first_event)
        assert overdue(deadlines, look) is None
        late = structs.replace(look, has_progressed=False, now=7.0)
        assert deadlines.overdue(late) is None
        assert deadlines.is_silent(late)


def test_the_total_time_ends_a_finished_stream_although_its_caller_does_not_read() -> None:
    deadlines = Deadlines(TIMING, 0.0)
    paused = structs.replace(FINISHED, is_paused=True)
    assert overdue(deadlines, paused) is None
    assert not deadlines.is_silent(structs.replace(paused, now=599.9))
    assert overdue(deadlines, paused, now=600.0) is None
    assert deadlines.is_silent(structs.replace(paused, now=600.0))


def test_an_event_that_is_cut_after_the_finish_is_an_error_when_the_time_is_over() -> None:
    deadlines = Deadlines(TIMING, 0.0)
    assert overdue(deadlines, FINISHED, is_mid_event=True) is None
    assert overdue(deadlines, WAITED, is_mid_event=True, now=600.0, read_at=599.0) == "stream_deadline_exceeded"


def test_comments_do_not_make_the_silence_longer() -> None:
    deadlines = Deadlines(TIMING, 0.0)
    assert overdue(deadlines, FLOWING) is None
    deadlines.note_event(5.5)  # the finish; then comments
    for now in (6.0, 7.0, 7.4):
        look = structs.replace(WAITED, now=now, read_at=now, has_first_event=now < 7.0)
        assert overdue(deadlines, look) is None
        assert not deadlines.is_silent(look)
        assert deadlines.next_timer_at(look) <= 7.5
    assert deadlines.is_silent(structs.replace(WAITED, now=7.5, read_at=7.4))
