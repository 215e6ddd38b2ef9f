"""A request with another limit of its answer than its caller's: what a provider is asked for.

The caller's own body is not touched. A thinking budget lies inside the limit, so it is lowered with it,
under each of the names that it goes by.
"""

from typing import Any

from msgspec import structs

from streamweir.core.request import ChatRequest

_NAMES = ("max_completion_tokens", "max_tokens")
_BUDGETS = (("thinking", "budget_tokens"), ("reasoning", "max_tokens"))
_LEAST_THINKING = 1024
"""Less than this no provider takes as a budget."""


def with_limit(request: ChatRequest, most: int) -> ChatRequest:
    """`most` tokens for each choice. Where the caller named no limit, the provider's own name for it is used."""
    reasoning = request.reasoning
    if reasoning is not None and (reasoning.max_tokens or 0) >= most > _LEAST_THINKING:
        reasoning = structs.replace(reasoning, max_tokens=_budget_within(most))
    body = _limited(request.body, most)
    return structs.replace(request, body=body, max_output_tokens=most, reasoning=reasoning)


def _limited(sent: dict[str, Any], most: int) -> dict[str, Any]:
    body: dict[str, Any] = {**sent}
    for name in _NAMES:
        if name in body and body[name] is not None:
            body[name] = most
    for name, member in _BUDGETS:
        if name not in body:
            continue
        thinking = body[name]
        if isinstance(thinking, dict) and isinstance(budget := thinking.get(member), int) and budget >= most:
            if most > _LEAST_THINKING:
                body[name] = {**thinking, member: _budget_within(most)}
            else:
                del body[name]
    return body


def _budget_within(most: int) -> int:
    return max(_LEAST_THINKING, most * 4 // 5)


def thinking_budget(request: ChatRequest) -> int:
    """The tokens that the caller asks to be thought with before the answer; 0 where none are named."""
    most = 0
    for name, member in _BUDGETS:
        if name in request.body:
            thinking = request.body[name]
            budget = thinking.get(member) if isinstance(thinking, dict) else None
            most = max(most, budget) if isinstance(budget, int) else most
    return most
