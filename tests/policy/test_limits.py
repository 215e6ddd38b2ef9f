"""Limits in memory: what fits is reserved whole, never too much in any minute, also when the clock is set."""

from collections.abc import Sequence
from math import inf

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.policy.access import Key
from streamweir.policy.limits.key_limits import BY_COUNT, KINDS, NAMES, KeyLimits, LimitChanges, has_limits
from streamweir.policy.limits.limit_request import BudgetCharge, Decision, LimitRequest, Window, headers_of, share_of
from streamweir.policy.limits.local import LocalLimits
from support.limit_model import HISTORIES, LEASE_S, UNTIMED, Command, LimitModel, arguments_of, moments

MINUTE_S = 60.0
EIGHTHS = st.integers(1, 57_600).map(lambda number: number / 8)  # sums of them are exact
STEPS = st.lists(st.integers(0, 560).map(lambda number: number / 8) | st.sampled_from([0.0, 0.125, 0.5]), min_size=1)
RPM = st.integers(1, 12)
BUDGET = BudgetCharge("key:a:total", 100, "budget_exceeded")
CREDIT = BudgetCharge("ws:w", 50, "insufficient_quota")


class Asker:
    """Asks for one key, again and again."""

    def __init__(self, **terms: object) -> None:
        self.limits = LocalLimits()
        self.terms = terms
        self.number = 0

    def ask(self, now: float, **terms: object) -> Decision:
        self.number += 1
        return self.limits.reserve(limit_request(f"r{self.number}", "a", **{**self.terms, **terms}), now)


def limit_request(request_id: str = "r", key_id: str = "a", **terms: object) -> LimitRequest:
    return LimitRequest(request_id=request_id, key_id=key_id, **terms)  # type: ignore[arg-type]


def most_in_a_window(moments: Sequence[float]) -> int:
    return max((sum(start <= moment < start + MINUTE_S for moment in moments) for start in moments), default=0)


def test_a_burst_of_the_whole_limit_and_no_more() -> None:
    asker = Asker(rpm=3)
    decisions = [asker.ask(100.0) for _ in range(4)]
    assert [each.is_allowed for each in decisions] == [True, True, True, False]
    assert decisions[0] == Decision(requests=Window(3, 2, 60.5))
    assert decisions[3] == Decision(
        refusal="rate_limit_exceeded", limited_by="requests", retry_after_s=60.5, requests=Window(3, 0, 60.5)
    )


def test_waiting_for_retry_after_is_enough() -> None:
    asker = Asker(rpm=2)
    asker.ask(0.3)
    asker.ask(20.0)
    refused = asker.ask(30.0)
    assert (refused.is_allowed, refused.retry_after_s) == (False, 30.5)
    assert refused.requests == Window(2, 0, 50.5)
    assert not asker.ask(60.4).is_allowed
    assert asker.ask(30.0 + refused.retry_after_s).is_allowed


def test_a_limit_that_was_changed_holds_at_once() -> None:
    asker = Asker(rpm=5)
    for second in range(5):
        asker.ask(float(second))
    assert asker.ask(5.0, rpm=6).is_allowed
    lowered = asker.ask(5.0, rpm=2)
    assert lowered.requests == Window(2, 0, 60.5)
    assert lowered.retry_after_s == 59.5, "until only one is left"


def test_keys_have_their_own_limits() -> None:
    limits = LocalLimits()
    assert limits.reserve(limit_request("r1", "a", rpm=1), 0.0).is_allowed
    assert limits.reserve(limit_request("r2", "b", rpm=1), 0.0).is_allowed
    assert not limits.reserve(limit_request("r3", "a", rpm=1), 0.0).is_allowed


