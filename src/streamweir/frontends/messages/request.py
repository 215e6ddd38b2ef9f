"""A body of the Messages API to a `ChatRequest`.

It is written in the format of chat completions, which every provider supports, and kept in its own format for a
provider of the same API (`messages.native`). Every member is passed on, translated, refused, or left out and named in
`dropped`; what a provider leaves out is named by the provider.
"""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from streamweir.core.errors import CallerError
from streamweir.core.request import MAX_MESSAGES, MAX_TOKENS, REFUSED_MEMBERS, ChatRequest, read_request, refused_member
from streamweir.core.validation import convert, missing_parameter
from streamweir.frontends.members import Drops
from streamweir.frontends.messages.message import Conversation
from streamweir.frontends.messages.native import native_of
from streamweir.frontends.messages.tool import plan_tools
from streamweir.frontends.tool_name import ToolNames
from streamweir.wire import jsonio

_TIERS = {"auto": "auto", "standard_only": "default"}
_OUTPUT = ("effort", "format")
_THINKING = ("type", "budget_tokens", "display")
_MAX_USER_ID = 1024
_USERS = ("account_uuid", "device_id")
"""Members of Claude Code's `user_id` that name who uses it, the best first."""

OWN_NAMES = {
    # Members of the chat body, and their names in the caller's API.
    "reasoning.max_tokens": "thinking.budget_tokens",
    "reasoning.enabled": "thinking",
    "reasoning.effort": "output_config.effort",
    "response_format": "output_config.format",
    "stop": "stop_sequences",
    "safety_identifier": "metadata.user_id",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    "tools[].function.strict": "tools[].strict",
    "messages[].is_error": "messages[].content[].is_error",
    "messages[].reasoning_content": "messages[].content[].thinking",
    "messages[].reasoning_details": "messages[].content[].thinking",
    "messages[].reasoning_details[]": "messages[].content[].thinking",
}


class _Message(Struct):
    role: Literal["user", "assistant", "system"]
    content: str | list[dict[str, Any]]


class _Body(Struct, kw_only=True):
    model: Annotated[str, Meta(min_length=1, max_length=256)]
    messages: Annotated[list[_Message], Meta(min_length=1, max_length=MAX_MESSAGES)]
    max_tokens: Annotated[int, Meta(ge=1, le=MAX_TOKENS)] | None = None
    system: str | list[dict[str, Any]] | None = None
    stream: bool | None = None
    temperature: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=0)] | None = None
    stop_sequences: list[str] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    output_format: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    service_tier: str | None = None
    cache_control: dict[str, Any] | None = None


_KNOWN = frozenset(_Body.__struct_fields__)


class _Thinking(Struct):
    type: str
    budget_tokens: Annotated[int, Meta(ge=0, le=MAX_TOKENS)] | None = None
    display: str | None = None


class _Format(Struct):
    type: str
    schema: dict[str, Any] | None = None


def read_messages_request(
    document: dict[str, Any], headers: Mapping[str, str], *, needs_limit: bool = True
) -> ChatRequest:
    """`needs_limit`: `max_tokens` is required; it is not for counting tokens."""
    if not REFUSED_MEMBERS.isdisjoint(document):
        raise refused_member(document)
    sent = convert(document, _Body, "")
    if sent.max_tokens is None and needs_limit:
        raise missing_parameter("max_tokens")
    drops, names = Drops(), ToolNames()
    conversation = Conversation(names, drops)
    if sent.system is not None:
        conversation.add_system(sent.system)
    for i, message in enumerate(sent.messages):
        conversation.add(message.role, message.content, f"messages[{i}]")
    if not conversation.messages:
        raise CallerError("invalid_value", "The messages have no content.", param="messages")
    if sent.cache_control is not None:
        conversation.mark_last(sent.cache_control)
    body: dict[str, Any] = {"model": sent.model, "messages": conversation.messages, "stream": bool(sent.stream)}
    for name in ("temperature", "top_p", "top_k"):
        if getattr(sent, name) is not None:
            body[name] = getattr(sent, name)
    if sent.stop_sequences:
        body["stop"] = sent.stop_sequences
    tools = plan_tools(sent.tools or [], sent.tool_choice, conversation.loaded, names, drops)
    if tools.tools:
        body["tools"] = tools.tools
    if tools.choice is not None:
        body["tool_choice"] = tools.choice
    if tools.is_parallel is not None:
        body["parallel_tool_calls"] = tools.is_parallel
    hides_reasoning = _add_reasoning(sent, body, drops)
    _add_format(sent, body, drops)
    _add_other_members(sent, body, drops)
    for name, value in document.items():
        if name not in _KNOWN and value not in (None, [], {}):
            drops.add(name)
    return structs.replace(
        read_request(body),
        max_output_tokens=sent.max_tokens,
        include_usage=True,
        native=structs.replace(
            native_of(document, headers, needs_repair=conversation.needs_repair),
            untranslated=drops.paths,
            own_names=OWN_NAMES,
            tool_names=names.own,
            server_tools=tools.server_tools,
            requires_server_tools=bool(tools.server_tools) and not tools.tools,
            hides_reasoning=hides_reasoning,
            reasoning_models=conversation.reasoning_models,
            unpacked_bytes=conversation.carried.unpacked_bytes,
        ),
    )


