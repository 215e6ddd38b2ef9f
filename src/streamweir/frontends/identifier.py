"""Ids made from random bytes that the caller of the function supplies: the same bytes always give the same id."""

import hashlib

LOWER = "abcdefghijklmnopqrstuvwxyz0123456789"
ALNUM = "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + LOWER


def digest_text(entropy: bytes, alphabet: str, length: int) -> str:
    number = int.from_bytes(hashlib.sha256(entropy).digest(), "big")
    letters = []
    for _ in range(length):
        number, digit = divmod(number, len(alphabet))
        letters.append(alphabet[digit])
    return "".join(letters)