def test_tokens_are_claimed_as_estimated_and_put_right_afterwards() -> None:
    asker = Asker(tpm=100)
    assert asker.ask(0.0, tokens=60).tokens == Window(100, 40, 60.5)
    refused = asker.ask(1.0, tokens=41)
    assert (refused.refusal, refused.limited_by, refused.retry_after_s) == ("rate_limit_exceeded", "tokens", 59.5)
    assert refused.tokens == Window(100, 40, 59.5)
    asker.limits.settle("r1", 10, None, 2.0)
    assert asker.ask(2.0, tokens=90).tokens == Window(100, 0, 60.5)
    asker.limits.settle("r3", 500, None, 30.0)
    assert asker.limits.peek("a", KeyLimits(tpm=100), 30.0).tokens == Window(100, 0, 32.5)
    assert asker.ask(62.5, tokens=100).is_allowed, "they belong to the moment of their request"


def test_tokens_of_a_request_that_took_longer_than_a_minute_are_no_longer_counted() -> None:
    asker = Asker(tpm=100, tokens=60)
    asker.ask(0.0)
    asker.limits.settle("r1", 5000, None, 70.0)
    assert asker.ask(70.0).tokens == Window(100, 40, 60.5)


def test_a_request_larger_than_the_limit_takes_all_of_it() -> None:
    asker = Asker(tpm=100, tokens=100_000)
    assert asker.ask(0.0).tokens == Window(100, 0, 60.5)
    assert asker.ask(0.0, tokens=0).limited_by == "tokens", "there is no request without tokens"


def test_the_longer_wait_is_reported_if_both_limits_are_exceeded() -> None:
    asker = Asker(tpm=10)
    asker.ask(10.0, tokens=1)
    asker.ask(20.0, tokens=9)
    refused = asker.ask(20.0, rpm=2, tokens=5)
    assert (refused.limited_by, refused.retry_after_s) == ("tokens", 60.5)
    refused = asker.ask(20.0, rpm=1, tokens=1)
    assert (refused.limited_by, refused.retry_after_s) == ("requests", 60.5)


@pytest.mark.parametrize("terms", [{"rpm": 0}, {"tpm": 0}, {"max_streams": 0}])
def test_a_limit_of_nothing_lets_nothing_in(terms: dict[str, int]) -> None:
    decision = Asker(**terms).ask(0.0)
    assert decision.refusal is not None
    assert decision.retry_after_s > 0


def test_streams_are_free_again_when_they_end() -> None:
    asker = Asker(max_streams=2)
    assert asker.ask(0.0).is_allowed
    assert asker.ask(0.0).is_allowed
    refused = asker.ask(0.0)
    assert (refused.refusal, refused.limited_by) == ("concurrency_limit_exceeded", "streams")
    assert refused.retry_after_s > 0
    for _ in range(2):
        asker.limits.settle("r1", 0, 0, 0.0)  # the second time it is not known any more
    assert asker.ask(0.0).is_allowed
    assert not asker.ask(0.0).is_allowed


def test_a_charge_fits_up_to_the_limit_and_settling_leaves_the_cost() -> None:
    asker = Asker(amount=40, charges=(BUDGET, CREDIT))
    asker.limits.seed(BUDGET.account, 30)
    asker.limits.seed(CREDIT.account, 0)
    assert asker.ask(0.0).is_allowed
    refused = asker.ask(0.0)
    assert refused == Decision(refusal="budget_exceeded", limited_by=BUDGET.account)
    assert (asker.limits.used(BUDGET.account), asker.limits.used(CREDIT.account)) == (70, 40)
    asker.limits.settle("r1", 0, 5, 0.0)
    asker.limits.settle("r1", 0, 5, 0.0)
    assert (asker.limits.used(BUDGET.account), asker.limits.used(CREDIT.account)) == (35, 5)
    assert asker.ask(0.0, amount=46).limited_by == CREDIT.account
    assert asker.ask(0.0, amount=45).is_allowed
    asker.limits.settle("r4", 0, None, 0.0)
    assert asker.limits.used(CREDIT.account) == 5


