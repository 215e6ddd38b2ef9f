"""The rules of limits, twice: in the simplest form, and as random histories.

`LimitModel` stores everything and counts again for every command; it finds the time of a retry by trying. `HISTORIES`
are random commands with random times, including clocks that are set back. Every implementation of limits must answer
every command of a history as the model does.
"""

from collections.abc import Iterable, Iterator
from math import floor

from hypothesis import strategies as st
from msgspec import Struct

from streamweir.policy.limits.key_limits import KeyLimits, limits_of
from streamweir.policy.limits.limit_request import BudgetCharge, Decision, LimitRequest, Window

LEASE_S = 45.0
EIGHTHS = st.sampled_from([0, 0, 0, 0, 1, 3, 4, 120, 240, 359, 360, 361, 479, 480, 483, 484, -1, -120, -8000])
"""Of a second, so that sums are exact: moments around the end of a tick, of a lease and of a minute."""
LIMITS = st.sampled_from([None, None, 1, 2, 3, 3, 0])
TOKEN_LIMITS = st.sampled_from([None, 10, 30, 30, 0])
KEY_IDS = st.sampled_from(["a", "b"])
REQUEST_IDS = st.sampled_from([f"r{number}" for number in range(4)])
ACCOUNTS = st.sampled_from(["key:a:total", "ws:w"])
AMOUNTS = st.integers(0, 5)
DRAWS = st.sampled_from(
    [
        (),
        (BudgetCharge("key:a:total", 10, "budget_exceeded"),),
        (BudgetCharge("key:a:total", 12, "budget_exceeded"), BudgetCharge("ws:w", 14, "insufficient_quota")),
        (BudgetCharge("ws:w", 8, "insufficient_quota"),),
    ]
)
CLAIMS = st.builds(
    LimitRequest,
    request_id=REQUEST_IDS,
    key_id=KEY_IDS,
    rpm=LIMITS,
    tpm=TOKEN_LIMITS,
    tokens=st.sampled_from([0, 1, 4, 9, 20, 40]),
    max_streams=LIMITS,
    amount=AMOUNTS,
    planned=st.sampled_from([0, 0, 1, 4, 20]),
    takes_rest=st.sampled_from([False, False, True]),
    charges=DRAWS,
)


SCOPES = st.lists(
    st.builds(
        LimitRequest,
        request_id=REQUEST_IDS,
        key_id=KEY_IDS,
        rpm=LIMITS,
        tpm=TOKEN_LIMITS,
        tokens=st.sampled_from([0, 4, 20]),
        max_streams=LIMITS,
    ),
    min_size=1,
    max_size=2,
    unique_by=(lambda request: request.key_id, lambda request: request.request_id),
).map(tuple)
"""For one attempt: each of another key."""


UNTIMED = frozenset({"extend", "count_tokens", "seed", "correct"})
"""For these no time passes."""


class Command(Struct, frozen=True):
    """`step` eighths of a second after the one before."""

    step: int
    name: str
    words: tuple[object, ...]


def _commands(name: str, *words: st.SearchStrategy[object]) -> st.SearchStrategy[Command]:
    return st.builds(Command, EIGHTHS, st.just(name), st.tuples(*words))


_RESERVE = _commands("reserve", CLAIMS)
_SETTLE = _commands("settle", REQUEST_IDS, st.sampled_from([None, 0, 3, 12, 50]), st.sampled_from([None, 0, 2, 5, 9]))
COMMANDS = st.one_of(
    _RESERVE,
    _RESERVE,
    _RESERVE,
    _SETTLE,
    _SETTLE,
    _commands("release", REQUEST_IDS),
    _commands("reserve_all", SCOPES),
    _commands("renew", st.lists(REQUEST_IDS, max_size=4).map(tuple)),
    _commands("extend", REQUEST_IDS, AMOUNTS, st.booleans()),
    _commands("count_tokens", REQUEST_IDS, st.sampled_from([0, 3, 40])),
    _commands("peek", KEY_IDS, st.builds(KeyLimits, rpm=LIMITS, tpm=TOKEN_LIMITS, max_streams=LIMITS)),
    _commands("seed", ACCOUNTS, AMOUNTS),
    _commands("correct", ACCOUNTS, AMOUNTS),
)
HISTORIES = st.lists(COMMANDS, min_size=8, max_size=40).map(
    lambda history: [
        Command(0, "peek", ("a", KeyLimits())),  # all clocks begin at the same moment
        Command(0, "seed", ("key:a:total", 0)),
        Command(0, "seed", ("ws:w", 1)),
        *history,
    ]
)


