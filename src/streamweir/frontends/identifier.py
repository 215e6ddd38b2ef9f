"""Ids made from random bytes that the caller of the function supplies: the same bytes always give the same id."""

import hashlib

LOWER = "abcdefghijklmnopqrstuvwxyz0123456789"
ALNUM = "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + LOWER


MIN_UNIQUE_LENGTH = 16
"""Of the part behind the prefix, in an id that is taken for unique."""


def is_unique(id: str, prefix: str) -> bool:
    """Whether an upstream's id can be that of an answer: an id must find one request (docs/spec/quirks.md Q43)."""
    return id.startswith(prefix) and len(id) >= len(prefix) + MIN_UNIQUE_LENGTH


def digest_text(entropy: bytes, alphabet: str, length: int) -> str:
    number = int.from_bytes(hashlib.sha256(entropy).digest(), "big")
    letters = []
    for _ in range(length):
        number, digit = divmod(number, len(alphabet))
        letters.append(alphabet[digit])
    return "".join(letters)
