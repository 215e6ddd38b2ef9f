"""A credential that expires: who waits, who does not, and what a token service that fails or hangs changes."""

import asyncio
from random import Random

import pytest

from streamweir.core.errors import GatewayFault, StreamweirError, UpstreamError
from streamweir.upstream.credential import Lease, RefreshedCredential, RefreshFailure, refused_by
from support.deadlines import WAIT_TIMEOUT_S
from support.soak import part_of
from support.upstream_server import turns


class TokenService:
    """Fetches wait here until the test answers them. The clock is the test's too."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.fetches: list[asyncio.Future[Lease[str]]] = []
        self.failures: list[RefreshFailure] = []

    def credential(self, timeout_s: float = WAIT_TIMEOUT_S) -> RefreshedCredential[str]:
        return RefreshedCredential(
            "The token service",
            self._fetch,
            on_failure=self.failures.append,
            clock=lambda: self.now,
            timeout_s=timeout_s,
        )

    async def _fetch(self) -> Lease[str]:
        self.fetches.append(asyncio.get_running_loop().create_future())
        return await self.fetches[-1]

    async def give(self, value: str, lives_s: float | None = 100.0) -> None:
        await turns()
        self.fetches[-1].set_result(Lease(value=value, lives_s=lives_s))
        await turns()

    async def fail(self, error: Exception) -> None:
        await turns()
        self.fetches[-1].set_exception(error)
        await turns()


async def first(service: TokenService, value: str = "one", lives_s: float | None = 100.0) -> RefreshedCredential[str]:
    credential = service.credential()
    asked = asyncio.ensure_future(credential.get())
    await service.give(value, lives_s)
    assert await asked == value
    return credential


async def code_of(credential: RefreshedCredential[str]) -> str:
    with pytest.raises(StreamweirError) as caught:
        await credential.get()
    return caught.value.code


async def test_many_requests_share_one_refresh() -> None:
    service = TokenService()
    credential = service.credential()
    asked = [asyncio.ensure_future(credential.get()) for _ in range(50)]
    await turns()
    asked[0].cancel()  # the others still wait
    await service.give("one")
    assert await asyncio.gather(*asked[1:]) == ["one"] * 49
    assert len(service.fetches) == 1


async def test_it_is_refreshed_ahead_of_time_and_nobody_waits() -> None:
    service = TokenService()
    credential = await first(service)
    service.now += 79
    assert await credential.get() == "one"
    assert len(service.fetches) == 1
    service.now += 2  # 81 of 100 seconds
    assert [await credential.get() for _ in range(5)] == ["one"] * 5
    await turns()
    assert len(service.fetches) == 2
    service.now += 10  # the refresh hangs, the value is valid
    assert await credential.get() == "one"
    await service.give("two")
    assert await credential.get() == "two"
    assert service.failures == []


async def test_failures_are_repeated_after_a_growing_pause_and_requests_do_not_notice() -> None:
    service = TokenService()
    credential = await first(service, lives_s=2000.0)
    service.now += 1601
    pauses = []
    for count in range(8):
        assert await credential.get() == "one"
        await turns()
        assert len(service.fetches) == 2 + count
        await service.fail(UpstreamError("upstream_connect_failed", "no"))
        pauses.append(service.failures[-1].pause_s)
        assert service.failures[-1].is_valid
        service.now += pauses[-1] - 0.5
        assert await credential.get() == "one"
        await turns()
        assert len(service.fetches) == 2 + count  # within the pause
        service.now += 0.5
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    await credential.get()
    await service.give("two")
    assert await credential.get() == "two"


async def test_without_a_valid_value_requests_fail_with_the_refresh_and_at_once_within_its_pause() -> None:
    service = TokenService()
    credential = await first(service)
    service.now += 95.5  # the last five seconds are not used
    asked = [asyncio.ensure_future(credential.get()) for _ in range(3)]
    await service.fail(UpstreamError("upstream_dns_failed", "The provider's name could not be looked up."))
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [getattr(each, "code", "") for each in answers] == ["upstream_connect_failed"] * 3
    assert len({id(each) for each in answers}) == 3  # each request completes its own
    assert "The token service" in str(answers[0])
    assert "looked up" in str(answers[0])
    assert await code_of(credential) == "upstream_connect_failed"
    assert len(service.fetches) == 2
    for _ in range(8):  # the pause stays short: the service may be back
        service.now += 5
        asking = asyncio.ensure_future(code_of(credential))
        await service.fail(UpstreamError("upstream_connect_failed", "no"))
        assert await asking == "upstream_connect_failed"
    service.now += 5
    asked = [asyncio.ensure_future(credential.get())]
    await service.give("two")
    assert await asked[0] == "two"


@pytest.mark.parametrize(
    ("error", "code", "is_of_account"),
    [
        (refused_by("The token service refused: wrong secret."), "upstream_auth_failed", True),
        (UpstreamError("upstream_timeout", "late"), "upstream_timeout", False),
        (UpstreamError("upstream_tls_failed", "no"), "upstream_connect_failed", False),
        (UpstreamError("upstream_server_error", "no"), "upstream_connect_failed", False),
        (GatewayFault("overloaded", "no file left"), "overloaded", False),
    ],
)
async def test_what_a_failed_refresh_is_for_a_request(error: StreamweirError, code: str, is_of_account: bool) -> None:
    service = TokenService()
    credential = service.credential()
    asked = asyncio.ensure_future(credential.get())
    await service.fail(error)
    with pytest.raises(StreamweirError) as caught:
        await asked
    assert (caught.value.code, caught.value.is_of_account) == (code, is_of_account)
    assert [failure.is_valid for failure in service.failures] == [False]


async def test_a_refresh_that_hangs_ends() -> None:
    service = TokenService()
    credential = service.credential(timeout_s=0.01)
    assert await code_of(credential) == "upstream_timeout"
    assert service.fetches[0].cancelled()


async def test_a_bug_in_a_refresh_is_reported_and_not_repeated_at_once() -> None:
    mishaps: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: mishaps.append(context["exception"]))
    service = TokenService()
    credential = service.credential()
    asked = asyncio.ensure_future(code_of(credential))
    await service.fail(ZeroDivisionError())
    assert await asked == "upstream_connect_failed"
    assert await code_of(credential) == "upstream_connect_failed"
    assert len(service.fetches) == 1
    assert [type(each) for each in mishaps] == [ZeroDivisionError]


async def test_a_value_that_has_expired_is_none() -> None:
    service = TokenService()
    credential = service.credential()
    asked = asyncio.ensure_future(code_of(credential))
    await service.give("old", 0.0)
    assert await asked == "upstream_auth_failed"
    assert "clock" in service.failures[0].error.message


async def test_a_value_that_does_not_expire_is_fetched_once() -> None:
    service = TokenService()
    credential = await first(service, lives_s=None)
    service.now += 1e9
    assert await credential.get() == "one"
    assert len(service.fetches) == 1


async def test_a_refused_value_is_replaced_while_others_use_it() -> None:
    service = TokenService()
    credential = await first(service, lives_s=3600.0)
    service.now += 31
    refused = [asyncio.ensure_future(credential.refused()) for _ in range(9)]
    await turns()
    assert await credential.get() == "one"
    await service.give("two", 3600.0)
    assert await asyncio.gather(*refused) == [True] * 9
    assert len(service.fetches) == 2
    assert await credential.refused()  # it was sent with the first value
    service.now += 6
    assert not await credential.refused()  # the new one is refused, too
    assert len(service.fetches) == 2


@pytest.mark.parametrize("lives_s", [3600.0, None])
async def test_the_same_value_again_is_no_other(lives_s: float | None) -> None:
    service = TokenService()
    credential = await first(service, lives_s=lives_s)
    service.now += 31
    refused = asyncio.ensure_future(credential.refused())
    await service.give("one", lives_s)
    assert not await refused


async def test_a_refused_value_that_cannot_be_replaced() -> None:
    service = TokenService()
    credential = await first(service, lives_s=3600.0)
    service.now += 31
    refused = asyncio.ensure_future(credential.refused())
    await service.fail(UpstreamError("upstream_timeout", "late"))
    assert not await refused
    assert not await credential.refused()  # within the pause
    assert len(service.fetches) == 2
    assert await credential.get() == "one"


async def test_closing_ends_a_refresh_that_nobody_waits_for() -> None:
    service = TokenService()
    credential = await first(service)
    service.now += 81
    await credential.get()
    await turns()
    await credential.close()
    assert service.fetches[1].cancelled()
    service.now += 100
    asked = asyncio.ensure_future(credential.get())  # a request that began before
    await turns()
    await credential.close()
    await service.give("two")
    assert await asked == "two"


async def test_nothing_shows_the_value() -> None:
    service = TokenService()
    credential = await first(service, "geheim")
    assert "geheim" not in repr(Lease(value="geheim", lives_s=1.0)) + repr(credential) + repr(vars(credential))


@pytest.mark.parametrize("seed", part_of(range(200), 20))
async def test_any_order_of_requests_refreshes_and_time(seed: int) -> None:
    """Never two refreshes at once, never an expired value, and no request with a valid value waits."""
    chance, service = Random(seed), TokenService()
    credential = service.credential()
    expires: dict[str, float] = {}
    best, waiting = "", list[asyncio.Task[str]]()
    for step in range(80):
        choice = chance.random()
        if choice < 0.5:
            task = asyncio.ensure_future(credential.get())
            await turns()
            if best and service.now < expires[best] - 5.0:
                assert task.done()
            if task.done() and task.exception() is None:
                assert service.now < expires[task.result()]
            else:
                waiting.append(task)
        elif choice < 0.6:
            asyncio.ensure_future(credential.refused()).add_done_callback(lambda done: done.result())
        elif choice < 0.8:
            service.now += chance.choice([0.1, 1.0, 7.0, 60.0])
        elif service.fetches and not service.fetches[-1].done():
            if chance.random() < 0.5:
                best = f"value {step}"
                lives_s = chance.choice([5.0, 30.0, 300.0])
                expires[best] = service.now + lives_s
                await service.give(best, lives_s)
            else:
                await service.fail(chance.choice([UpstreamError("upstream_timeout", "x"), refused_by("y")]))
        await turns()
        assert sum(not fetch.done() for fetch in service.fetches) <= 1
    if service.fetches and not service.fetches[-1].done():
        await service.fail(UpstreamError("upstream_timeout", "x"))
    for result in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(result, str | UpstreamError)
    await credential.close()
