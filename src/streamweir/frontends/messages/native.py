"""The request for an upstream of the Messages API: the caller's own body, and the headers for it.

The body is passed on unchanged and in the order of its members, so that prompt caches work as without a gateway.
Members that would change the answering model or the price of a token are left out and named. Only what Anthropic
refuses and another family's answer has caused is repaired: foreign reasoning, and ids of calls.
"""

import re
from collections.abc import Mapping
from typing import Any

from streamweir.core.errors import CallerError
from streamweir.core.request import NativeRequest
from streamweir.core.router_members import OTHER_MODEL_MEMBERS
from streamweir.frontends.carried import is_carried
from streamweir.wire.native import NativeWire

_NOT_ASKED = (*sorted(OTHER_MODEL_MEMBERS), "fallback_credit_token", "speed", "inference_geo")
_NOT_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")
_OPERATORS = frozenset(
    {"anthropic-workspace-id", "anthropic-user-profile-id", "anthropic-dangerous-direct-browser-access"}
)
"""Headers that refer to the operator's account, or do not belong to the API."""


def native_of(document: dict[str, Any], headers: Mapping[str, str], *, needs_repair: bool) -> NativeRequest:
    _refuse_container(document.get("container"))
    dropped = [name for name in _NOT_ASKED if document.get(name) is not None]
    body = document if not dropped else {name: value for name, value in document.items() if name not in _NOT_ASKED}
    tools = body.get("tools")
    if isinstance(tools, list) and any("model" in tool for tool in tools):
        dropped += [f"tools[{i}]" for i, tool in enumerate(tools) if "model" in tool]
        body = {**body, "tools": [tool for tool in tools if "model" not in tool]}
    if needs_repair:
        body = {**body, "messages": _repaired(body["messages"], dropped)}
    return NativeRequest(
        wire=NativeWire.ANTHROPIC_MESSAGES, body=body, headers=_headers_in(headers), dropped=tuple(dropped)
    )


def _headers_in(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, value) for name, value in headers.items() if name.startswith("anthropic-") and name not in _OPERATORS
    )


def _refuse_container(container: object) -> None:
    """One account serves many keys, and a container could belong to another caller."""
    id = container.get("id") if isinstance(container, dict) else container
    if id is not None:
        message = "A container cannot be used again here: leave its id out."
        raise CallerError("invalid_value", message, param="container")


def _repaired(messages: list[dict[str, Any]], dropped: list[str]) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for i, message in enumerate(messages):
        content = message.get("content")
        if not isinstance(content, list):
            made.append(message)
            continue
        blocks: list[dict[str, Any]] = []
        for j, block in enumerate(content):
            if _is_foreign(block):
                dropped.append(f"messages[{i}].content[{j}]")
            else:
                blocks.append(_with_plain_ids(block))
        if blocks:
            made.append({**message, "content": blocks})
    return made


def _is_foreign(block: dict[str, Any]) -> bool:
    if block.get("type") == "thinking":
        return not block.get("signature") or is_carried(block["signature"])
    return block.get("type") == "redacted_thinking" and is_carried(block.get("data"))


def _with_plain_ids(block: dict[str, Any]) -> dict[str, Any]:
    """In calls and results, in the same way."""
    name = {"tool_use": "id", "tool_result": "tool_use_id"}.get(str(block.get("type")))
    if name is None or not isinstance(block.get(name), str):
        return block
    return {**block, name: _NOT_IN_ID.sub("_", block[name])}
