"""A request without its reasoning, for a provider that refused its signatures.

Signatures are bound to a model and an account. A conversation that is moved to another target of the same API can
contain signatures that are not valid there. The same request without the reasoning is valid. Only requests in the
provider's own format are changed here; others are written without foreign reasoning from the start.
"""

import re
from typing import Any

from msgspec import structs

from streamweir.core.errors import StreamweirError
from streamweir.core.request import ChatRequest

_REFUSED = re.compile(r"invalid\W{1,3}signature\W{1,3}in\W{1,3}thinking\W{1,3}block", re.IGNORECASE)
_KINDS = ("thinking", "redacted_thinking")


def without_reasoning(request: ChatRequest, error: StreamweirError) -> ChatRequest | None:
    """None: the error has another reason, or the request has no reasoning."""
    native, refusal = request.native, error.native
    if native is None or refusal is None or refusal.wire != native.wire or not _REFUSED.search(refusal.message):
        return None
    dropped: list[str] = []
    messages = [
        changed
        for i, message in enumerate(native.body["messages"])
        if (changed := _changed(message, f"messages[{i}]", dropped)) is not None
    ]
    if not dropped:
        return None
    body = {**native.body, "messages": messages}
    return structs.replace(request, native=structs.replace(native, body=body, dropped=(*native.dropped, *dropped)))


def _changed(message: dict[str, Any], path: str, dropped: list[str]) -> dict[str, Any] | None:
    """None: nothing is left of the message."""
    content = message["content"]
    if not isinstance(content, list):
        return message
    dropped += [f"{path}.content[{j}]" for j, block in enumerate(content) if block.get("type") in _KINDS]
    kept = [block for block in content if block.get("type") not in _KINDS]
    return {**message, "content": kept} if kept else None
