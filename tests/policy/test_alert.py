"""What is reported when, and how often it is tried: each rule of `policy.alert`, and the signature."""

from typing import Any

import pytest

from streamweir.policy.alert import (
    BUDGET,
    ERRORS_HIGH,
    ERRORS_NORMAL,
    KEPT_S,
    MAX_RETRY_S,
    REFUSED_S,
    Condition,
    Finding,
    ProviderSigns,
    budget_level,
    changes_of,
    has_many_errors,
    is_behind,
    is_down,
    is_given_up,
    is_subscribed,
    join_signs,
    retry_s,
)
from streamweir.policy.webhook_signature import read_secret, signed_headers

STEPS = ((50, BUDGET), (80, BUDGET), (100, BUDGET))
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 (of the specification)


def spent(level: int, limit: int = 1000) -> Finding:
    return Finding(subject="key:k:2026-11", level=level, kinds=STEPS, basis=limit, workspace_id="w", data={"a": 1})


def errors(level: int) -> Finding:
    return Finding(subject="errors:w", level=level, kinds=((1, ERRORS_HIGH),), basis=7, end_kind=ERRORS_NORMAL)


def reported(*findings: Finding) -> list[tuple[str, Any]]:
    """What one after the other is told, each time from the conditions before."""
    known: dict[str, Condition] = {}
    told = []
    for at_ms, finding in enumerate(findings):
        for change in changes_of(known, [finding], at_ms):
            assert change.before == known.get(finding.subject)
            known[finding.subject] = change.after
            if change.after.level == 0:
                del known[finding.subject]
            told += [(alert.kind, alert.data.get("percent")) for alert in change.alerts]
    return told


@pytest.mark.parametrize(
    ("findings", "percents"),
    [
        ([spent(0), spent(50), spent(50), spent(80), spent(100), spent(100)], [50, 80, 100]),
        ([spent(100)], [50, 80, 100]),
        # A refusal said 100; the sums say 80 again, and nothing is told twice.
        ([spent(80), spent(100), spent(80), spent(100)], [50, 80, 100]),
        # The limit is raised: what is reached of the new one is told again.
        ([spent(100), spent(0, 4000), spent(50, 4000)], [50, 80, 100, 50]),
        ([spent(80), spent(80, 1100), spent(100, 1100)], [50, 80, 100]),
        # It is lowered.
        ([spent(50), spent(100, 500)], [50, 80, 100]),
    ],
)
def test_every_threshold_is_reported_once_for_a_limit(findings: list[Finding], percents: list[int]) -> None:
    assert reported(*findings) == [(BUDGET, each) for each in percents]


def test_what_begins_and_ends_is_reported_both_times() -> None:
    told = reported(errors(0), errors(1), errors(1), errors(0), errors(0), errors(1))
    assert [kind for kind, _ in told] == [ERRORS_HIGH, ERRORS_NORMAL, ERRORS_HIGH]


def test_each_alert_has_an_id_of_its_own_and_a_body_by_the_specification() -> None:
    (change,) = changes_of({}, [spent(100)], 1_800_000_000_123)
    assert len({alert.id for alert in change.alerts}) == 3
    assert change.alerts[0].body == (
        '{"data":{"a":1,"percent":50},"timestamp":"2027-01-15T08:00:00Z","type":"budget.threshold"}'
    )


def test_thresholds_are_exact() -> None:
    assert budget_level(499_999_999, 1_000_000_000, (50, 80, 100)) == 0
    assert budget_level(500_000_000, 1_000_000_000, (50, 80, 100)) == 50
    assert budget_level(2**63 - 1, 2**63 - 1, (50, 80, 100)) == 100