def _add_reasoning(sent: _Body, body: dict[str, Any], drops: Drops) -> bool:
    """Whether the reasoning text is hidden from the caller."""
    effort = (sent.output_config or {}).get("effort")
    if effort is not None and not isinstance(effort, str):
        raise CallerError("invalid_type", "output_config.effort must be a string.", param="output_config.effort")
    reasoning: dict[str, Any] = {"effort": effort} if effort is not None else {}
    hides = False
    if sent.thinking is not None:
        thinking = convert(sent.thinking, _Thinking, "thinking")
        hides = thinking.display == "omitted"
        for name in sent.thinking:
            if name not in _THINKING:
                drops.add(f"thinking.{name}")
        match thinking.type:
            case "enabled":
                if thinking.budget_tokens is None:
                    raise missing_parameter("thinking.budget_tokens")
                reasoning["max_tokens"] = thinking.budget_tokens
            case "adaptive":
                reasoning["enabled"] = True
            case "disabled":
                reasoning = {"effort": "none"}
            case "between_tools":
                reasoning["enabled"] = True
                drops.add("thinking.type")
            case _:
                drops.add("thinking")
    if reasoning:
        body["reasoning"] = reasoning
    return hides


def _add_format(sent: _Body, body: dict[str, Any], drops: Drops) -> None:
    output = sent.output_config or {}
    for name in output:
        if name not in _OUTPUT and output[name] is not None:
            drops.add(f"output_config.{name}")
    path = "output_config.format" if output.get("format") is not None else "output_format"
    wanted = output.get("format") if output.get("format") is not None else sent.output_format
    if wanted is None:
        return
    form = convert(wanted, _Format, path)
    if form.type != "json_schema":
        drops.add(path)
        return
    if form.schema is None:
        raise missing_parameter(f"{path}.schema")
    body["response_format"] = {
        "type": "json_schema",
        "json_schema": {"name": "output", "schema": form.schema, "strict": True},
    }


def _add_other_members(sent: _Body, body: dict[str, Any], drops: Drops) -> None:
    metadata = sent.metadata or {}
    user = metadata.get("user_id")
    if isinstance(user, str) and user:
        # Clients put whole documents there, with names of devices and accounts; other providers accept 64 characters.
        body["safety_identifier"] = hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()
    for name in metadata:
        if name != "user_id":
            drops.add(f"metadata.{name}")
    if sent.service_tier in _TIERS:
        body["service_tier"] = _TIERS[sent.service_tier]
    elif sent.service_tier is not None:
        drops.add("service_tier")


def session_of(metadata: Any) -> str | None:
    """The session that Claude Code names in `metadata.user_id`.

    Releases before 2.1.78 write `user_..._account_..._session_ID`, later ones an object as text. Since 2.1.86 there is
    a header, too. Any other `user_id` names a user, who has many conversations.
    """
    return _split_user(metadata)[1]


def end_user_of(metadata: Any) -> str | None:
    """`metadata.user_id`, of which Claude Code's also names a session: see `session_of`."""
    return _split_user(metadata)[0]


def _split_user(metadata: Any) -> tuple[str | None, str | None]:
    """The user and the session in `metadata.user_id`."""
    sent = metadata.get("user_id") if isinstance(metadata, dict) else None
    if not isinstance(sent, str) or not sent:
        return None, None
    if len(sent) > _MAX_USER_ID:
        return sent, None
    if not sent.startswith("{"):
        user, _, session = sent.rpartition("_session_")
        return (user, session or None) if user.startswith("user_") else (sent, None)
    try:
        document = jsonio.decode(sent.encode("utf-8", "surrogatepass"))
    except jsonio.InvalidJson:
        return sent, None
    if not isinstance(document, dict):
        return sent, None
    users = [document.get(name) for name in _USERS]
    named = document.get("session_id")
    return (
        next((user for user in users if isinstance(user, str) and user), sent if named is None else None),
        named if isinstance(named, str) and named else None,
    )
