"""A request with another output limit than the caller's, for the provider.

The caller's own body is not changed. A thinking budget is part of the limit, so it is lowered with it, in each of the
members that can contain it.
"""

from typing import Any

from msgspec import structs

from streamweir.core.request import ChatRequest

_LIMIT_MEMBERS = ("max_completion_tokens", "max_tokens")
_BUDGET_MEMBERS = (("thinking", "budget_tokens"), ("reasoning", "max_tokens"))
_MIN_THINKING_BUDGET = 1024
"""Providers refuse a smaller budget."""


def with_limit(request: ChatRequest, limit: int) -> ChatRequest:
    """`limit` tokens for each choice. If the caller set no limit, the provider's name for it is used."""
    reasoning, native = request.reasoning, request.native
    if reasoning is not None and (reasoning.max_tokens or 0) >= limit > _MIN_THINKING_BUDGET:
        reasoning = structs.replace(reasoning, max_tokens=_budget_within(limit))
    if native is not None:
        native = structs.replace(native, body=limited(native.body, limit))
    body = limited(request.body, limit)
    return structs.replace(request, body=body, native=native, max_output_tokens=limit, reasoning=reasoning)


def limited(sent: dict[str, Any], limit: int) -> dict[str, Any]:
    """A body with this limit, under the names that it has for it, and a thinking budget within it."""
    body: dict[str, Any] = {**sent}
    for name in _LIMIT_MEMBERS:
        if name in body and body[name] is not None:
            body[name] = limit
    for name, member in _BUDGET_MEMBERS:
        if name not in body:
            continue
        thinking = body[name]
        if isinstance(thinking, dict) and isinstance(budget := thinking.get(member), int) and budget >= limit:
            if limit > _MIN_THINKING_BUDGET:
                body[name] = {**thinking, member: _budget_within(limit)}
            else:
                del body[name]
    return body


def _budget_within(limit: int) -> int:
    return max(_MIN_THINKING_BUDGET, limit * 4 // 5)


def thinking_budget(request: ChatRequest) -> int:
    """The thinking budget that the caller requested; 0 if there is none."""
    largest = 0
    for name, member in _BUDGET_MEMBERS:
        if name in request.body:
            thinking = request.body[name]
            budget = thinking.get(member) if isinstance(thinking, dict) else None
            largest = max(largest, budget) if isinstance(budget, int) else largest
    return largest
