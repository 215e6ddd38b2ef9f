"""The secrets that the gateway issues: recognisable, with a checksum, and never equal."""

import re
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.policy import secret as form
from streamweir.policy.secret import (
    csrf_of,
    is_well_formed,
    last4,
    make_admin_secret,
    make_id,
    make_key,
    make_session_token,
)
from streamweir.server.telemetry.sanitize import clean

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
MAKERS = {
    form.KEY: make_key,
    form.ADMIN: make_admin_secret,
    form.SESSION: make_session_token,
}
RANDOM = bytes(range(1, 33))
random_bytes = st.binary(min_size=32, max_size=32)


def number_of(text: str) -> int:
    number = 0
    for each in text:
        number = number * 62 + ALPHABET.index(each)
    return number


@pytest.mark.parametrize(("beginning", "make"), MAKERS.items())
def test_the_form(beginning: str, make: Callable[[bytes], str]) -> None:
    made = make(RANDOM)
    assert re.fullmatch(re.escape(beginning) + "[0-9A-Za-z]{49}", made)
    body, checksum = made[:-6], made[-6:]
    assert number_of(body.removeprefix(beginning)) == int.from_bytes(RANDOM)
    assert number_of(checksum) == zlib.crc32(body.encode())
    assert last4(made) == made[-4:]


@given(random_bytes, random_bytes)
def test_each_is_its_own(one: bytes, other: bytes) -> None:
    assert (make_key(one) == make_key(other)) == (one == other)
    assert is_well_formed(make_key(one))


@given(random_bytes, st.integers(0, 54), st.sampled_from(ALPHABET))
def test_one_wrong_character_is_seen(chance: bytes, at: int, typed: str) -> None:
    good = make_key(chance)
    wrong = good[:at] + typed + good[at + 1 :]
    assert is_well_formed(wrong) == (wrong == good)


@given(random_bytes, st.integers(0, 53))
def test_two_swapped_characters_are_detected(chance: bytes, at: int) -> None:
    good = make_key(chance)
    wrong = good[:at] + good[at + 1] + good[at] + good[at + 2 :]
    assert is_well_formed(wrong) == (wrong == good)


@pytest.mark.parametrize("beginning", MAKERS)
def test_one_kind_is_not_another(beginning: str) -> None:
    for other, make in MAKERS.items():
        assert is_well_formed(make(RANDOM), beginning) == (other == beginning)


GOOD = make_key(RANDOM)


@pytest.mark.parametrize(
    "typed",
    [
        "",
        form.KEY,
        GOOD[:-1],
        GOOD + "0",
        GOOD + "\n",
        " " + GOOD,
        GOOD.upper(),
        GOOD.replace("sk-sw-", "sk-sw_"),
        GOOD[:-1] + "é",
        GOOD[:-1] + "٣",
        GOOD[:-1] + "\ud800",
        GOOD[:-1] + "\x00",
        "sk-sw-0123456789abcdef0123456789abcdef",
        "x" * 100_000,
    ],
)
def test_what_was_not_made_here(typed: str) -> None:
    assert not is_well_formed(typed)


@given(st.text())
def test_no_text_is_too_odd(typed: str) -> None:
    assert not is_well_formed(typed)


@pytest.mark.parametrize("count", [0, 31, 33])
def test_too_little_chance_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="32 random bytes"):
        make_key(bytes(count))


def test_an_id_is_no_secret_and_of_one_length() -> None:
    assert make_id("key", bytes(12)) == "key_" + "0" * 17
    assert re.fullmatch("ws_[0-9A-Za-z]{17}", make_id("ws", bytes([255] * 12)))
    with pytest.raises(ValueError, match="12 random bytes"):
        make_id("key", bytes(32))


@given(random_bytes)
def test_none_of_them_gets_into_a_log(chance: bytes) -> None:
    for make in MAKERS.values():
        made = make(chance)
        assert made[10:] not in clean(f"somebody sent {made} to us")


@given(random_bytes, random_bytes)
def test_a_session_has_one_token_against_other_sites_pages(one: bytes, other: bytes) -> None:
    token = make_session_token(one)
    assert is_well_formed(csrf_of(token), form.CSRF)
    assert csrf_of(token) == csrf_of(token)
    assert (csrf_of(token) == csrf_of(make_session_token(other))) == (one == other)
    assert token.removeprefix(form.SESSION)[:8] not in csrf_of(token)
    assert csrf_of(token)[10:] not in clean(f"somebody sent {csrf_of(token)} to us")
