"""Keys: found by the whole secret, good until they expire, for the models that they name."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.policy.access import Key, KeyRing, check, digest_of, read_secret

SENT = "sk-sw-4f9a0c7be2d85163"


def key(secret: str = SENT, name: str = "ci", **more: object) -> Key:
    members = {"name": name, "digest": digest_of(secret), "last4": secret[-4:], **more}
    return Key(**members)  # type: ignore[arg-type]


def test_a_key_is_found_by_its_secret() -> None:
    other = key("sk-sw-another-9f8e7d6c", "other")
    ring = KeyRing([key(), other])
    assert len(ring) == 2
    assert ring.find(SENT) == key()
    assert ring.find("sk-sw-another-9f8e7d6c") is other


@given(st.text())
def test_nothing_else_finds_it(sent: str) -> None:
    assert KeyRing([key()]).find(sent) == (key() if sent == SENT else None)


@pytest.mark.parametrize(
    "sent",
    ["", SENT[:-1], SENT + " ", SENT[:20], SENT.upper(), SENT[-4:], digest_of(SENT).hex(), "\ud800", "é"],
)
def test_neither_a_part_nor_the_digest_finds_it(sent: str) -> None:
    assert KeyRing([key()]).find(sent) is None


def test_a_digest_is_the_whole_sha256() -> None:
    assert digest_of("abc") == hashlib.sha256(b"abc").digest()


def test_two_keys_with_one_secret_are_refused_without_showing_it() -> None:
    with pytest.raises(ValueError, match="'a' and 'b'") as refused:
        KeyRing([key(name="a"), key(name="b")])
    assert SENT not in str(refused.value)


def test_printing_shows_the_last_four_alone() -> None:
    assert repr(key()) == "Key(name='ci', last4='5163')"


@pytest.mark.parametrize(
    ("headers", "secret"),
    [
        ({}, None),
        ({"authorization": "Bearer abc"}, "abc"),
        ({"authorization": "bearer  abc "}, "abc"),
        ({"authorization": "BEARER abc"}, "abc"),
        ({"authorization": "Bearer"}, None),
        ({"authorization": "Bearer "}, None),
        ({"authorization": "Basic abc"}, None),
        ({"authorization": "abc"}, None),
        ({"x-api-key": "abc"}, "abc"),
        ({"api-key": "abc"}, "abc"),
        ({"x-api-key": "", "api-key": "abc"}, "abc"),
        ({"x-api-key": " abc "}, "abc"),
        ({"authorization": "Bearer abc", "x-api-key": "def"}, "abc"),
        ({"authorization": "Basic abc", "x-api-key": "def"}, "def"),
        # Sent twice: no key has this form, so it opens nothing.
        ({"authorization": "Bearer abc, Bearer def"}, "abc, Bearer def"),
    ],
)
def test_where_a_secret_is_sent(headers: dict[str, str], secret: str | None) -> None:
    assert read_secret(headers) == secret


@pytest.mark.parametrize(
    ("expires_at", "now", "code"),
    [(None, 1e12, None), (100.0, 99.9, None), (100.0, 100.0, "expired_api_key"), (100.0, 101.0, "expired_api_key")],
)
def test_expiry(expires_at: float | None, now: float, code: str | None) -> None:
    error = check(key(expires_at=expires_at), now)
    assert (error.code if error is not None else None) == code
    assert error is None or SENT[-4:] not in error.message


@pytest.mark.parametrize(
    ("models", "asked", "may"),
    [
        (None, "anything", True),
        ((), "anything", False),
        (("gpt-4o",), "gpt-4o", True),
        (("gpt-4o",), "gpt-4o-mini", False),
        (("gpt-4o",), "GPT-4o", False),
        (("gpt-*",), "gpt-4o", True),
        (("gpt-*",), "gpt-", True),
        (("gpt-*",), "xgpt-4o", False),
        (("local/*", "sim/hello"), "local/a/b", True),
        (("local/*", "sim/hello"), "sim/hello", True),
        (("local/*", "sim/hello"), "sim/echo", False),
        (("*",), "anything", True),
        (("a?c", "[a]"), "abc", False),
    ],
)
def test_models(models: tuple[str, ...] | None, asked: str, may: bool) -> None:
    assert key(models=models).may_use(asked) is may
