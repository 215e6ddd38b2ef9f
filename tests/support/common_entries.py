"""Journal entries with the usual members: a request that is held, and its settlement."""

from typing import Any

from streamweir.store.db.request_log import Row
from streamweir.store.journal.entries import Hold, Settle
from support.key_store import NOW

_COMMON: dict[str, Any] = {
    "instance": "here",
    "at_ms": NOW,
    "workspace_id": "default",
    "key_id": "key_1",
    "key_name": "ci",
    "dialect": "openai",
    "model": "m",
    "stream": True,
}


def hold(request_id: str, amount: int, **more: Any) -> Hold:
    members = {**_COMMON, "prices": "{}", "prompt_tokens": 1, **more}
    return Hold(request_id=request_id, amount=amount, **members)


def settle(
    request_id: str, cost: int | None, account: str | None = None, cached_tokens: int = 0, **more: Any
) -> Settle:
    """With `price` among the members it is sold for that, else at cost."""
    members = {**_COMMON, "status": 200, "verdict": "completed", "duration_ms": 1, "target": "sim/m", **more}
    row = Row(request_id=request_id, cost=cost, **members)
    return Settle(row=row, account=account, cached_tokens=cached_tokens, has_price="price" in more)
