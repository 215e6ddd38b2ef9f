"""How long is waited and how often it is tried again: by numbers that are handed in."""

import pytest

from streamweir.client import (
    Answer,
    ClientError,
    RateLimited,
    RequestRefused,
    Retries,
    StreamError,
    StreamTimeout,
    StreamTruncated,
    Timeouts,
    Unreachable,
)
from streamweir.client.timeouts import Attempts, EventDeadline

NOTHING = Answer().completion()


def test_the_time_begins_again_with_every_event() -> None:
    patience = EventDeadline(Timeouts(first_event_s=10, between_events_s=4))
    assert patience.remaining_s(0) == 10
    patience.elapse(3)
    assert patience.remaining_s(0) == 7, "a comment came, and no event"
    assert patience.remaining_s(1) == 4
    patience.elapse(1.5)
    assert patience.remaining_s(1) == 2.5
    patience.elapse(9)
    assert (patience.remaining_s(1), patience.limit_s) == (0, 4)
    assert patience.remaining_s(5) == 4


def test_none_waits_for_ever() -> None:
    patience = EventDeadline(Timeouts(first_event_s=None, between_events_s=None))
    patience.elapse(1e9)
    assert patience.remaining_s(0) is None
    assert patience.remaining_s(1) is None


def test_pauses_are_random_in_a_range_that_doubles_up_to_a_cap() -> None:
    longest = Attempts(Retries(most=6, base_s=1, cap_s=10), lambda: 1.0)
    error = Unreachable("no")
    assert [longest.pause_after(error) for _ in range(7)] == [1, 2, 4, 8, 10, 10, None]
    assert longest.count == 7
    assert Attempts(Retries(), lambda: 0.0).pause_after(error) == 0.0
    assert Attempts(Retries(base_s=8, cap_s=8), lambda: 0.25).pause_after(error) == 2.0


def test_the_server_is_given_the_time_that_it_asks_for() -> None:
    attempts = Attempts(Retries(base_s=1, longest_wait_s=60), lambda: 0.5)
    assert attempts.pause_after(RateLimited(429, "", retry_after_s=7, may_retry=True)) == 7.5
    assert attempts.pause_after(RateLimited(429, "", retry_after_s=61, may_retry=True)) is None, "too long"


@pytest.mark.parametrize(
    ("error", "is_tried"),
    [
        (Unreachable("no"), True),
        (RateLimited(429, "", may_retry=True), True),
        (RequestRefused(400, ""), False),
        (StreamTruncated("", NOTHING, may_retry=True), True),
        (StreamTruncated("", NOTHING), False),
        (StreamError("", NOTHING), False),
        (StreamTimeout("", NOTHING, phase="first_event"), False),
    ],
)
def test_what_is_tried_again(error: ClientError, is_tried: bool) -> None:
    assert (Attempts(Retries(), lambda: 0.0).pause_after(error) is not None) is is_tried
    assert Attempts(Retries(most=0), lambda: 0.0).pause_after(error) is None