def test_a_refused_request_takes_nothing_of_anything() -> None:
    asker = Asker(rpm=10, tpm=100, tokens=10, max_streams=10, amount=60, charges=(BUDGET, CREDIT))
    asker.limits.seed(BUDGET.account, 0)
    asker.limits.seed(CREDIT.account, 0)
    assert asker.ask(0.0).refusal == "insufficient_quota"
    assert asker.limits.peek("a", KeyLimits(rpm=10, tpm=100, max_streams=1), 0.0) == Decision(
        requests=Window(10, 10, 0.0), tokens=Window(100, 100, 0.0)
    )
    assert asker.limits.used(BUDGET.account) == 0


def test_an_account_that_is_not_known_is_named() -> None:
    asker = Asker(rpm=1, amount=1, charges=(BUDGET, CREDIT))
    asker.limits.seed(BUDGET.account, 0)
    decision = asker.ask(0.0)
    assert decision == Decision(missing=(CREDIT.account,), requests=Window(1, 1, 0.0))
    assert not decision.is_allowed
    assert not asker.limits.has_account(CREDIT.account)
    asker.limits.seed(CREDIT.account, 50)
    asker.limits.seed(CREDIT.account, 0)  # it is known: nothing changes
    assert asker.ask(0.0).refusal == "insufficient_quota"
    asker.limits.correct(CREDIT.account, 0)
    assert asker.ask(0.0).is_allowed
    asker.limits.correct("ws:other", 7)
    assert asker.limits.used("ws:other") == 7
    assert Asker(rpm=1).limits.used(CREDIT.account) is None


def test_a_request_that_is_reserved_already_is_not_counted_again() -> None:
    limits, asked = LocalLimits(), limit_request(rpm=1, max_streams=1, amount=60, charges=(BUDGET,))
    limits.seed(BUDGET.account, 0)
    assert limits.reserve(asked, 0.0) == limits.reserve(asked, 0.0) == Decision(requests=Window(1, 0, 60.5))
    assert limits.used(BUDGET.account) == 60


def test_a_released_request_does_not_count() -> None:
    asker = Asker(rpm=1, tpm=10, tokens=10, max_streams=1, amount=60, charges=(BUDGET,))
    asker.limits.seed(BUDGET.account, 0)
    for _ in range(3):
        decision = asker.ask(0.0)
        assert decision == Decision(requests=Window(1, 0, 60.5), tokens=Window(10, 0, 60.5))
        asker.limits.release(f"r{asker.number}", 1.0)
    assert asker.limits.used(BUDGET.account) == 0


def test_an_extension_fits_or_changes_nothing() -> None:
    asker = Asker(amount=40, charges=(BUDGET, CREDIT))
    asker.limits.seed(BUDGET.account, 0)
    asker.limits.seed(CREDIT.account, 0)
    asker.ask(0.0)
    assert asker.limits.extend("r1", 11) == "insufficient_quota"
    assert asker.limits.extend("r1", 10) is None
    assert asker.limits.extend("unknown", 1) == "budget_exceeded"
    assert (asker.limits.used(BUDGET.account), asker.limits.used(CREDIT.account)) == (50, 50)
    asker.limits.settle("r1", 0, 45, 0.0)
    assert asker.limits.used(BUDGET.account) == 45
    assert asker.ask(0.0, charges=()).is_allowed
    assert asker.limits.extend("r2", 10**12) is None, "nothing limits it"


def test_no_more_requests_begin_than_plan_within_the_limit() -> None:
    asker = Asker(amount=10, planned=30, charges=(BUDGET,))
    asker.limits.seed(BUDGET.account, 0)
    decisions = [asker.ask(0.0) for _ in range(3)]
    assert [each.refusal for each in decisions] == [None, None, "budget_exceeded"], "with what they may still need"
    assert asker.ask(0.0, takes_rest=True).is_allowed
    assert (asker.limits.used(BUDGET.account), asker.limits.held(BUDGET.account)) == (30, 30)
    assert asker.limits.extend("r4", 20) == "budget_exceeded", "the rest is planned for others"
    assert asker.limits.extend("r1", 30) is None, "its own plan"
    assert asker.limits.extend("r4", 20, takes_rest=True) is None
    asker.limits.settle("r1", 0, 40, 0.0)
    asker.limits.settle("r2", 0, 10, 0.0)
    assert (asker.limits.used(BUDGET.account), asker.limits.held(BUDGET.account)) == (80, 30)


