"""A breaker: so many failures in a row, then a while without, then one who finds out."""

from streamweir.policy.routing.breaker import Breaker


def failing(times: int, now: float = 0.0) -> Breaker:
    breaker = Breaker(max_failures=3, open_s=60.0)
    for _ in range(times):
        assert breaker.may_pass(now)
        breaker.note_failure(now)
    return breaker


def test_failures_in_a_row_open_it() -> None:
    assert not failing(2).is_open
    assert failing(3).is_open
    assert not failing(3).may_pass(59.9)


def test_a_success_in_between_is_a_new_beginning() -> None:
    breaker = failing(2)
    breaker.note_success()
    breaker.note_failure(0.0)
    assert breaker.may_pass(0.0)


def test_one_call_checks_and_the_others_wait_for_it() -> None:
    breaker = failing(3)
    assert breaker.may_pass(60.0)
    assert not breaker.may_pass(60.0)
    breaker.note_success()
    assert breaker.may_pass(60.0)
    assert not breaker.is_open


def test_it_stays_open_for_the_same_time_again_after_a_failed_or_lost_probe() -> None:
    breaker = failing(3)
    assert breaker.may_pass(61.0)
    breaker.note_failure(62.0)
    assert not breaker.may_pass(121.9)
    assert breaker.may_pass(122.0)
    assert not breaker.may_pass(181.9)
    assert breaker.may_pass(182.0)


def test_one_failure_may_be_enough() -> None:
    breaker = failing(0)
    breaker.trip(10.0)
    assert not breaker.may_pass(69.9)
    assert breaker.may_pass(70.0)
