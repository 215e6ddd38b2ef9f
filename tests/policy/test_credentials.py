"""Several credentials of a provider: their order, what a refusal does to one of them, and how it comes back."""

from collections import Counter
from collections.abc import Callable

import pytest

from streamweir.core.errors import UpstreamError
from streamweir.policy.routing.credentials import EARLY_PROBE_S, CredentialChange, WeightedName, renaming
from streamweir.policy.routing.health import Candidate, Probe, TargetId
from streamweir.policy.routing.route import Route, RouteTable, RouteTarget
from streamweir.policy.routing.router import Router

M, N = TargetId("p", "m"), TargetId("p", "n")
ROUTE = Route("alias", (RouteTarget(M), RouteTarget(N)))
ONE = Route("p/m", (RouteTarget(M),))
LIMITED = UpstreamError("upstream_rate_limited", "m", retry_after_s=7.0)
BROKEN = UpstreamError("upstream_server_error", "m")
NO_ACCESS = UpstreamError("upstream_auth_failed", "m")


def refusal(code: str = "upstream_auth_failed") -> UpstreamError:
    error = UpstreamError(code, "m")
    error.is_of_account = True
    return error


def router(*names: str, affinity_s: float = 0.0, **weights: int) -> Router:
    credentials = {"p": [WeightedName(name, weights.get(name, 1)) for name in names]} if names else {}
    return Router(RouteTable([ROUTE], {"p"}), {"p"}, affinity_s=affinity_s, credentials=credentials)


def first() -> float:
    return 0.0


def names(router: Router, now: float = 0.0, route: Route = ONE, random: Callable[[], float] = first) -> list[str]:
    found = router.order(route, now, random)
    if found:
        router.abandoned(found[0])
    return [each.credential for each in found]


def test_each_target_is_tried_with_each_credential() -> None:
    found = router("a", "b").order(ROUTE, 0.0, first)
    assert found == [Candidate(M, "a"), Candidate(M, "b"), Candidate(N, "a"), Candidate(N, "b")]


def test_the_first_is_drawn_by_weight() -> None:
    pool = router("a", "b", b=3)
    drawn = Counter(names(pool, random=lambda at=at: at / 100)[0] for at in range(100))  # type: ignore[misc]
    assert drawn == {"a": 25, "b": 75}


@pytest.mark.parametrize("code", ["upstream_auth_failed", "upstream_quota_exhausted"])
def test_a_refused_credential_is_left_out_for_all_models(code: str) -> None:
    pool = router("a", "b")
    assert not pool.failed(Candidate(M, "a"), 1.0, refusal(code)), "not the target is ejected"
    assert pool.changes == [CredentialChange("p", "a", code, 600.0)]
    assert pool.order(ROUTE, 600.0, first) == [Candidate(M, "b"), Candidate(N, "b")]
    assert pool.take(Candidate(N, "a"), 600.0) is None
    assert names(pool, 601.0) == ["a", "b"], "then it is probed"


def test_it_is_ejected_for_longer_each_time_and_probed_by_one_request() -> None:
    pool, now = router("a", "b"), 0.0
    pool.failed(Candidate(M, "a"), now, refusal())
    for duration_s in (600.0, 1200.0, 2400.0, 3600.0, 3600.0):
        assert pool.changes.pop() == CredentialChange("p", "a", "upstream_auth_failed", duration_s)
        assert pool.take(Candidate(M, "a"), now + duration_s - 1) is None
        now += duration_s
        probe = pool.take(Candidate(M, "a"), now)
        assert isinstance(probe, Probe)
        assert pool.take(Candidate(N, "a"), now) is None, "one at a time"
        pool.failed(probe, now, refusal())
    probe = pool.take(Candidate(N, "a"), now + 3600.0)
    assert probe is not None
    pool.changes.clear()
    pool.answered(probe, now + 3601.0, 0.5)
    assert pool.changes == [CredentialChange("p", "a", None)]
    assert names(pool, now + 3601.0) == ["a", "b"]
    pool.failed(Candidate(M, "a"), now + 3602.0, refusal())
    assert pool.changes.pop().ejected_s == 600.0, "as the first time"


def test_a_whole_answer_makes_it_available_too() -> None:
    pool = router("a", "b")
    pool.failed(Candidate(M, "a"), 0.0, refusal())
    probe = pool.take(Candidate(M, "a"), 600.0)
    assert probe is not None
    pool.succeeded(probe, 601.0)
    assert names(pool, 601.0) == ["a", "b"]


@pytest.mark.parametrize("error", [BROKEN, LIMITED, None])
def test_a_probe_that_was_neither_answered_nor_refused_is_free_again(error: UpstreamError | None) -> None:
    pool = router("a", "b")
    pool.failed(Candidate(M, "a"), 0.0, refusal())
    probe = pool.take(Candidate(M, "a"), 600.0)
    assert probe is not None
    if error is None:
        pool.abandoned(probe)
    else:
        pool.failed(probe, 601.0, error)
    assert isinstance(pool.take(Candidate(N, "a"), 602.0), Probe)


