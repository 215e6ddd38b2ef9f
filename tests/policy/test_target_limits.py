"""Which limits hold for an attempt: those of its target, its provider and its credential, where there are any."""

from streamweir.policy.limits.key_limits import KeyLimits
from streamweir.policy.limits.local import LocalLimits
from streamweir.policy.limits.target_limits import LimitScope, TargetLimits, limit_requests, no_room
from streamweir.policy.routing.health import TargetId

A, B, OTHER = TargetId("p", "a"), TargetId("p", "b"), TargetId("q", "a")


def test_without_limits_there_is_nothing_to_look_up() -> None:
    limits = TargetLimits({A: KeyLimits()}, {"p": KeyLimits()}, {("p", "x"): KeyLimits()})
    assert limits.scopes_of(A, "x") == ()
    assert limits.all_scopes() == []


def test_every_scope_with_a_limit() -> None:
    limits = TargetLimits(
        {A: KeyLimits(rpm=1), OTHER: KeyLimits()},
        {"p": KeyLimits(max_streams=2), "q": KeyLimits()},
        {("p", "x"): KeyLimits(tpm=3), ("q", "x"): KeyLimits(tpm=4)},
    )
    target, provider = LimitScope(id="target:p/a", rpm=1), LimitScope(id="provider:p", max_streams=2)
    credential = LimitScope(id="credential:p/x", tpm=3)
    assert limits.scopes_of(A, "x") == (target, provider, credential)
    assert limits.scopes_of(A) == (target, provider)
    assert limits.scopes_of(B, "y") == (provider,)
    assert limits.scopes_of(TargetId("p", "made/up"), "x") == (provider, credential)
    assert limits.scopes_of(OTHER) == ()
    assert len(limits.all_scopes()) == 4


def test_an_attempt_reserves_in_all_scopes_or_in_none() -> None:
    scopes = (LimitScope(id="target:p/a", rpm=5, tpm=100), LimitScope(id="provider:p", max_streams=1))
    limits = LocalLimits()
    assert limits.reserve_all(limit_requests("r1", scopes, 60), 0.0).is_allowed
    refused = limits.reserve_all(limit_requests("r2", scopes, 60), 0.0)
    assert (refused.limited_by, refused.retry_after_s) == ("tokens", 60.5), "the longer wait of two"
    refused = limits.reserve_all(limit_requests("r3", scopes, 40), 0.0)
    assert (refused.limited_by, refused.retry_after_s) == ("streams", 1.0)
    limits.settle("r1:0", 0, None, 0.0)
    limits.settle("r1:1", 0, None, 0.0)
    assert limits.reserve_all(limit_requests("r4", scopes, 100), 0.0).is_allowed, "what was refused has taken nothing"


def test_the_error_says_that_it_is_temporary() -> None:
    error = no_room(12.5)
    assert (error.code, error.spec.status, error.spec.may_retry) == ("upstream_rate_limited", 429, True)
    assert error.retry_after_s == 12.5
    assert "configured limit" in error.message
