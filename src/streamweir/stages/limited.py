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
    body: dict[str, Any] = dict(request.body)
    for name in _NAMES:
        if body.get(name) is not None:
            body[name] = most
    for name, member in _BUDGETS:
        thinking = body.get(name)
        if isinstance(thinking, dict) and isinstance(budget := thinking.get(member), int) and budget >= most:
            if most > _LEAST_THINKING:
                body[name] = {**thinking, member: max(_LEAST_THINKING, most * 4 // 5)}
            else:
                del body[name]
    return structs.replace(request, body=body, max_output_tokens=most)


def thinking_budget(request: ChatRequest) -> int:
    """The tokens that the caller asks to be thought with before the answer; 0 where he names none."""
    asked = [thinking.get(member) for name, member in _BUDGETS if isinstance(thinking := request.body.get(name), dict)]
    return max([budget for budget in asked if isinstance(budget, int)], default=0)