def test_a_request_that_is_alone_plans_as_much_as_there_is() -> None:
    asker = Asker(amount=60, planned=1000, charges=(BUDGET,))
    asker.limits.seed(BUDGET.account, 0)
    assert asker.ask(0.0).is_allowed
    assert asker.ask(0.0, amount=1, planned=0).refusal == "budget_exceeded"
    asker.limits.settle("r1", 0, 50, 0.0)
    assert asker.ask(0.0, amount=1, planned=0).is_allowed


def test_tokens_beyond_the_estimate_count_at_once_and_are_corrected_at_the_end() -> None:
    asker = Asker(tpm=100, tokens=10)
    asker.ask(0.0)
    asker.limits.count_tokens("r1", 60)
    assert asker.ask(1.0, tokens=40).refusal == "rate_limit_exceeded"
    asker.limits.settle("r1", 50, 0, 1.0)
    assert asker.ask(1.0, tokens=40).is_allowed
    asker.limits.count_tokens("unknown", 60)


def test_a_lease_that_is_not_renewed_lapses_and_is_taken_up_again() -> None:
    limits = LocalLimits(lease_s=10.0)
    limits.seed(BUDGET.account, 0)
    for name in ("r1", "r2"):
        limits.reserve(limit_request(name, max_streams=2, amount=50, charges=(BUDGET,)), 0.0)
    limits.renew(["r2", "unknown"], 5.0)
    assert not limits.peek("a", KeyLimits(max_streams=2), 9.9).is_allowed
    assert limits.peek("a", KeyLimits(max_streams=2), 10.0).is_allowed
    assert limits.used(BUDGET.account) == 50
    assert limits.reserve(limit_request("r3", max_streams=2, amount=50, charges=(BUDGET,)), 10.0).is_allowed
    limits.renew(["r1"], 11.0)
    assert limits.used(BUDGET.account) == 150, "it runs, whatever the limit"
    assert limits.extend("r1", 1) == "budget_exceeded"
    limits.settle("r1", 0, 7, 30.0)  # lapsed once more, as the others have
    assert limits.used(BUDGET.account) == 7
    assert limits.extend("r2", 1) is None
    assert limits.used(BUDGET.account) == 58
    assert not limits.peek("a", KeyLimits(max_streams=1), 30.0).is_allowed


def test_by_default_no_lease_ends() -> None:
    limits = LocalLimits()
    limits.reserve(limit_request(max_streams=1), 0.0)
    assert not limits.peek("a", KeyLimits(max_streams=1), 1e9).is_allowed


def test_the_number_of_keys_is_bounded() -> None:
    limits = LocalLimits(max_keys=2)
    for number, key_id in enumerate(("a", "b", "a", "c")):  # b was used least recently
        limits.reserve(limit_request(f"r{number}", key_id, rpm=1), 0.0)
        limits.settle(f"r{number}", 0, 0, 0.0)
    assert not limits.reserve(limit_request("x", "a", rpm=1), 0.0).is_allowed
    assert limits.reserve(limit_request("y", "b", rpm=1), 0.0).is_allowed


def test_what_is_reserved_is_never_forgotten() -> None:
    limits = LocalLimits(max_keys=2, max_accounts=2)
    for name in ("a", "b", "c", "d"):
        limits.seed(f"key:{name}", 0)
        charges = (BudgetCharge(f"key:{name}", 10, "budget_exceeded"),)
        assert limits.reserve(limit_request(name, name, max_streams=1, amount=10, charges=charges), 0.0).is_allowed
    assert all(not limits.peek(name, KeyLimits(max_streams=1), 0.0).is_allowed for name in "abcd")
    assert all(limits.used(f"key:{name}") == 10 for name in "abcd")
    for name in "abcd":
        limits.settle(name, 0, 0, 0.0)
    for name in ("e", "f"):
        limits.seed(f"key:{name}", 0)
        limits.reserve(limit_request(name, name), 0.0)
    assert [name for name in "abcdef" if limits.has_account(f"key:{name}")] == ["e", "f"]