@pytest.mark.parametrize(
    ("kind", "workspace", "events", "only", "is_wanted"),
    [
        ("provider.down", None, (), None, True),
        ("provider.down", None, ("provider",), None, True),
        ("provider.down", None, ("budget", "ledger"), None, False),
        ("provider.down", None, (), "w", False),
        ("budget.threshold", "w", (), "w", True),
        ("budget.threshold", "w", (), None, True),
        ("budget.threshold", "v", (), "w", False),
        ("budget.threshold", "w", ("credit",), "w", False),
    ],
)
def test_who_wants_it(
    kind: str, workspace: str | None, events: tuple[str, ...], only: str | None, is_wanted: bool
) -> None:
    assert is_subscribed(kind, workspace, events, only) is is_wanted


@pytest.mark.parametrize(
    ("failed", "answered", "since", "now", "expected"),
    [
        (None, None, None, 1000, None),
        (None, 10, None, 1000, None),
        (900, None, None, 1000, True),  # it has never answered
        (900, 890, None, 1000, True),
        (900, 950, None, 1000, None),  # another target has answered since
        (999, 990, None, 1000, None),  # an answer was there a moment ago: wait
        (999, 990, None, 1090, True),
        (900, 890, 900, 2000, None),  # it is known
        (None, None, 900, 2000, None),  # another process, which knows nothing: no evidence
        (1990, 1500, 900, 2000, False),  # it has answered, even if a target fails again
        (None, 901, 900, 2000, False),
    ],
)
def test_a_provider_is_down_without_answers_and_back_with_one(
    failed: int | None, answered: int | None, since: int | None, now: int, expected: bool | None
) -> None:
    assert is_down(ProviderSigns(failed, answered), since, now, 100) is expected


def test_the_latest_sign_of_any_process_counts() -> None:
    seen = [ProviderSigns(5, 1), ProviderSigns(None, 9), ProviderSigns(3, None)]
    assert join_signs(seen) == ProviderSigns(5, 9)
    assert join_signs([]) == ProviderSigns()


def test_a_rate_near_the_limit_is_not_reported_again_and_again() -> None:
    assert not has_many_errors(19, 19, 20, 20, is_reported=False)
    assert has_many_errors(20, 4, 20, 20, is_reported=False)
    assert not has_many_errors(20, 3, 20, 20, is_reported=False)
    assert has_many_errors(20, 2, 20, 20, is_reported=True)
    assert not has_many_errors(20, 1, 20, 20, is_reported=True)
    assert has_many_errors(19, 19, 20, 20, is_reported=True), "callers stay away while they fail"
    assert has_many_errors(1, 1, 20, 20, is_reported=True)
    assert not has_many_errors(1, 0, 20, 20, is_reported=True)
    assert not has_many_errors(0, 0, 20, 20, is_reported=True)
    assert is_behind(30, 30, is_reported=False)
    assert is_behind(15, 30, is_reported=True)
    assert not is_behind(14, 30, is_reported=True)


def test_attempts_come_less_and_less_often_and_end() -> None:
    assert [retry_s(count) for count in (1, 2, 3, 4)] == [5, 10, 20, 40]
    assert retry_s(10**9) == MAX_RETRY_S
    assert retry_s(1, 60) == 60
    assert retry_s(1, 1) == 5
    assert retry_s(1, 10**6) == MAX_RETRY_S
    assert not is_given_up(REFUSED_S, 500)
    assert is_given_up(REFUSED_S, 404)
    assert not is_given_up(REFUSED_S, 429)
    assert not is_given_up(REFUSED_S, None)
    assert is_given_up(KEPT_S, None)


def test_the_signature_is_the_one_of_the_specification() -> None:
    """The example that the specification's own libraries are tested with."""
    headers = signed_headers([SECRET], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers == (
        ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        ("webhook-timestamp", "1614265330"),
        ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    )
    two = dict(signed_headers([SECRET, SECRET], "a", 1, b""))["webhook-signature"].split(" ")
    assert len(two) == 2
    assert two[0] == two[1]


@pytest.mark.parametrize("text", ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_???", "whsec_c2hvcnQ="])
def test_a_secret_that_cannot_be_used(text: str) -> None:
    with pytest.raises(ValueError, match="24 to 64 bytes") as raised:
        read_secret(text)
    assert not text or text not in str(raised.value).replace("whsec_ and", "")
