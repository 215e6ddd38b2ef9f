"""The request for an upstream that speaks the Responses API itself: the caller's own body.

It goes on as it came, in the order of its members. Nothing is stored upstream, so reasoning has to come back sealed:
both are asked for. Left out and named is what would change who answers or what a token costs, and reasoning that the
provider cannot read: another family's, or an id without its content. Refused is what names things of the account, which
serves many keys.
"""

from typing import Any

from streamweir.core.errors import CallerError
from streamweir.core.request import NativeRequest
from streamweir.frontends.carried import is_carried
from streamweir.wire.native import NativeWire

SEALED = "reasoning.encrypted_content"
"""The value of `include` by which reasoning comes with what sends it back."""
_TIERS = (None, "auto", "default", "flex", "priority")
"""Those that price lists know."""
_ACCOUNT_MEMBERS = ("vector_store_ids", "file_ids", "container_id")
"""Of tools: ids of things in the account."""


def native_of(document: dict[str, Any]) -> NativeRequest:
    dropped: list[str] = []
    body = {**document, "store": False, "include": _include(document.get("include"))}
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
    return wanted if SEALED in wanted else [*wanted, SEALED]


def _items(items: list[dict[str, Any]], dropped: list[str]) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    for i, item in enumerate(items):
        kind = item.get("type")
        if kind == "reasoning" and (not item.get("encrypted_content") or is_carried(item["encrypted_content"])):
            dropped.append(f"input[{i}]")
        elif kind == "additional_tools" and isinstance(item.get("tools"), list):
            kept.append({**item, "tools": _tools(item["tools"], f"input[{i}].tools", dropped)})
        else:
            kept.append(item)
    return kept


def _tools(tools: list[dict[str, Any]], path: str, dropped: list[str]) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    for i, tool in enumerate(tools):
        _refuse_account_ids(tool, f"{path}[{i}]")
        if tool.get("type") not in ("function", "custom", "namespace") and "model" in tool:
            dropped.append(f"{path}[{i}]")
        else:
            kept.append(tool)
    return kept


def _refuse_account_ids(tool: dict[str, Any], path: str) -> None:
    if isinstance(tool.get("container"), str):
        raise _not_the_callers(f"{path}.container")
    for at, members in ((path, tool), *((f"{path}.{name}", tool.get(name)) for name in ("container", "environment"))):
        if isinstance(members, dict):
            for name in _ACCOUNT_MEMBERS:
                if members.get(name):
                    raise _not_the_callers(f"{at}.{name}")


def _not_the_callers(path: str) -> CallerError:
    message = "What is stored at a provider cannot be used here: the account serves many keys."
    return CallerError("invalid_value", message, param=path)