def test_the_number_of_lapsed_leases_is_bounded() -> None:
    limits = LocalLimits(lease_s=1.0, max_expired=2)
    limits.seed(BUDGET.account, 0)
    for name in ("r1", "r2", "r3"):
        limits.reserve(limit_request(name, amount=10, charges=(BUDGET,)), 0.0)
    for name in ("r1", "r2", "r3"):
        limits.settle(name, 0, 5, 1.0)
    assert limits.used(BUDGET.account) == 10, "the first was forgotten"


def test_a_lapsed_lease_outlives_what_is_known_of_its_key() -> None:
    limits = LocalLimits(lease_s=1.0, max_keys=1)
    limits.reserve(limit_request("r1", "a", max_streams=1), 0.0)
    limits.peek("a", KeyLimits(), 1.0)
    limits.reserve(limit_request("r2", "b"), 1.0)
    limits.settle("r2", 0, 0, 1.0)
    limits.reserve(limit_request("r3", "c"), 1.0)
    limits.renew(["r1"], 1.5)
    assert not limits.peek("a", KeyLimits(max_streams=1), 1.5).is_allowed


def test_a_lapsed_lease_whose_account_was_forgotten_cannot_be_extended() -> None:
    limits = LocalLimits(lease_s=1.0, max_accounts=1)
    limits.seed(BUDGET.account, 0)
    limits.reserve(limit_request("r1", amount=1, charges=(BUDGET,)), 0.0)
    limits.peek("a", KeyLimits(), 1.0)
    limits.seed(CREDIT.account, 0)
    assert limits.extend("r1", 1) == "budget_exceeded"
    limits.settle("r1", 0, 1, 1.0)
    assert not limits.has_account(BUDGET.account)


@given(STEPS, RPM)
def test_never_more_than_the_limit_in_any_minute(steps: list[float], rpm: int) -> None:
    asker, now, admitted = Asker(rpm=rpm), 50.0, list[float]()
    for step in steps:
        now += step
        decision = asker.ask(now)
        assert decision.requests is not None
        assert 0 <= decision.requests.remaining < rpm
        assert decision.is_allowed == (decision.retry_after_s == 0)
        if decision.is_allowed:
            admitted.append(now)
        else:
            assert sum(moment > now - MINUTE_S - 0.5 for moment in admitted) >= rpm, "refused for nothing"
    assert most_in_a_window(admitted) <= rpm


@given(STEPS, RPM, st.integers(0, 60), EIGHTHS)
def test_a_clock_that_is_set_back_neither_admits_nor_delays_requests(
    steps: list[float], rpm: int, at: int, back_s: float
) -> None:
    asker, truth, clock, admitted = Asker(rpm=rpm), 0.0, 10_000.0, list[float]()
    for number, step in enumerate(steps):
        truth += step
        clock += step - (back_s if number == at else 0.0)
        if asker.ask(clock).is_allowed:
            admitted.append(truth)
    assert most_in_a_window(admitted) <= rpm
    assert asker.ask(clock + MINUTE_S + 1.0).is_allowed


@given(STEPS, RPM, st.lists(st.integers(0, 60), min_size=2, max_size=2, unique=True), EIGHTHS)
def test_a_clock_that_is_set_back_and_put_right_grants_one_window_at_most(
    steps: list[float], rpm: int, at: list[int], by_s: float
) -> None:
    asker, truth, clock, admitted = Asker(rpm=rpm), 0.0, 10_000.0, list[float]()
    for number, step in enumerate(steps):
        truth += step
        clock += step - (by_s if number == min(at) else 0.0) + (by_s if number == max(at) else 0.0)
        if asker.ask(clock).is_allowed:
            admitted.append(truth)
    assert most_in_a_window(admitted) <= 2 * rpm


