"""How an end user, whom a caller names, is recorded and counted: as it was sent, as a digest, or not at all.

Accounts and sums of an end user are found by its digest, which is the same for the text and for what the rule `hash`
makes of it: a change of the rule, or erased texts, do not begin new accounts. The digest hides a text that nobody can
guess; that of a mail address can be found by trying. Pure.
"""

from hashlib import sha256
from re import compile as compile_pattern
from typing import Literal

EndUserRule = Literal["plain", "hash", "none"]

PREFIX = "sha256:"
"""Before the digest, where it is recorded instead of the text."""
ANONYMOUS = "-"
"""The digest of a request without an end user."""
_DIGITS = 32
_HASHED = compile_pattern(rf"{PREFIX}[0-9a-f]{{{_DIGITS}}}")


def hashed(end_user: str) -> str:
    """As it is recorded by the rule `hash`. No change if it is such a text already."""
    return end_user if _HASHED.fullmatch(end_user) else PREFIX + _digest(end_user)


def hash_of_sent(text: str) -> str:
    """Of a text that a caller sent. One that looks like a digest is not taken for it: else an end user who may choose
    its name could spend the budget of another."""
    return PREFIX + _digest(text)


def looks_hashed(text: str) -> bool:
    return _HASHED.fullmatch(text) is not None


def recorded_user(end_user: str | None, rule: EndUserRule) -> str | None:
    """What to look for: as it is recorded by the rule."""
    return hashed(end_user) if end_user and rule == "hash" else end_user


def digest_of_user(end_user: str | None) -> str:
    """Names an end user in accounts and sums."""
    return hashed(end_user).removeprefix(PREFIX) if end_user else ANONYMOUS


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
