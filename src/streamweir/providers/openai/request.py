"""The body of a request to an OpenAI-style vendor.

It is the caller's own body, changed as the vendor's row says. What the vendor does not accept is left out and named by
its JSON path, unless it has the vendor's default value. Usage is always requested. The caller's body itself is never
modified, because another vendor may be tried with it.
"""

import hashlib
from typing import Any

from streamweir.core.request import KNOWN_MEMBERS, ChatRequest, Reasoning
from streamweir.providers.base import Target, is_default
from streamweir.providers.openai.effort import efforts_of, nearest_effort
from streamweir.providers.openai.turns import arrange, with_one_text
from streamweir.providers.openai.vendor import Effort, Vendor
from streamweir.wire import jsonio

_REASONING_TEXT = ("reasoning_content", "reasoning")
_OTHER_LIMITS = frozenset({"max_new_tokens", "max_output_tokens", "n_predict", "num_predict"})
"""Names of the output limit that only some servers accept, some of them with precedence over the standard ones."""


def write_body(request: ChatRequest, target: Target, vendor: Vendor) -> tuple[bytes, tuple[str, ...]]:
    """The body, and the JSON paths of what was left out of it."""
    dropped: list[str] = []
    body = {name: value for name, value in request.body.items() if value is not None or name not in KNOWN_MEMBERS}
    body["model"] = target.model
    _write_stream(body, request, target, vendor, dropped)
    refused = vendor.refused_by(target.model)
    _write_reasoning(body, request, vendor, refused, dropped)
    _write_tool_choice(body)
    _drop_refused(body, refused, dropped)
    _write_limit(body, request, target.model, vendor, dropped)
    for ours, theirs in vendor.renames:
        if ours in body:
            body[theirs] = body.pop(ours)
    if body.get("temperature", 0) > vendor.max_temperature:
        body["temperature"] = vendor.max_temperature
    if request.response_format is not None and request.response_format.type not in {"text", *vendor.formats}:
        del body["response_format"]
        dropped.append("response_format")
    if request.native is not None:
        body["messages"] = arrange(body["messages"], system_first=vendor.system_first)
        dropped += [path for _, path in request.server_tools]
    body["messages"] = [
        _write_message(message, vendor, f"messages[{i}]", dropped) for i, message in enumerate(body["messages"])
    ]
    if request.native is not None:
        body["messages"] = [with_one_text(message) for message in body["messages"]]
    if isinstance(body.get("tools"), list):
        body["tools"] = [_without_marks(t, vendor, f"tools[{i}]", dropped) for i, t in enumerate(body["tools"])]
    return jsonio.encode(body), tuple(dropped)


def _write_stream(
    body: dict[str, Any], request: ChatRequest, target: Target, vendor: Vendor, dropped: list[str]
) -> None:
    sent = body.pop("stream_options", None)
    body.pop("stream", None)
    if not request.stream:
        return
    body["stream"] = True
    options = dict(sent) if isinstance(sent, dict) else {}
    if vendor.takes_stream_options and target.requests_usage:
        body["stream_options"] = {**options, "include_usage": True}
    else:
        # The caller gets the usage nevertheless, so only the other options are lost.
        dropped += [f"stream_options.{name}" for name, value in options.items() if value and name != "include_usage"]


def _write_reasoning(
    body: dict[str, Any], request: ChatRequest, vendor: Vendor, refused: frozenset[str], dropped: list[str]
) -> None:
    """`reasoning` and `reasoning_effort`, in the vendor's format.

    `exclude` hides the reasoning from the caller: the gateway does that itself, for every vendor.
    """
    body.pop("reasoning_effort", None)
    sent = body.pop("reasoning", None)
    requested = request.reasoning
    if requested is None:
        return
    is_off = requested.effort == "none" or requested.enabled is False
    expressed: set[str] = set()
    if vendor.effort is Effort.OBJECT:
        body["reasoning"] = {**(sent or {}), **({"effort": requested.effort} if requested.effort is not None else {})}
        return
    effort = requested.effort or ("none" if is_off else None)
    word = effort
    if request.native is not None and effort is not None:
        word = nearest_effort(effort, vendor.efforts or efforts_of(body["model"]))
    takes_effort = "reasoning_effort" not in refused and word in (vendor.efforts or {word})
    if vendor.effort is Effort.WORD and word is not None and takes_effort:
        body["reasoning_effort"] = word
        # A model that always reasons gets the lowest effort; the request for none is then reported as dropped.
        expressed = {"effort", "enabled"} if effort != "none" or word == "none" else set()
    elif vendor.effort is Effort.SWITCH and (requested.effort is not None or requested.enabled is not None):
        body.setdefault("thinking", {"type": "disabled" if is_off else "enabled"})
        if requested.effort is not None and not is_off:
            body["reasoning_effort"] = requested.effort
        expressed = {"effort", "enabled"}
    elif vendor.effort is Effort.ENABLE and (
        effort is not None or requested.enabled or requested.max_tokens is not None
    ):
        body.setdefault("enable_thinking", not is_off)
        if requested.max_tokens is not None:
            body.setdefault("thinking_budget", requested.max_tokens)
        expressed = {"enabled", "max_tokens"} | ({"effort"} if is_off else set())
    if request.native is not None and request.native.summarizes_reasoning:
        expressed.add("summary")  # in the answer, where the reasoning is shown as a summary
    for name in ("effort", "max_tokens", "enabled", "summary"):
        value = getattr(requested, name)
        if value is not None and name not in expressed and not (name == "enabled" and value):
            dropped.append(request.reasoning_path(name))
    dropped += [f"reasoning.{name}" for name in sent or () if name not in Reasoning.__struct_fields__]


