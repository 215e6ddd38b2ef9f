"""What a request draws on: by the key, the workspace and the period of its moment, however often the key has asked."""

import pytest
from msgspec import structs

from streamweir.policy.access import Key, KeyRing
from streamweir.policy.claim import Claim, Decision
from streamweir.policy.prices import Quote, Rates
from streamweir.server.arbiter import MemoryArbiter
from streamweir.server.booking import Asked
from streamweir.server.books import Books
from streamweir.server.directory import Directory
from streamweir.server.respond import Refusal
from streamweir.store.directory import Changes, WorkspaceState
from streamweir.store.record import Hold

KEY = Key(name="ci", digest=bytes(32), id="k", workspace_id="w", budget_nano=5, budget_period="day")
QUOTE = Quote("v", {"p/m": Rates(input=0, output=0)})
DAY_MS = 86_400_000
NOON_MS = 20_000 * DAY_MS + DAY_MS // 2


class Listener(MemoryArbiter):
    """The real one, and it remembers what it was asked. There is no database: every account begins at nothing."""

    def __init__(self) -> None:
        super().__init__(None, None)
        self.claims: list[Claim] = []

    def reserve_at_once(self, claim: Claim, hold: Hold) -> Decision | None:
        self.claims.append(claim)
        for draw in claim.draws:
            if not self._limits.knows(draw.account):
                self._limits.seed(draw.account, 0)
        return super().reserve_at_once(claim, hold)


class Asker:
    def __init__(self, *, limits_are_kept: bool = True) -> None:
        self.arbiter = Listener()
        self.directory = Directory(KeyRing([]))
        self.books = Books("here", self.directory, self.arbiter, limits_are_kept=limits_are_kept)

    def credit(self, granted: int, *, prepaid: bool = True) -> None:
        state = WorkspaceState(id="w", name="team", prepaid=prepaid, granted=granted)
        self.directory.take(Changes(version=self.directory.version + 1, workspaces=(state,)))

    async def ask(self, key: Key, at_ms: int = NOON_MS, quote: Quote = QUOTE) -> Claim:
        asked = Asked(
            request_id=f"r{len(self.arbiter.claims)}",
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
        await self.books.open(asked)
        return self.arbiter.claims[-1]


def limits_of(claim: Claim) -> dict[str, int]:
    return {draw.account: draw.limit for draw in claim.draws}


async def test_the_account_is_that_of_the_period() -> None:
    asker = Asker()
    asker.credit(0, prepaid=False)
    today, later = await asker.ask(KEY), await asker.ask(KEY, NOON_MS + DAY_MS // 2 - 1)
    tomorrow = await asker.ask(KEY, NOON_MS + DAY_MS // 2)
    assert limits_of(today) == limits_of(later) == {"key:k:2024-10-04": 5}
    assert limits_of(tomorrow) == {"key:k:2024-10-05": 5}
    assert today.tallies == ("ws:w", "key:k:2024-W40", "key:k:2024-10", "key:k:total")


async def test_a_change_of_the_key_holds_from_the_next_request_on() -> None:
    asker = Asker()
    asker.credit(0, prepaid=False)
    await asker.ask(KEY)
    assert limits_of(await asker.ask(structs.replace(KEY, budget_nano=9))) == {"key:k:2024-10-04": 9}
    assert limits_of(await asker.ask(structs.replace(KEY, budget_period="total"))) == {"key:k:total": 5}
    free = await asker.ask(structs.replace(KEY, budget_nano=None))
    assert not free.is_limited
    assert "key:k:2024-10-04" in free.tallies


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
    asker = Asker(limits_are_kept=False)
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