@given(HISTORIES, st.sampled_from([LEASE_S, inf]))
def test_every_answer_is_the_models(history: list[Command], lease_s: float) -> None:
    model, limits = LimitModel(lease_s), LocalLimits(lease_s=lease_s)
    for number, (command, now) in enumerate(moments(history, 1000.0)):
        at = [] if command.name in UNTIMED else [now]
        if at:
            model.go_to(now)
        words, options = arguments_of(command, model.charges_of(str(command.words[0])))
        expected = getattr(model, command.name)(*command.words)
        assert getattr(limits, command.name)(*words, *at, **options) == expected, (number, command)
        assert {account: limits.used(account) for account in model.used} == model.used, (number, command)


def test_the_share_of_a_node_is_one_at_least_and_money_is_not_divided() -> None:
    asked = limit_request(rpm=10, tpm=1000, tokens=900, max_streams=2, amount=5, charges=(BUDGET,))
    divided = asked.divided_by(3)
    assert divided == limit_request(rpm=3, tpm=333, tokens=900, max_streams=1, amount=5, charges=(BUDGET,))
    assert divided.needed_tokens == 333
    assert limit_request().divided_by(3) == limit_request()
    assert [share_of(10, nodes) for nodes in (0, 1, 4, 100)] == [10, 10, 2, 1]
    assert share_of(None, 3) is None


def test_headers_contain_the_existing_limits() -> None:
    assert headers_of(Decision()) == ()
    assert headers_of(Decision(requests=Window(3, 2, 60.5), tokens=Window(1000, 0, 1.23456))) == (
        ("x-ratelimit-limit-requests", "3"),
        ("x-ratelimit-remaining-requests", "2"),
        ("x-ratelimit-reset-requests", "60.500s"),
        ("x-ratelimit-limit-tokens", "1000"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "1.235s"),
    )


def test_costs_count_in_accounts_that_are_not_charged() -> None:
    """From the moment on in which one is known: what it is seeded with has what is held until then."""
    limits = LocalLimits()
    limits.reserve(limit_request("r1", amount=30, other_accounts=("ws:w",)), 0.0)
    assert limits.used("ws:w") is None
    limits.seed("ws:w", 30)
    limits.reserve(limit_request("r2", amount=10, other_accounts=("ws:w",)), 0.0)
    assert limits.used("ws:w") == 40
    refused = limits.reserve(limit_request("r3", amount=20, charges=(CREDIT,)), 0.0)
    assert (refused.refusal, refused.limited_by) == ("insufficient_quota", "ws:w")
    limits.settle("r1", None, 7, 1.0)
    limits.settle("r2", None, 3, 1.0)
    assert limits.used("ws:w") == 10
    assert limits.reserve(limit_request("r4", amount=40, charges=(CREDIT,)), 1.0).is_allowed


def test_an_extension_goes_by_the_limits_of_its_moment() -> None:
    limits = LocalLimits()
    limits.seed("ws:w", 0)
    limits.reserve(limit_request(amount=40, charges=(CREDIT,)), 0.0)
    assert limits.extend("r", 20) == "insufficient_quota"
    assert limits.extend("r", 20, (BudgetCharge("ws:w", 60, "insufficient_quota"),)) is None
    assert limits.used("ws:w") == 60


def test_every_kind_of_limit_is_declared_in_whole() -> None:
    assert NAMES == KeyLimits.__struct_fields__ == LimitChanges.__struct_fields__
    assert len(BY_COUNT) == len(KINDS)
    for kind in KINDS:
        too_many = {kind.name: kind.maximum + 1}
        with pytest.raises(msgspec.ValidationError, match=f"<= {kind.maximum}"):
            msgspec.convert(too_many, KeyLimits)
        assert "7" in kind.refusal.format(7)


def test_a_key_knows_whether_it_has_limits() -> None:
    key = Key(name="ci", digest=b"")
    assert not key.has_limits
    for name in NAMES:
        limited = msgspec.structs.replace(key, **{name: 1})
        assert limited.has_limits
        assert has_limits(limited)
        assert not msgspec.structs.replace(limited, **{name: None}).has_limits
