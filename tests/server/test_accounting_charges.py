"""What a request draws on: by the key, the workspace and the period of its moment, however often the key has asked."""

import pytest
from msgspec import structs

from streamweir.policy.access import Key, KeyRing
from streamweir.policy.limits.limit_request import Decision, LimitRequest
from streamweir.policy.pricing.prices import Quote, Rates
from streamweir.server.accounting.accounting import Accounting
from streamweir.server.accounting.keys import KeyDirectory
from streamweir.server.accounting.limiter import MemoryLimiter
from streamweir.server.accounting.reservation import ReservationRequest
from streamweir.server.http.answers import Refusal
from streamweir.store.journal.entries import Hold
from streamweir.store.keys.changes import Changes, WorkspaceState

KEY = Key(name="ci", digest=bytes(32), id="k", workspace_id="w", budget_nano=5, budget_period="day")
QUOTE = Quote("v", {"p/m": Rates(input=0, output=0)})
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
NOON_MS = 20_000 * DAY_MS + DAY_MS // 2


class Listener(MemoryLimiter):
    """The real one, and it remembers what it was asked. There is no database: every account begins at nothing."""

    def __init__(self) -> None:
        super().__init__(None, None)
        self.limit_requests: list[LimitRequest] = []
        self.begun: list[str] = []

    def begin(self, account: str) -> None:
        self.begun.append(account)
        super().begin(account)

    def reserve_at_once(self, limit_request: LimitRequest, hold: Hold) -> Decision | None:
        self.limit_requests.append(limit_request)
        for charge in limit_request.charges:
            if not self._limits.has_account(charge.account):
                self._limits.seed(charge.account, 0)
        return super().reserve_at_once(limit_request, hold)


class Asker:
    def __init__(self, *, can_enforce_limits: bool = True) -> None:
        self.limiter = Listener()
        self.directory = KeyDirectory(KeyRing([]))
        self.accounting = Accounting("here", self.directory, self.limiter, can_enforce_limits=can_enforce_limits)

    def credit(self, granted: int, *, prepaid: bool = True) -> None:
        state = WorkspaceState(id="w", name="team", prepaid=prepaid, granted=granted)
        self.directory.apply(Changes(version=self.directory.version + 1, workspaces=(state,)))

    async def ask(self, key: Key, at_ms: int = NOON_MS, quote: Quote = QUOTE) -> LimitRequest:
        asked = ReservationRequest(
            request_id=f"r{len(self.limiter.limit_requests)}",
            at_ms=at_ms,
            key=key,
            dialect="openai",
            model="m",
            stream=True,
            quote=quote,
            quote_text="{}",
            prompt_tokens=1,
            output_tokens=1,
        )
        await self.accounting.open(asked)
        return self.limiter.limit_requests[-1]


def limits_of(limit_request: LimitRequest) -> dict[str, int]:
    return {charge.account: charge.limit for charge in limit_request.charges}


