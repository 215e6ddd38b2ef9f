"""The request for an upstream with the Responses API: the caller's own body.

It is sent unchanged, in the order of its members, with two additions: nothing is stored upstream, and therefore
encrypted reasoning is requested. Left out and named in `dropped`: members that change the model or the price, and items
that cannot be sent back (reasoning of another family, an id without its content, the run of a program, whose container
may be another caller's). Other ids of the account are refused, because the account serves many keys.
"""

from typing import Any

from streamweir.core.errors import CallerError
from streamweir.core.request import NativeRequest
from streamweir.core.router_members import OTHER_MODEL_MEMBERS
from streamweir.frontends.carried import is_carried
from streamweir.wire.native import NativeWire

ENCRYPTED_REASONING = "reasoning.encrypted_content"
"""The value of `include` that requests reasoning in a form that can be sent back."""
_TIERS = (None, "auto", "default", "flex", "priority")
"""Those with a price in price lists."""
_ACCOUNT_MEMBERS = frozenset({"vector_store_ids", "file_ids", "file_id", "container_id", "skill_id"})
"""Ids of objects of the account, anywhere in a tool or an item."""
_TOOL_ITEMS = ("additional_tools", "tool_search_output")
"""Items with tools of any kind."""
_OWN_TOOLS = ("function", "custom")
"""Tools that the caller runs: the names in their schemas are the caller's own."""


def native_of(document: dict[str, Any]) -> NativeRequest:
    dropped = [name for name in document if name in OTHER_MODEL_MEMBERS]
    body = {**document, "store": False, "include": _include(document.get("include"))}
    for name in dropped:
        del body[name]
    if body.get("service_tier") not in _TIERS:
        del body["service_tier"]
        dropped.append("service_tier")
    if isinstance(body.get("tools"), list):
        body["tools"] = _tools(body["tools"], "tools", dropped)
    if isinstance(body["input"], list):
        body["input"] = _items(body["input"], dropped)
    return NativeRequest(wire=NativeWire.OPENAI_RESPONSES, body=body, dropped=tuple(dropped))


def _include(sent: Any) -> list[Any]:
    wanted = list(sent) if isinstance(sent, list) else []
    return wanted if ENCRYPTED_REASONING in wanted else [*wanted, ENCRYPTED_REASONING]


def _items(items: list[dict[str, Any]], dropped: list[str]) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    for i, item in enumerate(items):
        kind, path = item.get("type"), f"input[{i}]"
        if _is_unreadable(item):
            dropped.append(path)
        elif kind in _TOOL_ITEMS and isinstance(item.get("tools"), list):
            kept.append({**item, "tools": _tools(item["tools"], f"{path}.tools", dropped)})
        elif (found := _account_id(item, path)) is None:
            kept.append(item)
        elif found.endswith(".container_id"):
            dropped.append(path)
        else:
            raise _not_the_callers(found)
    return kept


def _is_unreadable(item: dict[str, Any]) -> bool:
    """For the provider: it has only an id, or reasoning that another family encrypted."""
    if item.get("type") == "image_generation_call":
        return not item.get("result")
    return item.get("type") == "reasoning" and (
        not item.get("encrypted_content") or is_carried(item["encrypted_content"])
    )


def _tools(tools: list[Any], path: str, dropped: list[str]) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    for i, tool in enumerate(tools):
        at = f"{path}[{i}]"
        if not isinstance(tool, dict):
            continue
        if tool.get("type") == "namespace" and isinstance(tool.get("tools"), list):
            kept.append({**tool, "tools": _tools(tool["tools"], f"{at}.tools", dropped)})
            continue
        if tool.get("type") not in _OWN_TOOLS:
            if (found := _account_id(tool, at)) is not None:
                raise _not_the_callers(found)
            if "model" in tool:
                dropped.append(at)
                continue
        kept.append(tool)
    return kept


def _account_id(value: dict[str, Any] | list[Any], path: str) -> str | None:
    """The path of the first, anywhere in it."""
    for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
        at = f"{path}[{name}]" if isinstance(name, int) else f"{path}.{name}"
        if name in _ACCOUNT_MEMBERS and inner and isinstance(inner, str | list):  # in a schema it describes a value
            return at
        if name == "container" and isinstance(inner, str):
            return at
        if isinstance(inner, dict | list) and (found := _account_id(inner, at)) is not None:
            return found
    return None


def _not_the_callers(path: str) -> CallerError:
    message = "What is stored at a provider cannot be used here: the account serves many keys."
    return CallerError("invalid_value", message, param=path)
