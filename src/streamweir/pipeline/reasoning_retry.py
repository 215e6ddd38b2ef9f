"""A request without its reasoning, for a provider that refused its signatures.

Signatures are bound to a model and an account, and so is encrypted reasoning. A conversation that is moved to another
target of the same API can contain some that is not valid there. The same request without the reasoning is valid. Of
requests to Anthropic only those in its own format are changed here; others are written without foreign reasoning from
the start. Encrypted reasoning does not say whose it is: it is left out of every request that was refused for it.
"""

import re
from typing import Any

from msgspec import structs

from streamweir.core.errors import StreamweirError
from streamweir.core.message import Message
from streamweir.core.request import OF_ANOTHER_MODEL, ChatRequest, NativeRequest
from streamweir.wire.native import NativeWire

_REFUSED = re.compile(r"invalid\W{1,3}signature\W{1,3}in\W{1,3}thinking\W{1,3}block", re.IGNORECASE)
_UNREADABLE = re.compile(r"(?:verif|decrypt|invalid).{0,60}encrypted.content|encrypted.content.{0,80}(?:verif|decrypt)")
_KINDS = ("thinking", "redacted_thinking")


def without_reasoning(request: ChatRequest, error: StreamweirError) -> ChatRequest | None:
    """None: the error has another reason, or the request has no reasoning."""
    native, refusal = request.native, error.native
    if refusal is None:
        return None
    is_own = native is not None and refusal.wire == native.wire
    if refusal.wire == NativeWire.OPENAI_RESPONSES:
        if refusal.code != "invalid_encrypted_content" and not _UNREADABLE.search(refusal.message.lower()):
            return None
        return _without_items(request, native) if native is not None and is_own else _without_entries(request)
    if native is None or not is_own or not _REFUSED.search(refusal.message):
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


def _without_items(request: ChatRequest, native: NativeRequest) -> ChatRequest | None:
    """A request of the Responses API."""
    items = native.body.get("input")
    if not isinstance(items, list):
        return None
    places = [i for i, item in enumerate(items) if item.get("type") == "reasoning"]
    if not places:
        return None
    body = {**native.body, "input": [item for item in items if item.get("type") != "reasoning"]}
    dropped = (*native.dropped, *(f"input[{i}]" for i in places))
    return structs.replace(request, native=structs.replace(native, body=body, dropped=dropped))


def _without_entries(request: ChatRequest) -> ChatRequest | None:
    """A request that is translated to the Responses API: the provider leaves foreign entries out, and names them."""
    messages = tuple([_with_foreign_entries(message) for message in request.messages])
    return structs.replace(request, messages=messages) if messages != request.messages else None


def _with_foreign_entries(message: Message) -> Message:
    if not message.reasoning_details:
        return message
    details = tuple([{**entry, "format": OF_ANOTHER_MODEL} for entry in message.reasoning_details])
    return structs.replace(message, reasoning_details=details)


def _changed(message: dict[str, Any], path: str, dropped: list[str]) -> dict[str, Any] | None:
    """None: nothing is left of the message."""
    content = message["content"]
    if not isinstance(content, list):
        return message
    dropped += [f"{path}.content[{j}]" for j, block in enumerate(content) if block.get("type") in _KINDS]
    kept = [block for block in content if block.get("type") not in _KINDS]
    return {**message, "content": kept} if kept else None