def arguments_of(command: Command, charges: tuple[BudgetCharge, ...]) -> tuple[tuple[object, ...], dict[str, object]]:
    """`charges`: of the request that is extended."""
    if command.name != "extend":
        return command.words, {}
    request_id, amount, takes_rest = command.words
    return (request_id, amount, charges), {"takes_rest": takes_rest}


def moments(history: Iterable[Command], start: float) -> Iterator[tuple[Command, float]]:
    now = start
    for command in history:
        if command.name not in UNTIMED:
            now += command.step / 8
        yield command, now


class _Taken:
    def __init__(self, request: LimitRequest, at: float, until: float) -> None:
        self.request = request
        self.at = at
        self.tokens = request.needed_tokens
        self.amount = request.amount
        self.planned = request.planned
        self.until = until
        self.is_held = True
        self.is_over = False
        self.took_place = True


class LimitModel:
    def __init__(self, lease_s: float) -> None:
        self.used: dict[str, int] = {}
        self._lease_s = lease_s
        self._taken: list[_Taken] = []
        self._last: float | None = None
        self._at = 0.0

    def go_to(self, now: float) -> None:
        self._at = now if self._last is None else self._at + max(0.0, now - self._last)
        self._last = now
        for taken in self._taken:
            if taken.is_held and not taken.is_over and taken.until <= self._at:
                taken.is_held = False
                self._change(taken, -taken.amount)

    def reserve(self, request: LimitRequest) -> Decision:
        if (known := self._known(request.request_id)) is not None:
            self._take_up(known)
            return self._decision(request, planned=known.planned)
        refused = self._rates_refusal(request)
        if refused is not None:
            return refused
        missing = tuple(charge.account for charge in request.charges if charge.account not in self.used)
        if missing:
            return self._decision(request, missing=missing)
        for charge in request.charges:
            others = self._open(charge.account)
            used = self.used[charge.account] + request.amount
            plans = sum(each.planned for each in others) + request.planned
            if used > charge.limit or (others and not request.takes_rest and used + plans > charge.limit):
                return self._decision(request, charge.code, charge.account)
        taken = _Taken(request, self._at, self._at + self._lease_s)
        taken.planned = self._fitting_plan(request.charges, request.amount, request.planned)
        self._taken.append(taken)
        self._change(taken, request.amount)
        return self._decision(request, planned=taken.planned)

    def reserve_all(self, requests: tuple[LimitRequest, ...]) -> Decision:
        new = [request for request in requests if self._known(request.request_id) is None]
        refusals = [refused for request in new if (refused := self._rates_refusal(request)) is not None]
        if not refusals:
            for request in requests:
                self.reserve(request)
            return Decision()
        longest = max(refusals, key=lambda refused: refused.retry_after_s)  # the first of equal ones
        return Decision(refusal=longest.refusal, limited_by=longest.limited_by, retry_after_s=longest.retry_after_s)

    def peek(self, key_id: str, limits: KeyLimits) -> Decision:
        request = LimitRequest(request_id="", key_id=key_id, **limits_of(limits))
        return self._rates_refusal(request) or self._decision(request)

    def charges_of(self, request_id: str) -> tuple[BudgetCharge, ...]:
        known = self._known(request_id)
        return () if known is None else known.request.charges

    def extend(self, request_id: str, amount: int, takes_rest: bool = False) -> str | None:
        known = self._known(request_id)
        if known is None:
            return "budget_exceeded"
        if not known.is_held:
            self._take_up(known)
        for charge in known.request.charges:
            used = self.used[charge.account] + amount
            plans = sum(each.planned for each in self._open(charge.account) if each is not known)
            if used > charge.limit or (used + plans > charge.limit and not takes_rest):
                return charge.code
        planned, known.planned = known.planned, 0
        known.planned = self._fitting_plan(known.request.charges, amount, max(0, planned - amount))
        known.amount += amount
        self._change(known, amount)
        return None

    def count_tokens(self, request_id: str, tokens: int) -> None:
        if (known := self._known(request_id)) is not None:
            known.tokens += tokens

    def _open(self, account: str) -> list[_Taken]:
        return [
            each
            for each in self._taken
            if each.is_held and not each.is_over and account in [charge.account for charge in each.request.charges]
        ]

    def _fitting_plan(self, charges: Iterable[BudgetCharge], amount: int, planned: int) -> int:
        """No more than is left beside the plans of others."""
        for charge in charges:
            others = sum(each.planned for each in self._open(charge.account))
            planned = min(planned, charge.limit - self.used[charge.account] - amount - others)
        return max(0, planned)

    def settle(self, request_id: str, tokens: int | None, cost: int | None) -> None:
        self._end(request_id, tokens, cost or 0, took_place=True)

    def release(self, request_id: str) -> None:
        self._end(request_id, 0, 0, took_place=False)

    def renew(self, request_ids: Iterable[str]) -> None:
        for request_id in request_ids:
            if (known := self._known(request_id)) is not None:
                self._take_up(known)

    def seed(self, account: str, used: int) -> None:
        self.used.setdefault(account, used)

    def correct(self, account: str, used: int) -> None:
        self.used[account] = used

    def _known(self, request_id: str) -> _Taken | None:
        found = [each for each in self._taken if each.request.request_id == request_id and not each.is_over]
        return found[0] if found else None

    def _take_up(self, taken: _Taken) -> None:
        taken.until = self._at + self._lease_s
        if not taken.is_held:
            taken.is_held = True
            self._change(taken, taken.amount)

    def _end(self, request_id: str, tokens: int | None, cost: int, *, took_place: bool) -> None:
        known = self._known(request_id)
        if known is not None:
            known.is_over, known.took_place = True, took_place
            known.tokens = known.tokens if tokens is None else tokens
            self._change(known, cost - (known.amount if known.is_held else 0))

    def _change(self, taken: _Taken, amount: int) -> None:
        for charge in taken.request.charges:
            self.used[charge.account] = max(0, self.used[charge.account] + amount)

    def _counted(self, key_id: str, at: float) -> list[_Taken]:
        oldest = floor(at * 2) - 120
        return [each for each in self._taken if each.request.key_id == key_id and floor(each.at * 2) >= oldest]

    def _counts(self, key_id: str, at: float) -> tuple[int, int]:
        counted = self._counted(key_id, at)
        return sum(each.took_place for each in counted), sum(each.tokens for each in counted)

    def _fits(self, request: LimitRequest, at: float) -> tuple[bool, bool]:
        requests, tokens = self._counts(request.key_id, at)
        return (
            request.rpm is None or requests + 1 <= request.rpm,
            request.tpm is None or tokens + request.needed_tokens <= request.tpm,
        )

    def _changes(self, key_id: str) -> list[float]:
        """Now, and the moments at which something will no longer be counted."""
        return sorted({self._at, *((floor(each.at * 2) + 121) / 2 for each in self._counted(key_id, self._at))})

    def _wait_s(self, request: LimitRequest, which: int) -> float:
        """By trying."""
        fitting = (at - self._at for at in self._changes(request.key_id) if self._fits(request, at)[which])
        return next(fitting, 60.0)

    def _rates_refusal(self, request: LimitRequest) -> Decision | None:
        waits = self._wait_s(request, 0), self._wait_s(request, 1)
        if max(waits) > 0:
            limited_by = "tokens" if waits[1] > waits[0] else "requests"
            return self._decision(request, "rate_limit_exceeded", limited_by, max(waits))
        held = [
            each for each in self._taken if each.request.key_id == request.key_id and each.is_held and not each.is_over
        ]
        if request.max_streams is not None and len(held) >= request.max_streams:
            return self._decision(request, "concurrency_limit_exceeded", "streams", 1.0)
        return None

    def _decision(
        self,
        request: LimitRequest,
        refusal: str | None = None,
        limited_by: str | None = None,
        retry_after_s: float = 0.0,
        missing: tuple[str, ...] = (),
        planned: int = 0,
    ) -> Decision:
        requests, tokens = self._counts(request.key_id, self._at)
        return Decision(
            refusal=refusal,
            limited_by=limited_by,
            retry_after_s=retry_after_s,
            requests=self._window(request, request.rpm, requests, 0),
            tokens=self._window(request, request.tpm, tokens, 1),
            missing=missing,
            planned=planned,
        )

    def _window(self, request: LimitRequest, limit: int | None, used: int, which: int) -> Window | None:
        if limit is None:
            return None
        empty = next(at for at in self._changes(request.key_id) if self._counts(request.key_id, at)[which] == 0)
        return Window(limit, max(0, limit - used), empty - self._at)