async def test_the_account_is_that_of_the_period() -> None:
    asker = Asker()
    asker.credit(0, prepaid=False)
    today, later = await asker.ask(KEY), await asker.ask(KEY, NOON_MS + DAY_MS // 2 - 1)
    tomorrow = await asker.ask(KEY, NOON_MS + DAY_MS // 2)
    assert limits_of(today) == limits_of(later) == {"key:k:2024-10-04": 5}
    assert limits_of(tomorrow) == {"key:k:2024-10-05": 5}
    assert today.other_accounts == ("ws:w", "key:k:2024-W40", "key:k:2024-10", "key:k:total")


async def test_a_change_of_the_key_holds_from_the_next_request_on() -> None:
    asker = Asker()
    asker.credit(0, prepaid=False)
    await asker.ask(KEY)
    assert limits_of(await asker.ask(structs.replace(KEY, budget_nano=9))) == {"key:k:2024-10-04": 9}
    assert limits_of(await asker.ask(structs.replace(KEY, budget_period="total"))) == {"key:k:total": 5}
    free = await asker.ask(structs.replace(KEY, budget_nano=None))
    assert not free.is_limited
    assert "key:k:2024-10-04" in free.other_accounts


async def test_credit_holds_from_the_next_request_on() -> None:
    asker = Asker()
    asker.credit(7)
    assert limits_of(await asker.ask(KEY)) == {"key:k:2024-10-04": 5, "ws:w": 7}
    asker.credit(8)
    assert limits_of(await asker.ask(KEY)) == {"key:k:2024-10-04": 5, "ws:w": 8}
    asker.credit(8, prepaid=False)
    assert limits_of(await asker.ask(KEY)) == {"key:k:2024-10-04": 5}


@pytest.mark.parametrize("limit", ["rpm", "tpm", "max_streams", "budget_nano"])
async def test_what_is_limited_is_refused_where_limits_are_not_kept(limit: str) -> None:
    asker = Asker(can_enforce_limits=False)
    asker.credit(0, prepaid=False)
    free = structs.replace(KEY, budget_nano=None)
    await asker.ask(free)
    with pytest.raises(Refusal):
        await asker.ask(structs.replace(free, **{limit: 5}))
    await asker.ask(free)
    asker.credit(5)
    with pytest.raises(Refusal):
        await asker.ask(free)


async def test_what_has_no_price_is_refused_where_money_is_limited() -> None:
    asker, unpriced = Asker(), Quote("v", {"p/m": None})
    asker.credit(0, prepaid=False)
    with pytest.raises(Refusal):
        await asker.ask(KEY, quote=unpriced)
    await asker.ask(structs.replace(KEY, budget_nano=None), quote=unpriced)


TOMORROW, LATER = "key:k:2024-10-05", "key:k:2024-10-06"
UNLIMITED = structs.replace(KEY, budget_nano=None)


def begun_asker() -> Asker:
    """Of a process that was started on the morning before `NOON_MS`."""
    asker = Asker()
    asker.credit(0, prepaid=False)
    asker.accounting.set_exclusive_from(NOON_MS // HOUR_MS)
    return asker


async def test_a_period_that_begins_while_the_process_runs_has_nothing_spent() -> None:
    asker = begun_asker()
    await asker.ask(KEY)
    assert asker.limiter.begun == [], "it began before: others may have spent in it"
    for at_ms in (NOON_MS + DAY_MS, NOON_MS + DAY_MS + HOUR_MS, NOON_MS + 2 * DAY_MS):
        await asker.ask(KEY, at_ms)
    assert asker.limiter.begun == [TOMORROW, LATER]


async def test_a_key_that_asks_for_the_first_time_has_spent_nothing_in_a_new_period() -> None:
    asker = begun_asker()
    await asker.ask(KEY, NOON_MS + DAY_MS)
    assert asker.limiter.begun == [TOMORROW]


@pytest.mark.parametrize("period", ["week", "month", "total"])
async def test_a_longer_period_that_goes_on_is_looked_up(period: str) -> None:
    asker = begun_asker()
    await asker.ask(structs.replace(KEY, budget_period=period), NOON_MS + DAY_MS)
    assert asker.limiter.begun == []


async def test_what_was_spent_without_a_budget_is_looked_up() -> None:
    asker = begun_asker()
    await asker.ask(UNLIMITED, NOON_MS + DAY_MS)
    await asker.ask(KEY, NOON_MS + DAY_MS + HOUR_MS)
    assert asker.limiter.begun == []
    await asker.ask(KEY, NOON_MS + 2 * DAY_MS)
    assert asker.limiter.begun == [LATER]


async def test_a_clock_that_was_set_back_makes_no_period_new() -> None:
    asker = begun_asker()
    await asker.ask(UNLIMITED, NOON_MS + DAY_MS)
    await asker.ask(UNLIMITED, NOON_MS)
    await asker.ask(KEY, NOON_MS + DAY_MS)
    assert asker.limiter.begun == []


async def test_a_key_that_was_evicted_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamweir.server.accounting.account_limits._MAX_KEYS", 1)
    asker = begun_asker()
    await asker.ask(UNLIMITED, NOON_MS + DAY_MS)
    await asker.ask(structs.replace(UNLIMITED, id="l"), NOON_MS + DAY_MS)
    await asker.ask(KEY, NOON_MS + DAY_MS)
    assert asker.limiter.begun == []
    await asker.ask(KEY, NOON_MS + 2 * DAY_MS)
    assert asker.limiter.begun == [LATER]


async def test_a_process_that_is_not_alone_looks_up_every_period() -> None:
    asker = Asker()
    asker.credit(0, prepaid=False)
    await asker.ask(KEY, NOON_MS)
    await asker.ask(KEY, NOON_MS + DAY_MS)
    assert asker.limiter.begun == []
