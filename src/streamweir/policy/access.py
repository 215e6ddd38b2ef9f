"""Authorization of callers: keys by the digest of their secret.

A secret is only used in `digest_of`; its SHA-256 and its last four characters are kept. It is looked up by the whole
digest and then compared in constant time, so neither a prefix nor the duration of a look-up reveals anything
(docs/spec/security.md S2, S8). No message contains any part of what was sent. This module does not depend on the source
of the keys.
"""

import hashlib
import hmac
from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import structs

from streamweir.core.errors import CallerError
from streamweir.policy.limits.key_limits import KeyLimits, has_limits

DEFAULT_WORKSPACE = "default"
APPOINTED = frozenset({"admin", "metrics"})
"""Scopes that only the operator grants. `metrics` shows money and names of all workspaces."""


class Key(KeyLimits, frozen=True, kw_only=True):
    name: str
    digest: bytes
    last4: str = ""
    dialect: str | None = None
    models: tuple[str, ...] | None = None
    """Ids, or prefixes of ids with a `*` after them. None: every model."""
    scopes: Collection[str] = ("chat", "models")
    expires_at: float | None = None
    """Unix seconds: from then on it is not valid."""
    budget_nano: int | None = None
    """The maximum it may spend in a period, in nano-dollars. None: no limit."""
    budget_period: str = "total"
    """`day`, `week`, `month` or `total`."""
    id: str = ""
    """Its id in the database, which does not change with the name or the secret."""
    workspace_id: str = DEFAULT_WORKSPACE
    log_content: bool = False
    show_routing: bool = False
    """Headers of its answers tell the target, the number of attempts and the cost."""
    show_cost: bool = False
    """The usage in its answers has the price of the request, as `cost`."""
    resumable: bool = False
    """Its callers can come back to streams, unless a request says otherwise."""
    price_group: str | None = None
    """By what its requests are sold. None: that of its workspace, else the default."""
    revoked_at: float | None = None
    is_suspended: bool = False
    """The person whose key it is is disabled."""
    has_limits: bool = False
    """Whether it has one of the limits in `KeyLimits`. Derived from them."""

    def __post_init__(self) -> None:
        structs.force_setattr(self, "has_limits", has_limits(self))

    def may_use(self, model_id: str) -> bool:
        if self.models is None:
            return True
        return any(
            model_id.startswith(pattern[:-1]) if pattern.endswith("*") else model_id == pattern
            for pattern in self.models
        )

    def __repr__(self) -> str:
        return f"Key(name={self.name!r}, last4={self.last4!r})"


def digest_of(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


class KeyRing:
    def __init__(self, keys: Iterable[Key]) -> None:
        self._keys: dict[bytes, Key] = {}
        for key in keys:
            if key.digest in self._keys:
                raise ValueError(f"the keys {self._keys[key.digest].name!r} and {key.name!r} have the same secret")
            self._keys[key.digest] = key

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys.values())

    def find(self, secret: str) -> Key | None:
        return self.of_digest(digest_of(secret))

    def of_digest(self, digest: bytes) -> Key | None:
        key = self._keys.get(digest)
        return key if key is not None and hmac.compare_digest(key.digest, digest) else None


def read_secret(headers: Mapping[str, str]) -> str | None:
    """The key that was sent: `Authorization: Bearer`, else `x-api-key`, else `api-key` (names in lower case)."""
    scheme, _, secret = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() == "bearer" and secret.strip():
        return secret.strip()
    return headers.get("x-api-key", "").strip() or headers.get("api-key", "").strip() or None


def fault_of_scopes(scopes: Collection[str]) -> str | None:
    """Why these do not go together. None: they do."""
    if "metrics" in scopes and len(set(scopes)) > 1:
        return "the scope metrics goes with no other: such a key reads /metrics and nothing else"
    return None


def check(key: Key, now: float) -> CallerError | None:
    """Why a key with the right secret may not be used. `now` in Unix seconds."""
    if key.revoked_at is not None:  # times are not compared: the clocks of nodes differ
        return CallerError("key_revoked", "The API key has been revoked.")
    if key.is_suspended:
        message = "The API key is suspended: its owner's account is disabled. Ask an admin of the workspace."
        return CallerError("key_revoked", message)
    if key.expires_at is not None and now >= key.expires_at:
        return CallerError("expired_api_key", "The API key has expired.")
    return None
