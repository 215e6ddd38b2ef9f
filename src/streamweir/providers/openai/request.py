"""The body of a request to an OpenAI-style vendor.

The caller's own body, whole, with what this vendor's row says changed in it. What the vendor
cannot take is left out and named by its JSON path; a member that has the vendor's default
value anyway is left out without a word. Usage is always asked for. The caller's body itself
is never touched: another vendor may be tried with it.
"""

from typing import Any

from streamweir.core.request import KNOWN_MEMBERS, ChatRequest, Reasoning
from streamweir.providers.base import Target
from streamweir.providers.openai.vendor import Effort, Vendor
from streamweir.wire import jsonio

_NEUTRAL: dict[str, tuple[Any, ...]] = {
    # Values that ask for nothing: leaving them out changes nothing.
    "n": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "parallel_tool_calls": (True,),
    "tools": ([],),
    "tool_choice": ("auto",),
    "store": (False,),
    "metadata": ({},),
    "modalities": (["text"],),
    "service_tier": ("auto", "default"),
    "verbosity": ("medium",),
}

_REASONING_TEXT = ("reasoning_content", "reasoning")


def write_body(request: ChatRequest, target: Target, vendor: Vendor) -> tuple[bytes, tuple[str, ...]]:
    """The body, and the JSON paths of what was left out of it."""
    dropped: list[str] = []
    body = {name: value for name, value in request.body.items() if value is not None or name not in KNOWN_MEMBERS}
    body["model"] = target.model
    _write_stream(body, request, target, vendor, dropped)
    _write_reasoning(body, request.reasoning, vendor, dropped)
    _drop_refused(body, vendor, dropped)
    _write_limit(body, request, vendor)
    for ours, theirs in vendor.renames:
        if ours in body:
            body[theirs] = body.pop(ours)
    if request.temperature is not None and request.temperature > vendor.most_temperature:
        body["temperature"] = vendor.most_temperature
    if not vendor.takes_json_schema and request.response_format and request.response_format.type == "json_schema":
        del body["response_format"]
        dropped.append("response_format")
    body["messages"] = [
        _write_message(message, vendor, f"messages[{i}]", dropped) for i, message in enumerate(body["messages"])
    ]
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
    if vendor.takes_stream_options and target.asks_for_usage:
        body["stream_options"] = {**options, "include_usage": True}
    else:
        # Usage is reported to the caller all the same, so only the other options are lost.
        dropped += [f"stream_options.{name}" for name in options if name != "include_usage"]


def _write_reasoning(body: dict[str, Any], asked: Reasoning | None, vendor: Vendor, dropped: list[str]) -> None:
    """`reasoning` and `reasoning_effort`, in the vendor's own way.

    `exclude` hides the reasoning from the caller: that is done on our side, whoever answers.
    """
    body.pop("reasoning_effort", None)
    sent = body.pop("reasoning", None)
    if asked is None:
        return
    is_off = asked.effort == "none" or asked.enabled is False
    told: set[str] = set()
    if vendor.effort is Effort.OBJECT:
        body["reasoning"] = {**(sent or {}), **({"effort": asked.effort} if asked.effort is not None else {})}
        return
    if vendor.effort is Effort.WORD and (asked.effort is not None or is_off):
        body["reasoning_effort"] = asked.effort or "none"
        told = {"effort", "enabled"}
    elif vendor.effort is Effort.SWITCH and (asked.effort is not None or asked.enabled is not None):
        body.setdefault("thinking", {"type": "disabled" if is_off else "enabled"})
        if asked.effort is not None and not is_off:
            body["reasoning_effort"] = asked.effort
        told = {"effort", "enabled"}
    elif vendor.effort is Effort.ENABLE:
        body.setdefault("enable_thinking", not is_off)
        if asked.max_tokens is not None:
            body.setdefault("thinking_budget", asked.max_tokens)
        told = {"enabled", "max_tokens"} | ({"effort"} if is_off else set())
    for name in ("effort", "max_tokens", "enabled", "summary"):
        value = getattr(asked, name)
        if value is not None and name not in told and not (name == "enabled" and value):
            dropped.append(
                "reasoning_effort" if name == "effort" and not (sent or {}).get(name) else f"reasoning.{name}"
            )


def _drop_refused(body: dict[str, Any], vendor: Vendor, dropped: list[str]) -> None:
    if "tool_choice" in vendor.refuses and body.get("tool_choice") == "none" and "tools" in body:
        # No calls were asked for: without the word, that needs the tools gone as well.
        del body["tools"]
        dropped.append("tools")
    for name in [name for name in body if name in vendor.refuses]:
        value = body.pop(name)
        if value not in _NEUTRAL.get(name, ()):
            dropped.append(name)


def _write_limit(body: dict[str, Any], request: ChatRequest, vendor: Vendor) -> None:
    if vendor.limit_member is not None and request.max_output_tokens is not None:
        body.pop("max_tokens", None)
        body.pop("max_completion_tokens", None)
        body[vendor.limit_member] = request.max_output_tokens


def _write_message(message: dict[str, Any], vendor: Vendor, path: str, dropped: list[str]) -> dict[str, Any]:
    written = _without_marks(message, vendor, path, dropped)
    if written is message:
        written = dict(message)
    if not vendor.takes_developer_role and written.get("role") == "developer":
        written["role"] = "system"
    if not vendor.takes_names:
        _drop(written, "name", path, dropped)
    if not vendor.takes_reasoning_details:
        _drop(written, "reasoning_details", path, dropped)
    _drop(written, "is_error", path, dropped)
    _write_reasoning_text(written, vendor, path, dropped)
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


def _without_marks(value: dict[str, Any], vendor: Vendor, path: str, dropped: list[str]) -> dict[str, Any]:
    if vendor.takes_cache_control or "cache_control" not in value:
        return value
    kept = dict(value)
    _drop(kept, "cache_control", path, dropped)
    return kept


def _drop(members: dict[str, Any], name: str, path: str, dropped: list[str]) -> None:
    """Takes a member out, and names it where it said anything."""
    if members.pop(name, None):
        dropped.append(f"{path}.{name}")
