"""Hashing passwords: what is stored, how many at once, and the same work for a name that nobody has."""

import asyncio
from typing import Any

import argon2
import pytest

from streamweir.core.errors import GatewayFault
from streamweir.policy.password import MAX_LENGTH, MIN_LENGTH, fault_of_password
from streamweir.server.control.passwords import Cost, PasswordHashing
from support.api import CHEAP

PASSWORD = "correct horse battery"  # noqa: S105


async def test_a_hash_is_argon2id_with_the_costs_that_are_recommended() -> None:
    hashed = await PasswordHashing().hash(PASSWORD)
    assert hashed.startswith("$argon2id$v=19$m=65536,t=3,p=1$")
    assert PASSWORD not in hashed


async def test_only_the_password_matches() -> None:
    hashing = PasswordHashing(CHEAP)
    one, two = await hashing.hash(PASSWORD), await hashing.hash(PASSWORD)
    assert one != two, "each has a salt of its own"
    assert await hashing.matches(one, PASSWORD)
    for wrong in ("", PASSWORD[:-1], PASSWORD + " ", PASSWORD.upper(), one):
        assert not await hashing.matches(one, wrong)
    for stored in (None, "", "$argon2id$broken", "x" * 1000):
        assert not await hashing.matches(stored, PASSWORD)
        assert not await hashing.matches(stored, "")


async def test_a_hash_of_other_costs_matches_and_is_outdated() -> None:
    old, new = PasswordHashing(CHEAP), PasswordHashing(Cost(rounds=2, memory_kib=8))
    stored = await old.hash(PASSWORD)
    assert await new.matches(stored, PASSWORD)
    assert new.is_outdated(stored)
    assert not old.is_outdated(stored)


async def test_a_name_that_nobody_has_costs_as_much_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    hashing, verified = PasswordHashing(CHEAP), []
    stored = await hashing.hash(PASSWORD)
    verify = argon2.PasswordHasher.verify

    def noted(self: argon2.PasswordHasher, hash: str, password: str) -> Any:
        verified.append((argon2.extract_parameters(hash), password))
        return verify(self, hash, password)

    monkeypatch.setattr(argon2.PasswordHasher, "verify", noted)
    await hashing.matches(stored, "wrong")
    await hashing.matches(None, "wrong")
    assert len(verified) == 2
    assert verified[0] == verified[1]


async def test_few_are_hashed_at_once_and_few_wait() -> None:
    hashing = PasswordHashing(CHEAP, max_parallel=1, max_waiting=2)
    for _ in range(2):  # and the places are free again
        done = await asyncio.gather(*(hashing.hash(PASSWORD) for _ in range(5)), return_exceptions=True)
        assert [isinstance(each, str) for each in done] == [True, True, True, False, False]
        assert all(isinstance(each, GatewayFault) and each.code == "overloaded" for each in done[3:])


async def test_who_leaves_frees_its_place_when_the_hash_is_done() -> None:
    hashing = PasswordHashing(CHEAP, max_parallel=1, max_waiting=1)
    leaving = asyncio.ensure_future(hashing.hash(PASSWORD))
    waiting = asyncio.ensure_future(hashing.hash(PASSWORD))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert (await waiting).startswith("$argon2id$")
    assert (await hashing.hash(PASSWORD)).startswith("$argon2id$")


@pytest.mark.parametrize(
    ("password", "is_good"),
    [
        (PASSWORD, True),
        ("x" * (MIN_LENGTH - 1), False),
        ("abcdefghijk", False),
        ("abcdefghijkl", True),
        ("aaaabbbbccccdddd", False),
        ("\u00fc\u00e9\u4e2d\U0001f600 and more", True),
        ("abcdefgh" * (MAX_LENGTH // 8), True),
        ("abcdefgh" * (MAX_LENGTH // 8) + "i", False),
        ("ada.lovelace", False),
        ("Ada.Lovelace-1815!", False),
        ("my ada.lovelace", False),
    ],
)
def test_which_passwords_may_be_chosen(password: str, is_good: bool) -> None:
    fault = fault_of_password(password, "Ada.Lovelace")
    assert (fault is None) == is_good
    assert fault is None or password not in fault


def test_a_short_name_may_be_in_a_password() -> None:
    assert fault_of_password("canada is a country", "ada") is None
    assert fault_of_password("ada ada ada 1234!", "ada") is not None
