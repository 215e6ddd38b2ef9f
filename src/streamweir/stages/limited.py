"""A request with another limit of its answer than its caller's: what a provider is asked for.

The caller's own body is not touched. A thinking budget lies inside the limit, so it is lowered with it.
"""

from typing import Any

from msgspec import structs

from streamweir.core.request import ChatRequest

_NAMES = ("max_completion_tokens", "max_tokens")
_LEAST_THINKING = 1024
"""Less than this no provider takes as a budget."""


def with_limit(request: ChatRequest, most: int) -> ChatRequest:
    """`most` tokens for each choice. Where the caller named no limit, the provider's own name for it is used."""
    body: dict[str, Any] = dict(request.body)
    for name in _NAMES:
        if body.get(name) is not None:
            body[name] = most
    thinking = body.get("thinking")
    if isinstance(thinking, dict) and isinstance(budget := thinking.get("budget_tokens"), int) and budget >= most:
        if most > _LEAST_THINKING:
            body["thinking"] = {**thinking, "budget_tokens": max(_LEAST_THINKING, most * 4 // 5)}
        else:
            del body["thinking"]
    return structs.replace(request, body=body, max_output_tokens=most)
