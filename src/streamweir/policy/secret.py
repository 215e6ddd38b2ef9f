"""The format of the secrets that the gateway issues: their type, and a checksum.

    sk-sw-    a key            sw-session-  a cookie of the console
    sw-admin- the admin secret sw-csrf-     the CSRF token, which is derived from that cookie
                               sw-invite-   lets a person choose a password

After the prefix come 32 random bytes in base 62 and six characters of CRC-32 over everything before them, so that a
scanner for leaked secrets recognises one, and a mistyped one is detected without a look-up. The checksum is no proof:
anyone can compute it. A caller gets the same answer for a wrong format and for a wrong secret. Random bytes are an
argument.
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
INVITATION = "sw-invite-"

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


def make_invitation(random_bytes: bytes) -> str:
    return _make(INVITATION, random_bytes)


def csrf_of(session_token: str) -> str:
    """The token that a page must send with changes: neither the cookie nor another token can be derived from it."""
    return _make(CSRF, hmac.new(session_token.encode(), b"csrf", hashlib.sha256).digest())


def make_id(kind: str, random_bytes: bytes) -> str:
    """Not a secret: the id of a row, `key_...`, from `ID_BYTES` bytes."""
    if len(random_bytes) != ID_BYTES:
        raise ValueError(f"an id is made of {ID_BYTES} random bytes, not of {len(random_bytes)}")
    return f"{kind}_{_base62(int.from_bytes(random_bytes), _ID_CHARACTERS)}"


def is_well_formed(secret: str, prefix: str = KEY) -> bool:
    """Whether it could have been made here: it has that prefix, the right length, and a valid checksum."""
    if not secret.startswith(prefix) or not _TAIL.fullmatch(secret, len(prefix)):
        return False
    body, checksum = secret[:-_CHECKSUM_CHARACTERS], secret[-_CHECKSUM_CHARACTERS:]
    return _checksum(body) == checksum


def last4(secret: str) -> str:
    """The part that may be shown."""
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
