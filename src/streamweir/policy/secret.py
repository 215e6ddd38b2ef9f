"""The form of the secrets that we hand out: who issued one, and whether it was copied whole.

    sk-sw-    a key            sw-session-  a cookie of the console
    sw-admin- the operator's   sw-csrf-     what goes with that cookie, and is made of it

After the beginning come 32 random bytes in base 62 and six characters of CRC-32 over all before
them, so that a scanner of leaked secrets knows one at sight and a mistyped one is told apart
without a look-up. The checksum proves nothing: whoever knows the form can write one. A caller is
answered the same whether the form or the secret was wrong. Random bytes are an argument.
"""

import hashlib
import hmac
import re
import zlib
from string import ascii_lowercase, ascii_uppercase, digits

KEY = "sk-sw-"
ADMIN = "sw-admin-"
SESSION = "sw-session-"
CSRF = "sw-csrf-"

RANDOM_BYTES = 32
ID_BYTES = 12

_ALPHABET = digits + ascii_uppercase + ascii_lowercase
_RANDOM_CHARACTERS = 43
"""62**43 is the first power beyond 2**256."""
_CHECKSUM_CHARACTERS = 6
_ID_CHARACTERS = 17
_TAIL = re.compile(rf"[0-9A-Za-z]{{{_RANDOM_CHARACTERS + _CHECKSUM_CHARACTERS}}}")


def make_key(random_bytes: bytes) -> str:
    return _make(KEY, random_bytes)


def make_admin_secret(random_bytes: bytes) -> str:
    return _make(ADMIN, random_bytes)


def make_session_token(random_bytes: bytes) -> str:
    return _make(SESSION, random_bytes)


def csrf_of(session_token: str) -> str:
    """What a page must send along with what it changes: who has it cannot tell the cookie from it, nor make another."""
    return _make(CSRF, hmac.new(session_token.encode(), b"csrf", hashlib.sha256).digest())


def make_id(kind: str, random_bytes: bytes) -> str:
    """No secret: what a row is known by, `key_...`, from `ID_BYTES` bytes."""
    if len(random_bytes) != ID_BYTES:
        raise ValueError(f"an id is made of {ID_BYTES} random bytes, not of {len(random_bytes)}")
    return f"{kind}_{_base62(int.from_bytes(random_bytes), _ID_CHARACTERS)}"


def is_well_formed(secret: str, prefix: str = KEY) -> bool:
    """Could have been made here: with that beginning, of the right length, and with its own checksum."""
    if not secret.startswith(prefix) or not _TAIL.fullmatch(secret, len(prefix)):
        return False
    body, checksum = secret[:-_CHECKSUM_CHARACTERS], secret[-_CHECKSUM_CHARACTERS:]
    return _checksum(body) == checksum


def last4(secret: str) -> str:
    """What may be shown of it."""
    return secret[-4:]


def _make(prefix: str, random_bytes: bytes) -> str:
    if len(random_bytes) != RANDOM_BYTES:
        raise ValueError(f"a secret is made of {RANDOM_BYTES} random bytes, not of {len(random_bytes)}")
    body = prefix + _base62(int.from_bytes(random_bytes), _RANDOM_CHARACTERS)
    return body + _checksum(body)


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode("ascii")), _CHECKSUM_CHARACTERS)


def _base62(number: int, width: int) -> str:
    characters = []
    for _ in range(width):
        number, at = divmod(number, len(_ALPHABET))
        characters.append(_ALPHABET[at])
    return "".join(reversed(characters))