def test_what_began_before_the_refusal_proves_nothing() -> None:
    pool = router("a", "b")
    before = Candidate(M, "a")
    pool.failed(Candidate(M, "a"), 10.0, refusal())
    pool.answered(before, 11.0, 0.5)
    pool.succeeded(before, 12.0)
    assert names(pool, 13.0) == ["b"]
    pool.failed(before, 14.0, refusal())
    assert len(pool.changes) == 1, "told once"
    assert names(pool, 610.0)[0] == "a", "nor does another refusal make it longer"


def test_a_rate_limit_is_of_the_model_with_this_credential() -> None:
    pool = router("a", "b")
    pool.failed(Candidate(M, "a"), 0.0, LIMITED)
    assert pool.order(ROUTE, 6.9, first) == [Candidate(M, "b"), Candidate(N, "a"), Candidate(N, "b")]
    assert names(pool, 7.0) == ["a", "b"]
    assert not pool.changes


def test_no_access_to_a_model_ejects_only_the_candidate_if_another_credential_has_it() -> None:
    pool = router("a", "b")
    assert not pool.failed(Candidate(M, "a"), 0.0, NO_ACCESS)
    assert names(pool, 0.0) == ["a", "b"], "it may have been the request"
    assert pool.confirmed(Candidate(M, "a"), 0.0, NO_ACCESS)
    assert not pool.confirmed(Candidate(M, "a"), 0.0, NO_ACCESS), "it is known"
    assert pool.order(ROUTE, 29.0, first) == [Candidate(M, "b"), Candidate(N, "a"), Candidate(N, "b")]
    assert names(pool, 30.0) == ["a", "b"]


@pytest.mark.parametrize("code", ["upstream_auth_failed", "upstream_quota_exhausted"])
def test_a_refusal_that_is_only_in_a_text_counts_if_another_credential_is_not_refused(code: str) -> None:
    pool, error = router("a", "b"), refusal(code)
    error.is_only_in_text = True
    pool.failed(Candidate(M, "a"), 0.0, error)
    assert (names(pool, 0.0), pool.changes) == (["a", "b"], [])
    pool.confirmed(Candidate(M, "a"), 1.0, error)
    assert pool.changes == [CredentialChange("p", "a", code, 600.0)]
    pool.confirmed(Candidate(M, "a"), 2.0, error)
    assert names(pool, 600.0) == ["b"]
    probe = pool.take(Candidate(M, "a"), 601.0)
    assert isinstance(probe, Probe)
    pool.failed(probe, 602.0, error)
    pool.confirmed(probe, 603.0, error)
    assert pool.changes[1:] == [CredentialChange("p", "a", code, 1200.0)], "as a probe that was refused"


def test_only_a_provider_with_several_credentials_has_one_that_is_of_no_use() -> None:
    alone = router()
    alone.failed(Candidate(M), 0.0, NO_ACCESS)
    assert not alone.confirmed(Candidate(M), 0.0, NO_ACCESS)
    assert alone.order(ONE, 0.0, first) == [Candidate(M)]


def test_with_one_credential_a_refusal_is_a_failure_like_any_other() -> None:
    alone = router()
    assert [alone.failed(Candidate(M), 0.0, refusal()) for _ in range(5)] == [False] * 4 + [True]
    assert alone.order(ONE, 29.0, first) == []
    assert alone.order(ONE, 30.0, first) == [Candidate(M)]
    assert not alone.changes


def test_if_all_are_refused_one_is_probed_every_thirty_seconds() -> None:
    pool = router("a", "b", "c")
    for at, name in enumerate(("b", "a", "c")):
        pool.failed(Candidate(M, name), float(at), refusal())
    assert names(pool, 31.9) == []
    assert pool.retry_after_s(ONE, 31.0) == pytest.approx(1.0)
    now, probed = 2.0, []
    for _ in range(4):
        now += EARLY_PROBE_S
        (probe,) = pool.order(ROUTE, now, first)[:1]
        assert isinstance(probe, Probe)
        probed.append(probe.credential)
        assert pool.order(ROUTE, now, first) == [], "one at a time"
        pool.failed(probe, now, refusal())
        assert pool.order(ROUTE, now + EARLY_PROBE_S - 1, first) == []
    assert probed == ["b", "a", "c", "b"], "in turn"
    assert len(pool.changes) == 3, "a probe that fails is not another ejection"
    (probe,) = pool.order(ONE, now + EARLY_PROBE_S, first)
    pool.answered(probe, now + 31.0, 0.5)
    assert names(pool, now + 31.0) == ["a"]
    assert names(pool, 600.0) == ["a", "b"], "the others as they were ejected"


def test_a_lost_probe_is_replaced() -> None:
    pool = router("a", "b")
    pool.failed(Candidate(M, "a"), 0.0, refusal())
    assert pool.take(Candidate(M, "a"), 600.0) is not None
    assert pool.take(Candidate(M, "a"), 899.0) is None
    assert pool.take(Candidate(M, "a"), 900.0) is not None


