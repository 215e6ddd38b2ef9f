"""A request with another limit of its answer than its caller's: what a provider is asked for.

The caller's own body is not touched. A thinking budget lies inside the limit, so it is lowered with it,
under each of the names that it goes by.
"""

from typing import Any

from msgspec import structs

from streamweir.core.request import ChatRequest

_LIMIT_MEMBERS = ("max_completion_tokens", "max_tokens")
_BUDGET_MEMBERS = (("thinking", "budget_tokens"), ("reasoning", "max_tokens"))
_MIN_THINKING_BUDGET = 1024
"""Less than this no provider takes as a budget."""


def with_limit(request: ChatRequest, limit: int) -> ChatRequest:
    """`limit` tokens for each choice. Where the caller named no limit, the provider's own name for it is used."""
    reasoning = request.reasoning
    if reasoning is not None and (reasoning.max_tokens or 0) >= limit > _MIN_THINKING_BUDGET:
        reasoning = structs.replace(reasoning, max_tokens=_budget_within(limit))
    body = _limited(request.body, limit)
    return structs.replace(request, body=body, max_output_tokens=limit, reasoning=reasoning)


def _limited(sent: dict[str, Any], limit: int) -> dict[str, Any]:
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
    """The tokens that the caller asks to be thought with before the answer; 0 where none are named."""
    largest = 0
    for name, member in _BUDGET_MEMBERS:
        if name in request.body:
            thinking = request.body[name]
            budget = thinking.get(member) if isinstance(thinking, dict) else None
            largest = max(largest, budget) if isinstance(budget, int) else largest
    return largest
