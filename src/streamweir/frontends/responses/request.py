"""A body of the Responses API to a `ChatRequest`.

It is translated to the format of chat completions, for every provider, and also kept unchanged for a provider with
the Responses API (`responses.native`). Every member is kept, mapped, refused, or left out and named in `dropped`; what
a provider then leaves out is named by the provider. Nothing is stored, so what refers to something stored is refused.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct, structs

from streamweir.core.errors import CallerError
from streamweir.core.request import MAX_MESSAGES, MAX_TOKENS, REFUSED_MEMBERS, ChatRequest, read_request, refused_member
from streamweir.core.validation import convert, missing_parameter
from streamweir.frontends.members import Drops
from streamweir.frontends.responses.echo import echo_of
from streamweir.frontends.responses.item import Conversation
from streamweir.frontends.responses.native import native_of
from streamweir.frontends.responses.tool import FlatNames, ToolReader

_MAX_ITEMS = 4 * MAX_MESSAGES
"""A message of chat completions can be several items: reasoning, text, calls."""
_LOGPROBS = "message.output_text.logprobs"
_UNCHANGED = (
    "temperature",
    "top_p",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "metadata",
    "service_tier",
)
_REASONING = ("effort", "summary", "generate_summary")
_TEXT = ("format", "verbosity")
_NOTHING: tuple[Any, ...] = (None, False, [], {}, "")

OWN_NAMES = {
    # Members of the chat body, by their names in this API.
    "response_format": "text.format",
    "verbosity": "text.verbosity",
    "logprobs": "include",
    "tools[].function.strict": "tools[].strict",
    "messages[].content[].image_url.detail": "input[].content[].detail",
    "messages[].reasoning_content": "input[].summary",
    "messages[].reasoning_details": "input[].encrypted_content",
    "messages[].reasoning_details[]": "input[].encrypted_content",
}


class _Body(Struct, kw_only=True):
    model: Annotated[str, Meta(min_length=1, max_length=256)]
    input: str | Annotated[list[dict[str, Any]], Meta(max_length=_MAX_ITEMS)]
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: Annotated[int, Meta(ge=1, le=MAX_TOKENS)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    metadata: dict[str, str] | None = None
    parallel_tool_calls: bool | None = None
    service_tier: str | None = None
    reasoning: dict[str, Any] | None = None
    text: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    include: list[str] | None = None
    store: bool | None = None
    truncation: str | None = None
    background: bool | None = None


_KNOWN = frozenset(_Body.__struct_fields__)


class _Reasoning(Struct):
    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None


class _Format(Struct):
    type: str
    name: str | None = None
    schema: dict[str, Any] | None = None
    description: str | None = None
    strict: bool | None = None


class _Text(Struct):
    format: _Format | None = None
    verbosity: str | None = None


def read_responses_request(document: dict[str, Any], *, is_count: bool = False) -> ChatRequest:
    """`is_count`: only the tokens of its prompt are counted."""
    if not REFUSED_MEMBERS.isdisjoint(document):
        raise refused_member(document)
    _refuse_stored(document)
    if is_count:
        document = {**document, "stream": False}
    sent = convert(document, _Body, "")
    drops, names = Drops(), FlatNames()
    items = [{"type": "message", "role": "user", "content": sent.input}] if isinstance(sent.input, str) else sent.input
    tools = ToolReader(names, _loaded_in(items), drops)
    tools.add(sent.tools or [], "tools")
    conversation = Conversation(names, drops)
    conversation.add_instructions(sent.instructions or "")
    # All tools are known before the first item: calls of earlier turns have their names.
    for i, item in enumerate(items):
        if item.get("type") == "additional_tools":
            tools.add(item.get("tools", []), f"input[{i}].tools")
    for i, item in enumerate(items):
        if item.get("type") != "additional_tools":
            conversation.add(item, f"input[{i}]")
    messages, reasoning_models = conversation.messages()
    if not messages:
        raise CallerError("invalid_value", "The input has no content.", param="input")
    if len(messages) > MAX_MESSAGES:
        raise CallerError("invalid_value", f"The input has more than {MAX_MESSAGES} messages.", param="input")
    body: dict[str, Any] = {"model": sent.model, "messages": messages, "stream": bool(sent.stream)}
    for name in _UNCHANGED:
        if getattr(sent, name) is not None:
            body[name] = getattr(sent, name)
    plan = tools.plan(sent.tool_choice)
    if plan.tools:
        body["tools"] = plan.tools
        if sent.parallel_tool_calls is not None:  # refused without tools
            body["parallel_tool_calls"] = sent.parallel_tool_calls
    if plan.choice is not None:
        body["tool_choice"] = plan.choice
    summarizes = _add_reasoning(sent, body, drops)
    _add_text(sent, body, drops)
    shows_logprobs = _LOGPROBS in (sent.include or ()) or bool(sent.top_logprobs)
    if shows_logprobs:
        body["logprobs"] = True
        body["top_logprobs"] = sent.top_logprobs or 0
    _name_unserved(document, sent, drops)
    return structs.replace(
        read_request(body),
        max_output_tokens=sent.max_output_tokens,
        include_usage=True,
        native=structs.replace(
            native_of(document),
            untranslated=drops.paths,
            own_names=OWN_NAMES,
            tools=names.shapes,
            server_tools=plan.server_tools,
            summarizes_reasoning=summarizes,
            shows_logprobs=shows_logprobs,
            reasoning_models=reasoning_models,
            unpacked_bytes=conversation.carried.unpacked_bytes,
            echoed=echo_of(document),
        ),
    )


def _refuse_stored(document: dict[str, Any]) -> None:
    """Members that refer to stored objects. One account serves many keys: the object may be another caller's."""
    id = document.get("previous_response_id")
    if id is not None:
        message = "Responses are not stored here: send the whole conversation in 'input'."
        raise CallerError("previous_response_not_found", message, param="previous_response_id")
    if document.get("conversation") is not None:
        message = "Conversations are not stored here: send the whole conversation in 'input'."
        raise CallerError("invalid_value", message, param="conversation")
    if document.get("prompt") is not None:
        message = "Prompts that are stored at a provider cannot be used here: send the text itself."
        raise CallerError("invalid_value", message, param="prompt")
    if document.get("background") is True:
        message = "Responses are not made in the background here: leave 'background' out."
        raise CallerError("invalid_value", message, param="background")