def _write_tool_choice(body: dict[str, Any]) -> None:
    """Spellings of other APIs that are accepted (`any`, a name without an object), in OpenAI's."""
    sent = body.get("tool_choice")
    if sent == "any":
        body["tool_choice"] = "required"
    elif isinstance(sent, dict) and "name" in sent and not sent.keys() & {"function", "custom"}:
        body["tool_choice"] = {"type": "function", "function": {"name": sent["name"]}}


def _drop_refused(body: dict[str, Any], refused: frozenset[str], dropped: list[str]) -> None:
    if "tool_choice" in refused and body.get("tool_choice") == "none" and "tools" in body:
        # No calls were requested. Without `tool_choice`, the tools must be removed too.
        del body["tools"]
        dropped.append("tools")
    if refused.isdisjoint(body):
        return
    for name in [name for name in body if name in refused]:
        if not is_default(name, body.pop(name)):
            dropped.append(name)


def _write_limit(body: dict[str, Any], request: ChatRequest, model: str, vendor: Vendor, dropped: list[str]) -> None:
    if request.max_output_tokens is not None and not _OTHER_LIMITS.isdisjoint(body):
        for name in sorted(_OTHER_LIMITS):  # with these a caller could exceed the limit that is reserved
            _drop(body, name, "", dropped)
    if vendor.limit_member is not None and request.max_output_tokens is not None:
        body.pop("max_tokens", None)
        body.pop("max_completion_tokens", None)
        body[vendor.limit_member] = request.max_output_tokens
    elif "max_completion_tokens" in body:
        body.pop("max_tokens", None)  # the older name of the same limit: both together are refused
    elif request.max_output_tokens is not None and "max_tokens" not in body:
        body[vendor.limit_added_for(model)] = request.max_output_tokens


def _write_message(message: dict[str, Any], vendor: Vendor, path: str, dropped: list[str]) -> dict[str, Any]:
    if len(message) == 2 and isinstance(message.get("content"), str) and message.get("role") != "developer":
        return message  # a role and a text: most messages, and every vendor accepts them
    # A client that sends back an answer sends members that were null: null means absent, except for the content.
    written = {name: value for name, value in message.items() if value is not None or name == "content"}
    if not vendor.takes_cache_control:
        _drop(written, "cache_control", path, dropped)
    if not vendor.takes_developer_role and written.get("role") == "developer":
        written["role"] = "system"
    if not vendor.takes_names:
        _drop(written, "name", path, dropped)
    if not vendor.takes_reasoning_details:
        _drop(written, "reasoning_details", path, dropped)
    _drop(written, "is_error", path, dropped)
    _write_reasoning_text(written, vendor, path, dropped)
    if vendor.call_id_length is not None:
        _write_call_ids(written, vendor.call_id_length)
    for name in [name for name in written if name not in (vendor.message_members or written)]:
        _drop(written, name, path, dropped)
    if isinstance(written.get("content"), list):
        written["content"] = [
            _without_marks(part, vendor, f"{path}.content[{i}]", dropped) for i, part in enumerate(written["content"])
        ]
    return written


def _write_reasoning_text(message: dict[str, Any], vendor: Vendor, path: str, dropped: list[str]) -> None:
    sent = [(name, message.pop(name)) for name in _REASONING_TEXT if name in message]
    for name, text in sent:
        if text and vendor.reasoning_text:
            message.setdefault(vendor.reasoning_text, text)
        elif text:
            dropped.append(f"{path}.{name}")


def _write_call_ids(message: dict[str, Any], length: int) -> None:
    """Ids that another vendor made, in a form that this one accepts. Calls and results are changed in the same way."""
    if "tool_calls" in message:
        message["tool_calls"] = [{**call, "id": _short_id(call["id"], length)} for call in message["tool_calls"]]
    if "tool_call_id" in message:
        message["tool_call_id"] = _short_id(message["tool_call_id"], length)


def _short_id(call_id: str, length: int) -> str:
    if len(call_id) == length and call_id.isascii() and call_id.isalnum():
        return call_id
    return hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def _without_marks(value: dict[str, Any], vendor: Vendor, path: str, dropped: list[str]) -> dict[str, Any]:
    if vendor.takes_cache_control or "cache_control" not in value:
        return value
    kept = dict(value)
    _drop(kept, "cache_control", path, dropped)
    return kept


def _drop(members: dict[str, Any], name: str, path: str, dropped: list[str]) -> None:
    """Removes a member, and names it unless it was empty."""
    if members.pop(name, None):
        dropped.append(f"{path}.{name}" if path else name)
