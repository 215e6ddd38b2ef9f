"""What a request needs of the limits of its key, and what is said to that.

The words of `policy.limits`, which decides in one process, and of `store.limits.shared`, which asks Valkey:
both say the same of the same. Holds no state.
"""

from msgspec import Struct, structs

from streamweir.policy.key_limits import KeyLimits, has_limits, limits_of

UNKNOWN = "budget_exceeded"
"""What an extension gets whose reservation is not known: nothing is held for it, so nothing more may be."""


class BudgetCharge(Struct, frozen=True, gc=False):
    """An account that a request takes money from, the most that it may have used, and the error beyond that."""

    account: str
    limit: int
    code: str
    """`budget_exceeded` or `insufficient_quota`."""


class LimitRequest(KeyLimits, frozen=True, kw_only=True):
    """What a request needs. A limit that is None does not hold."""

    request_id: str
    key_id: str
    tokens: int = 0
    """Estimated. No more than `tpm` is claimed, for a large request could never pass."""
    amount: int = 0
    """Nano-dollars, of every draw."""
    charges: tuple[BudgetCharge, ...] = ()
    other_accounts: tuple[str, ...] = ()
    """Other accounts that its money counts in, where they are known: it has no limit there now, others may later."""

    @property
    def is_limited(self) -> bool:
        return bool(self.charges) or has_limits(self)

    @property
    def needed_tokens(self) -> int:
        tokens = self.tokens if self.tpm is None or self.tokens < self.tpm else self.tpm
        return tokens if tokens > 1 else 1

    def divided_by(self, nodes: int) -> "LimitRequest":
        """The share of one of several nodes that cannot ask each other. Without its draws: money cannot be divided."""
        shares = {name: share_of(limit, nodes) for name, limit in limits_of(self).items()}
        return structs.replace(self, **shares, amount=0, charges=(), other_accounts=())


class Window(Struct, frozen=True, gc=False):
    limit: int
    remaining: int
    reset_s: float
    """Until all of the limit is there again."""


class Decision(Struct, frozen=True, kw_only=True):
    refusal: str | None = None
    """The error's code."""
    limited_by: str | None = None
    """Of what there was too little: `requests`, `tokens`, `streams`, or the account."""
    retry_after_s: float = 0.0
    """Until the same claim will be let in, if nobody else asks; 0 where this one was, or no time helps."""
    requests: Window | None = None
    tokens: Window | None = None
    missing: tuple[str, ...] = ()
    """Accounts that are not known here: nothing was decided or reserved. To be seeded, then asked again."""

    @property
    def is_allowed(self) -> bool:
        return self.refusal is None and not self.missing


def share_of(limit: int | None, nodes: int) -> int | None:
    return None if limit is None else max(1, limit // max(1, nodes))


def headers_of(decision: Decision) -> tuple[tuple[str, str], ...]:
    """What the caller is told of the limits of its key."""
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
