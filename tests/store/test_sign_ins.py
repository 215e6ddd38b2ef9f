"""Sign-ins that were begun: taken once, by the browser that began them, in time, and not without bound."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from streamweir.policy.login_limit import PER_ADDRESS, WINDOW_MS
from streamweir.store.db import tables
from streamweir.store.db.base import Store
from streamweir.store.keys import sign_ins
from streamweir.store.keys.sign_ins import LIFETIME_MS, SignIn, begin_sign_in, forget_attempt, take_sign_in
from support.key_store import NOW, dump
from support.stores import store_on

BEGUN = SignIn(nonce="canary-nonce", verifier="canary-verifier", issuer="https://idp.example")


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with store_on(request.param, tmp_path) as opened:
        yield opened


async def begin(
    store: Store, cookie: str, *, state: str = "state", address: str = "192.0.2.1", at_ms: int = NOW
) -> int:
    return await store.write(lambda conn: begin_sign_in(conn, BEGUN, cookie, state, address, at_ms))


async def take(store: Store, cookie: str, state: str = "state", at_ms: int = NOW) -> SignIn | None:
    return await store.write(lambda conn: take_sign_in(conn, cookie, state, at_ms))


async def test_it_is_taken_once_with_cookie_and_state(store: Store) -> None:
    assert await begin(store, "cookie-secret", state="state-secret") == 0
    assert await begin(store, "other", state="other-state") == 0
    stored = repr(await dump(store))
    assert "cookie-secret" not in stored
    assert "state-secret" not in stored
    for cookie, state in (("cookie-secret", ""), ("cookie-secret", "other-state"), ("", "state-secret"), ("x", "x")):
        assert await take(store, cookie, state) is None
    assert await take(store, "cookie-secret", "state-secret") == BEGUN
    assert await take(store, "cookie-secret", "state-secret") is None
    assert "canary" not in repr(BEGUN)


async def test_of_several_answers_at_once_one_counts(store: Store) -> None:
    await begin(store, "cookie")
    found = await asyncio.gather(*(take(store, "cookie") for _ in range(5)))
    assert sorted(each is not None for each in found) == [False] * 4 + [True]


async def test_it_expires_and_is_cleared_away(store: Store) -> None:
    await begin(store, "one")
    assert await take(store, "one", at_ms=NOW + LIFETIME_MS) is None
    await begin(store, "two", at_ms=NOW + LIFETIME_MS)
    count = select(func.count()).select_from(tables.sign_ins)
    assert await store.read(lambda conn: conn.execute(count).scalar_one()) == 1
    assert await take(store, "two", at_ms=NOW + 2 * LIFETIME_MS - 1) == BEGUN


async def test_an_address_begins_so_many_and_those_that_end_in_a_login_do_not_count(store: Store) -> None:
    for number in range(PER_ADDRESS):
        assert await begin(store, f"cookie {number}", address="2001:db8::1") == 0
    assert await begin(store, "more", address="2001:db8::2") == WINDOW_MS, "it is the same network"
    assert await begin(store, "more", address="192.0.2.9") == 0
    await store.write(lambda conn: forget_attempt(conn, "cookie 7"))
    assert await begin(store, "again", address="2001:db8::3") == 0
    assert await begin(store, "once more", address="2001:db8::3") == WINDOW_MS
    assert await begin(store, "later", address="2001:db8::3", at_ms=NOW + WINDOW_MS) == 0


async def test_of_too_many_the_oldest_go(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_ins, "MAX_SIGN_INS", 3)
    for number in range(5):
        assert await begin(store, f"cookie {number}", address=f"192.0.2.{number}", at_ms=NOW + number) == 0
    found = [await take(store, f"cookie {number}", at_ms=NOW + 5) for number in range(5)]
    assert [each is not None for each in found] == [False, False, True, True, True]
