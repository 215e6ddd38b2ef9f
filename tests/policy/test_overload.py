"""The limit of requests being opened: a simulated event loop at many loads, and a table of who gets in.

The loop of the simulation has no clock but its own: work costs simulated time. A request takes several
turns, each of which waits for all that is ready; a refusal costs little, and is not for nothing.
"""

from collections import deque
from dataclasses import dataclass, field
from math import inf
from random import Random

import pytest

from streamweir.policy.overload import INTERVAL_S, TARGET_S, UNKNOWN_KEYS_PER_S, OpeningLimit

STEPS = 4
STEP_S = 0.00025
REFUSAL_S = 0.00001
PEAK = 1 / (STEPS * STEP_S)


@dataclass
class Loop:
    """One turn: what has arrived is judged, then everything that is open makes one step."""

    rates: dict[str, float]
    """How many requests a second each key sends."""
    upstream_s: float = 0.0
    """How long a provider takes, between the second and the third step."""
    limit: OpeningLimit = field(default_factory=OpeningLimit)
    now: float = 0.0
    chance: Random = field(default_factory=lambda: Random(7))
    arrived: dict[str, float] = field(default_factory=dict)
    open: list[tuple[str, float, int]] = field(default_factory=list)
    away: deque[tuple[str, float, float]] = field(default_factory=deque)
    served: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    waits: dict[str, list[float]] = field(default_factory=dict)
    turns: list[float] = field(default_factory=list)

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        turn_s = 0.0
        while self.now < until:
            began = self.now
            self._arrive(turn_s)
            self._step()
            turn_s = max(self.now - began, 0.00005)
            self.now = began + turn_s
            self.turns.append(turn_s)
            self.limit.turn_took(turn_s, self.now)

    def _arrive(self, passed_s: float) -> None:
        came = []
        for key, rate in self.rates.items():
            count, self.arrived[key] = divmod(self.arrived.get(key, 0.0) + rate * passed_s, 1)
            came += [key] * int(count)
        self.chance.shuffle(came)
        for key in came:
            if self.limit.may_open(key, self.now):
                self.limit.enter(key, self.now)
                self.open.append((key, self.now, 0))
            else:
                self.refused[key] = self.refused.get(key, 0) + 1
                self.now += REFUSAL_S

    def _step(self) -> None:
        self.open, ready = [], self.open
        while self.away and self.away[0][2] <= self.now:
            key, since, _ = self.away.popleft()
            ready.append((key, since, 2))
        for key, since, steps in ready:
            self.now += STEP_S
            if steps + 1 == 2:
                self.limit.leave()
                self.away.append((key, since, self.now + self.upstream_s))
            elif steps + 1 < STEPS:
                self.open.append((key, since, steps + 1))
            else:
                self.served[key] = self.served.get(key, 0) + 1
                self.waits.setdefault(key, []).append(self.now - since)


def test_below_the_peak_no_request_is_refused() -> None:
    loop = Loop({"a": 0.9 * PEAK})
    loop.run(5)
    assert loop.refused == {}
    assert loop.limit.limit == inf


@pytest.mark.parametrize("times", [1.6, 3, 10])
def test_beyond_the_peak_as_much_is_served_and_soon(times: float) -> None:
    loop = Loop({"a": times * PEAK})
    loop.run(2)
    loop.served.clear()
    loop.waits.clear()
    loop.run(5)
    assert loop.served["a"] >= 0.85 * PEAK * 5
    waits = sorted(loop.waits["a"])
    assert waits[int(len(waits) * 0.99)] < 0.2
    assert max(loop.turns[len(loop.turns) // 2 :]) < 5 * TARGET_S


@pytest.mark.parametrize("upstream_s", [0.5, 3])
def test_a_slow_provider_is_no_overload(upstream_s: float) -> None:
    """Thousands wait for it, and the limit is not for them."""
    loop = Loop({"a": 0.8 * PEAK}, upstream_s=upstream_s)
    loop.run(3 * upstream_s)
    assert len(loop.away) > 0.3 * PEAK * upstream_s
    assert loop.refused == {}


def test_a_quiet_key_is_not_refused_for_a_busy_one() -> None:
    loop = Loop({"busy": 10 * PEAK, "quiet": 5})
    loop.run(6)
    assert loop.refused["busy"] > 0
    assert loop.refused.get("quiet", 0) <= 1  # at the very beginning, when far too many are open already
    assert loop.served["quiet"] >= 28


def test_a_quiet_key_is_not_refused_for_many_busy_ones() -> None:
    loop = Loop({**{f"busy-{number}": 0.1 * PEAK for number in range(100)}, "quiet": 5})
    loop.run(6)
    assert loop.refused.get("quiet", 0) <= 3  # of thirty, where of the others' nine in ten are refused
    assert sum(loop.refused.values()) > 0.8 * 10 * PEAK * 6


def test_busy_keys_get_the_same_however_much_they_send() -> None:
    loop = Loop({"much": 8 * PEAK, "more": 2 * PEAK})
    loop.run(8)
    assert 0.7 < loop.served["much"] / loop.served["more"] < 1.4


def test_a_burst_is_no_overload() -> None:
    limit = OpeningLimit()
    for _ in range(5000):
        assert limit.may_open("a", 0.0)
        limit.enter("a", 0.0)
    for number in range(20):
        limit.turn_took(0.0001, number * INTERVAL_S / 10)
    assert limit.may_open("a", 1.0)


def test_one_long_turn_refuses_no_later_request() -> None:
    limit = OpeningLimit()
    for number in range(200):
        limit.turn_took(0.5 if number == 50 else 0.0001, number * INTERVAL_S / 10)
        for _ in range(40):
            assert limit.may_open("a", number * INTERVAL_S / 10)
            limit.enter("a", 0.0)
        for _ in range(40):
            limit.leave()
    assert limit.limit == inf


def test_after_the_overload_all_requests_are_admitted() -> None:
    loop = Loop({"a": 5 * PEAK})
    loop.run(3)
    assert loop.limit.is_limited
    loop.rates = {"a": 0.5 * PEAK}
    loop.run(1)
    loop.refused.clear()
    loop.run(5)
    assert loop.refused == {}
    assert loop.limit.limit == inf


def test_under_too_many_streams_a_minimum_of_requests_is_opened() -> None:
    limit = OpeningLimit()
    for number in range(100):
        limit.turn_took(0.5, number * 0.5)
    assert limit.limit >= 1
    assert limit.may_open("a", 50.0)


def test_the_past_of_very_many_keys_is_bounded() -> None:
    limit = OpeningLimit()
    for number in range(10):
        limit.turn_took(0.5, number * 0.5)
    for number in range(5000):
        limit.may_open(f"key-{number}", 5.0)
    assert len(limit._keys) <= 1000
    limit.turn_took(0.001, 50.0)
    limit.turn_took(0.001, 100.0)
    assert len(limit._keys) == 0


def test_requests_with_unknown_keys_are_answered_at_their_own_rate() -> None:
    limit = OpeningLimit()
    assert all(limit.may_reject_unknown(0.0) for _ in range(10_000)), "there is no limit"
    limit.turn_took(0.5, 0.5)
    told = sum(limit.may_reject_unknown(1.0 + number / 10_000) for number in range(50_000))
    assert UNKNOWN_KEYS_PER_S <= told <= 7 * UNKNOWN_KEYS_PER_S
    assert limit.may_open("a", 6.0)
