"""A limit request, which says what a request needs from the limits of its key, and the decision about it.

These types are shared by `policy.limits.local`, which decides in one process, and `store.limits.shared`, which uses
Valkey. Both give the same decision for the same request. No state is kept here.
"""

from msgspec import Struct, structs

from streamweir.policy.limits.key_limits import KeyLimits, has_limits, limits_of

UNKNOWN = "budget_exceeded"
"""The code for an extension of an unknown reservation."""


class BudgetCharge(Struct, frozen=True, gc=False):
    """An account that a request is charged to, its limit, and the error's code beyond that."""

    account: str
    limit: int
    code: str
    """`budget_exceeded` or `insufficient_quota`."""


class LimitRequest(KeyLimits, frozen=True, kw_only=True):
    """What a request needs. None: no limit."""

    request_id: str
    key_id: str
    tokens: int = 0
    """Estimated. At most `tpm` is counted, because a larger request could never be admitted."""
    amount: int = 0
    """Nano-dollars, for each charge."""
    planned: int = 0
    """What it may need beyond its amount: counted, so that no more requests begin than can be paid, but not held."""
    takes_rest: bool = False
    """It is reserved if its amount fits, whatever other requests plan."""
    charges: tuple[BudgetCharge, ...] = ()
    other_accounts: tuple[str, ...] = ()
    """Other accounts that count its cost, if they are known. They have no limit now, but may get one."""

    @property
    def is_limited(self) -> bool:
        return bool(self.charges) or has_limits(self)

    @property
    def needed_tokens(self) -> int:
        tokens = self.tokens if self.tpm is None or self.tokens < self.tpm else self.tpm
        return tokens if tokens > 1 else 1

    def divided_by(self, nodes: int) -> "LimitRequest":
        """The share of one of several nodes that do not share state. Money is not divided."""
        shares = {name: share_of(limit, nodes) for name, limit in limits_of(self).items()}
        return structs.replace(self, **shares)


class Window(Struct, frozen=True, gc=False):
    limit: int
    remaining: int
    reset_s: float
    """The time until the whole limit is available."""


class Decision(Struct, frozen=True, kw_only=True):
    refusal: str | None = None
    """The error's code."""
    limited_by: str | None = None
    """The exceeded limit: `requests`, `tokens`, `streams`, or the account."""
    retry_after_s: float = 0.0
    """The time until the same request would be admitted alone; 0: it was admitted, or waiting does not help."""
    requests: Window | None = None
    tokens: Window | None = None
    planned: int = 0
    """Of a request that was admitted: the part of its plan that is counted."""
    missing: tuple[str, ...] = ()
    """Unknown accounts: nothing was decided or reserved. They must be seeded before the next attempt."""

    @property
    def is_allowed(self) -> bool:
        return self.refusal is None and not self.missing


def share_of(limit: int | None, nodes: int) -> int | None:
    return None if limit is None else max(1, limit // max(1, nodes))


def headers_of(decision: Decision) -> tuple[tuple[str, str], ...]:
    """The response headers about the limits of the key."""
    requests, tokens = decision.requests, decision.tokens
    headers: tuple[tuple[str, str], ...] = ()
    if requests is not None:
        headers = (
            ("x-ratelimit-limit-requests", str(requests.limit)),
            ("x-ratelimit-remaining-requests", str(requests.remaining)),
            ("x-ratelimit-reset-requests", f"{requests.reset_s:.3f}s"),
        )
    if tokens is not None:
        headers += (
            ("x-ratelimit-limit-tokens", str(tokens.limit)),
            ("x-ratelimit-remaining-tokens", str(tokens.remaining)),
            ("x-ratelimit-reset-tokens", f"{tokens.reset_s:.3f}s"),
        )
    return headers