def _loaded_in(items: list[dict[str, Any]]) -> set[str]:
    """Own names of the tools that a search of tools has found."""
    return {
        tool["name"]
        for item in items
        if item.get("type") == "tool_search_output" and isinstance(item.get("tools"), list)
        for found in item["tools"]
        if isinstance(found, dict)
        for tool in (found, *(found["tools"] if isinstance(found.get("tools"), list) else ()))
        if isinstance(tool, dict) and isinstance(tool.get("name"), str)
    }


def _add_reasoning(sent: _Body, body: dict[str, Any], drops: Drops) -> bool:
    """Whether the caller gets it as a summary."""
    if sent.reasoning is None:
        return False
    reasoning = convert(sent.reasoning, _Reasoning, "reasoning")
    for name, value in sent.reasoning.items():
        if name not in _REASONING and value is not None:
            drops.add(f"reasoning.{name}")
    summary = reasoning.summary or reasoning.generate_summary
    members = {"effort": reasoning.effort, "summary": summary}
    asked = {name: value for name, value in members.items() if value is not None}
    if asked:
        body["reasoning"] = asked
    return summary is not None


def _add_text(sent: _Body, body: dict[str, Any], drops: Drops) -> None:
    if sent.text is None:
        return
    text = convert(sent.text, _Text, "text")
    for name, value in sent.text.items():
        if name not in _TEXT and value is not None:
            drops.add(f"text.{name}")
    if text.verbosity is not None:
        body["verbosity"] = text.verbosity
    form = text.format
    if form is None or form.type == "text":
        return
    if form.type == "json_object":
        body["response_format"] = {"type": "json_object"}
        return
    if form.type != "json_schema":
        drops.add("text.format")
        return
    for member, value in (("name", form.name), ("schema", form.schema)):
        if value is None:
            raise missing_parameter(f"text.format.{member}")
    members = {name: getattr(form, name) for name in ("name", "schema", "description", "strict")}
    schema = {name: value for name, value in members.items() if value is not None}
    body["response_format"] = {"type": "json_schema", "json_schema": schema}


def _name_unserved(document: dict[str, Any], sent: _Body, drops: Drops) -> None:
    if sent.store:
        drops.add("store")
    if sent.truncation not in (None, "disabled"):
        drops.add("truncation")
    for name, value in document.items():
        if name not in _KNOWN and value not in _NOTHING:
            drops.add(name)