def test_what_the_caller_is_told_if_none_is_left() -> None:
    pool = router("a", "b")
    pool.failed(Candidate(M, "a"), 0.0, refusal())
    pool.failed(Candidate(M, "b"), 0.0, LIMITED)
    error = pool.unavailable(ONE, 1.0)
    assert (error.code, error.retry_after_s) == ("upstream_rate_limited", 6.0)
    pool.failed(Candidate(M, "b"), 1.0, refusal())
    error = pool.unavailable(ONE, 21.0)
    assert (error.code, error.retry_after_s) == ("no_available_deployment", 10.0)


def test_health_follows_the_secret_through_a_reload() -> None:
    old = router("a", "b", "c")
    old.failed(Candidate(M, "a"), 0.0, refusal())
    old.failed(Candidate(M, "b"), 0.0, LIMITED)
    old.failed(Candidate(M, "c"), 0.0, refusal())
    new = router("a", "B", "c")
    new.adopt(old, renamed=lambda _, name: {"a": "a", "b": "B"}.get(name))
    assert names(new, 1.0) == ["c"], "a new secret starts without"
    assert names(new, 7.0) == ["B", "c"]
    probe = old.take(Candidate(M, "a"), 600.0)
    assert probe is not None
    assert new.take(Candidate(M, "a"), 600.0) is None, "a request from before the reload probes it"
    changed = router("a", "b", "c")
    changed.adopt(old, ["p"])
    assert names(changed, 1.0) == ["a", "b", "c"]
    single = router()
    single.adopt(old, renamed=lambda _, name: {"b": ""}.get(name))
    assert single.order(ONE, 1.0, first) == []


def test_a_call_without_a_report_uses_an_available_one() -> None:
    pool = router("a", "b")
    pool.failed(Candidate(M, "a"), 0.0, refusal())
    assert pool.pick(M, 1.0, first) == Candidate(M, "b")
    pool.failed(Candidate(M, "b"), 0.0, LIMITED)
    assert pool.pick(M, 1.0, first) == Candidate(M, "a")
    assert router().pick(M, 0.0, first) == Candidate(M)


def test_a_target_is_as_healthy_as_its_best_credential() -> None:
    pool = router("a", "b")
    pool.answered(Candidate(M, "b"), 0.0, 0.25)
    pool.failed(Candidate(M, "a"), 0.0, refusal())
    state, wait_s, ttft_s = pool.summary_of(M, 1.0)
    assert (state.value, wait_s, ttft_s) == ("well", 0.0, 0.25)
    pool.failed(Candidate(M, "b"), 0.0, LIMITED)
    state, wait_s, _ = pool.summary_of(M, 1.0)
    assert (state.value, wait_s) == ("away", 6.0)


def test_the_name_of_a_secret_after_a_reload() -> None:
    before = {"p": {"1": "x", "2": "y", "3": "z"}, "q": {"": "x"}, "gone": {"": "x"}}
    now = {"p": {"1": "y", "2": "new", "3": "z"}, "q": {"a": "x", "b": "y"}, "new": {"": "x"}}
    name_of = renaming(before, now)
    assert [name_of("p", name) for name in "123"] == [None, "1", "3"]
    assert (name_of("q", ""), name_of("gone", ""), name_of("new", "")) == ("a", None, None)


def test_a_conversation_stays_with_its_credential() -> None:
    pool = router("a", "b", "c", affinity_s=600.0)
    assert pool.uses_affinity(ONE)
    assert not router(affinity_s=600.0).uses_affinity(ONE)
    pool.affinity.note(b"x", Candidate(M, "b"), 0.0)
    pool.affinity.note(b"x", Candidate(M, "of another configuration"), 1.0)
    assert pool.order(ONE, 2.0, first, b"x")[0] == Candidate(M, "b")
    pool.failed(Candidate(M, "b"), 3.0, refusal())
    assert sorted(each.credential for each in pool.order(ONE, 4.0, first, b"x")) == ["a", "c"]
    drawn = Counter(pool.order(ONE, 5.0, first, bytes([at]))[0].credential for at in range(200))
    assert set(drawn) == {"a", "c"}
    assert min(drawn.values()) > 50


def test_when_a_provider_failed_and_answered_last() -> None:
    pool = router("a", "b")
    assert (pool.failed_at(), pool.answered_at) == ({}, {})
    pool.failed(Candidate(M, "a"), 1.0, refusal())
    assert pool.failed_at() == {"p": 1.0}
    for _ in range(5):
        pool.failed(Candidate(N, "b"), 3.0, BROKEN)
    assert pool.failed_at() == {"p": 3.0}, "the last of its targets and credentials"
    pool.answered(Candidate(N, "b"), 5.0, 0.1)
    assert pool.answered_at == {"p": 5.0}
    assert pool.failed_at() == {"p": 1.0}, "what has answered is not ejected any more"
    again = router("a", "b")
    again.adopt(pool)
    pool.succeeded(Candidate(M, "b"), 6.0)  # of a request that began before the reload
    assert (again.failed_at(), again.answered_at) == ({"p": 1.0}, {"p": 6.0})
