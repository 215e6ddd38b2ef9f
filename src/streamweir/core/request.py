"""A chat request: the whole OpenAI chat body, validated once.

`read_request` takes the parsed JSON body and returns a `ChatRequest`: a typed view for the providers that must
translate it, and `body`, the members as they were sent, for providers with the same protocol. Unknown members are
kept in `body`; only those with which a caller could choose the gateway's upstream are refused. Errors name the JSON
path (`messages[2].content[0].image_url.url`).
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct, structs

from streamweir.core.embedding import EmbeddingOptions
from streamweir.core.errors import CallerError
from streamweir.core.events import MAX_CHOICES
from streamweir.core.message import (
    FunctionCall,
    Message,
    SentMessage,
    read_message,
)
from streamweir.core.validation import convert, missing_parameter

T = TypeVar("T")

MAX_MESSAGES = 4096
MAX_TOKENS = 10_000_000

REFUSED_MEMBERS = frozenset(
    {"api_base", "base_url", "api_key", "api_version", "extra_headers", "extra_query", "extra_body", "headers", "proxy"}
)
"""Members with which a caller could choose the upstream's address or account."""

OF_ANOTHER_MODEL = "another-model"
"""A `format` of `reasoning_details` entries that no provider uses; see `ChatRequest.messages_for`."""

Effort = str
"""none, minimal, low, medium, high, xhigh, max, ...: vendors add values, so any value is accepted and passed on."""


class RequestRules(Struct, frozen=True, kw_only=True):
    """The differences between dialects in what they accept."""

    model_required: bool = True
    always_streams: bool = False
    checks_stream_options: bool = True
    max_choices: int = MAX_CHOICES


class Function(Struct, frozen=True):
    name: Annotated[str, Meta(min_length=1)]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Struct, frozen=True):
    """`function` is None for the tools that a vendor runs itself (their members stay in `body`)."""

    type: str
    function: Function | None = None
    custom: dict[str, Any] | None = None
    cache_control: dict[str, Any] | None = None


class ToolChoice(Struct, frozen=True):
    """`mode` is none, auto, required or function; with function, `name` says which."""

    mode: str
    name: str | None = None
    allowed: tuple[str, ...] = ()


class JsonSchema(Struct, frozen=True):
    name: str
    schema: dict[str, Any] | None = None
    description: str | None = None
    strict: bool | None = None

    @property
    def described_schema(self) -> dict[str, Any] | None:
        """The schema with its description inside, for providers without a separate member for it."""
        if self.schema is None or not self.description or "description" in self.schema:
            return self.schema
        return {**self.schema, "description": self.description}


class ResponseFormat(Struct, frozen=True):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class StreamOptions(Struct, frozen=True):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class Reasoning(Struct, frozen=True):
    """The `reasoning` member, and `reasoning_effort`, which is its short form."""

    effort: Effort | None = None
    max_tokens: Annotated[int, Meta(ge=0, le=MAX_TOKENS)] | None = None
    enabled: bool | None = None
    exclude: bool | None = None
    summary: str | None = None


class _AllowedTools(Struct):
    tools: list[dict[str, Any]]
    mode: Literal["auto", "required"] = "auto"


_Tokens = Annotated[int, Meta(ge=1, le=MAX_TOKENS)]
_Penalty = Annotated[float, Meta(ge=-2, le=2)]


class _Body(Struct, kw_only=True):
    """The members that are validated by their type only."""

    model: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    messages: Annotated[list[SentMessage], Meta(min_length=1, max_length=MAX_MESSAGES)]
    stream: bool | None = None
    n: Annotated[int, Meta(ge=1)] | None = None
    max_tokens: _Tokens | None = None
    max_completion_tokens: _Tokens | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=0)] | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    logit_bias: dict[str, Any] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    user: str | None = None
    tools: list[Tool] | None = None
    functions: list[Function] | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    modalities: list[str] | None = None
    audio: dict[str, Any] | None = None
    prediction: dict[str, Any] | None = None
    reasoning: Reasoning | None = None
    reasoning_effort: Effort | None = None
    verbosity: str | None = None
    service_tier: str | None = None
    store: bool | None = None
    metadata: dict[str, Any] | None = None
    web_search_options: dict[str, Any] | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None


class Prompt(Struct, frozen=True, kw_only=True):
    """The model's input: the part of a request that is needed to count its tokens after it is over."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    """Contains legacy `functions` as tools, too; then `uses_legacy_functions` is set."""
    texts: tuple[str, ...] = ()
    """Texts that the model reads without a template around them, such as the inputs of embeddings."""
    tokens: int = 0
    """The number of tokens that were sent as numbers."""


class ServerTool(NamedTuple):
    """A tool that a provider must run itself, if it has one of this kind."""

    kind: str
    """`web_search`, or a type that only the caller's API has."""
    path: str
    """The JSON path in the caller's request."""


class ToolShape(Struct, frozen=True):
    """A tool of the caller's that the body of chat completions knows as a function with another name or form."""

    name: str
    """The caller's own."""
    custom: bool = False
    """Its input is any text: in the body of chat completions, the member `input` of the arguments."""
    namespace: str | None = None
    """The group of tools in which the caller declared it."""


class NativeRequest(Struct, frozen=True, kw_only=True):
    """The request in the caller's own format, for an upstream of the same format; and how it was translated."""

    wire: str
    """A value of `wire.native.NativeWire`, or the name of a format that is never passed on unchanged."""
    body: dict[str, Any]
    """The members as they were sent, in their order, without those that the gateway does not allow."""
    headers: tuple[tuple[str, str], ...] = ()
    """Request headers to send with it."""
    dropped: tuple[str, ...] = ()
    """JSON paths of the members that were left out of `body`."""
    untranslated: tuple[str, ...] = ()
    """JSON paths of the members that the body of chat completions cannot express."""
    own_names: Mapping[str, str] = {}
    """JSON paths in the body of chat completions, with `[]` for a list index, and their names in the caller's
    format."""
    tool_names: Mapping[str, str] = {}
    """Tool names in the body of chat completions, and the caller's names, where they differ."""
    tools: Mapping[str, ToolShape] = {}
    """By their names in the body of chat completions, where these do not say all."""
    server_tools: tuple[ServerTool, ...] = ()
    requires_server_tools: bool = False
    """One of them must run: without them the answer would be taken for what they have found."""
    hides_reasoning: bool = False
    """The caller wants no reasoning text, only the data with which the reasoning can be sent back."""
    summarizes_reasoning: bool = False
    """Reasoning is shown as a summary."""
    shows_logprobs: bool = False
    echoed: Mapping[str, Any] = {}
    """Members of the request that the answer repeats."""
    unpacked_bytes: int = 0
    """Of the reasoning that stands compressed in the caller's body."""
    reasoning_models: Mapping[str, str] = {}
    """The model that wrote an entry of `reasoning_details`, by the entry's path in the body of chat completions, if
    it is known."""


class ChatRequest(Prompt, frozen=True, kw_only=True):
    """A valid request. Absent members are None or empty; `body` has everything as it was sent."""

    model: str | None
    stream: bool
    include_usage: bool
    n: int = 1
    max_output_tokens: int | None = None
    """`max_completion_tokens`, else `max_tokens`."""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    user: str | None = None
    tool_choice: ToolChoice | None = None
    uses_legacy_functions: bool = False
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    modalities: tuple[str, ...] = ()
    audio: dict[str, Any] | None = None
    prediction: dict[str, Any] | None = None
    reasoning: Reasoning | None = None
    verbosity: str | None = None
    service_tier: str | None = None
    store: bool | None = None
    metadata: dict[str, str] | None = None
    web_search_options: dict[str, Any] | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    body: dict[str, Any]
    native: NativeRequest | None = None
    """None: the caller's own format is chat completions."""
    api: Literal["chat", "completions", "embeddings"] = "chat"
    """Which API of a provider can answer. Chat completions can answer `completions`, too."""
    prompts: int = 1
    """Of `completions`: each has its own message and its own choices, which `n` includes."""
    embedding: EmbeddingOptions | None = None
    """Of `embeddings`, which has no messages."""

    @property
    def prompt(self) -> Prompt:
        """A copy without the other members, so that `body` can be freed."""
        return Prompt(messages=self.messages, tools=self.tools, texts=self.texts, tokens=self.tokens)

    def messages_for(self, model: str) -> tuple[Message, ...]:
        """The messages for a model that accepts only reasoning entries of its own.

        An entry of another model gets a `format` that no provider uses: it is left out and named, like a foreign one.
        """
        models = self.native.reasoning_models if self.native is not None else {}
        others = {path for path, name in models.items() if name.rpartition("/")[2] != model.rpartition("/")[2]}
        if not others:
            return self.messages
        return tuple([_without_entries(message, i, others) for i, message in enumerate(self.messages)])

    @property
    def server_tools(self) -> tuple[ServerTool, ...]:
        return self.native.server_tools if self.native is not None else ()

    @property
    def unknown_members(self) -> tuple[str, ...]:
        """Members of the body that this class has no field for."""
        return tuple(name for name in self.body if name not in KNOWN_MEMBERS)

    def reasoning_path(self, member: str) -> str:
        """The JSON path of a `reasoning` member in the body; the effort can be in `reasoning_effort` instead."""
        sent = self.body.get("reasoning")
        is_long = isinstance(sent, dict) and sent.get(member) is not None
        return f"reasoning.{member}" if is_long else "reasoning_effort"


KNOWN_MEMBERS = frozenset(_Body.__struct_fields__) | {"stream_options", "tool_choice", "function_call"}
_READ = {"model", "messages", "stream", "n", "stop", "logit_bias", "tools", "modalities", "reasoning", "metadata"}
_TAKEN_AS_SENT = frozenset(_Body.__struct_fields__).intersection(ChatRequest.__struct_fields__) - _READ
"""Of these a request has only a few: to name all of them for each request takes longer than to read its messages."""


def read_request(body: dict[str, Any], rules: RequestRules = RequestRules()) -> ChatRequest:  # noqa: B008 (a frozen value)
    """The request. Raises `CallerError` with the path of the first invalid member."""
    sent = _read_body(body, rules)
    stream = rules.always_streams or bool(sent.stream)
    chat = ChatRequest(
        model=sent.model,
        messages=tuple([read_message(message, f"messages[{i}]") for i, message in enumerate(sent.messages)]),
        stream=stream,
        include_usage=_read_include_usage(body.get("stream_options"), stream, rules),
        n=sent.n or 1,
        max_output_tokens=sent.max_completion_tokens or sent.max_tokens,
        stop=(sent.stop,) if isinstance(sent.stop, str) else tuple(sent.stop or ()),
        logit_bias=_read_values(sent.logit_bias, float, "logit_bias"),
        tools=tuple(sent.tools or [Tool("function", function) for function in sent.functions or ()]),
        tool_choice=_read_tool_choice(body),
        uses_legacy_functions=bool(sent.functions) and not sent.tools,
        modalities=tuple(sent.modalities or ()),
        reasoning=_merge_reasoning(sent.reasoning, sent.reasoning_effort),
        metadata=_read_values(sent.metadata, str, "metadata"),
        body=body,
    )
    taken = _TAKEN_AS_SENT.intersection(body)
    # Not in one step: a call with `**` takes three times as long.
    return structs.replace(chat, **{name: getattr(sent, name) for name in taken}) if taken else chat


def _without_entries(message: Message, i: int, others: set[str]) -> Message:
    details = tuple(
        {**entry, "format": OF_ANOTHER_MODEL} if f"messages[{i}].reasoning_details[{j}]" in others else entry
        for j, entry in enumerate(message.reasoning_details)
    )
    return structs.replace(message, reasoning_details=details) if details else message


def refused_member(body: dict[str, Any]) -> CallerError:
    """The error for a body that has one of `REFUSED_MEMBERS`."""
    name = next(name for name in body if name in REFUSED_MEMBERS)
    return CallerError("unknown_parameter", f"Unrecognized request argument supplied: {name}", param=name)


def _read_body(body: dict[str, Any], rules: RequestRules) -> _Body:
    if not REFUSED_MEMBERS.isdisjoint(body):
        raise refused_member(body)
    sent = convert(body, _Body, "")
    if sent.model is None and rules.model_required:
        raise missing_parameter("model")
    if sent.n is not None and sent.n > rules.max_choices:
        raise CallerError("invalid_value", f"n must be at most {rules.max_choices}.", param="n")
    for i, tool in enumerate(sent.tools or ()):
        if tool.type == "function" and tool.function is None:
            raise missing_parameter(f"tools[{i}].function")
    response_format = sent.response_format
    if response_format is not None and response_format.type == "json_schema" and response_format.json_schema is None:
        raise missing_parameter("response_format.json_schema")
    return sent


def _read_values(members: dict[str, Any] | None, kind: type[T], path: str) -> dict[str, T] | None:
    if members is None:
        return None
    return {name: convert(value, kind, f"{path}.{name[:64]}") for name, value in members.items()}


def _read_include_usage(value: object, stream: bool, rules: RequestRules) -> bool:
    if value is None:
        return False
    if not rules.checks_stream_options:
        return isinstance(value, dict) and value.get("include_usage") is True
    options = convert(value, StreamOptions, "stream_options")
    if not stream:
        raise CallerError(
            "invalid_value",
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            param="stream_options",
        )
    return bool(options.include_usage)


def _read_tool_choice(body: dict[str, Any]) -> ToolChoice | None:
    if body.get("tool_choice") is not None:
        return _tool_choice_of(body["tool_choice"], "tool_choice")
    legacy = body.get("function_call")
    if legacy is None:
        return None
    if isinstance(legacy, str):
        return _choice_mode(legacy, ("none", "auto"), "function_call")
    return ToolChoice("function", convert(legacy, FunctionCall, "function_call").name)


def _tool_choice_of(value: Any, path: str) -> ToolChoice:
    if isinstance(value, str):
        return _choice_mode(value, ("none", "auto", "required", "any"), path)
    if not isinstance(value, dict):
        raise CallerError("invalid_type", f"{path} must be a string or an object.", param=path)
    kind = value.get("type")
    if kind == "allowed_tools":
        return _read_allowed_tools(value, path)
    name = _name_of(value)
    if name is None:
        raise missing_parameter(f"{path}.function.name")
    return ToolChoice("function", name)


def _read_allowed_tools(value: dict[str, Any], path: str) -> ToolChoice:
    if "allowed_tools" in value:
        value, path = value["allowed_tools"], f"{path}.allowed_tools"
    sent = convert(value, _AllowedTools, path)
    return ToolChoice(sent.mode, allowed=tuple(name for name in map(_name_of, sent.tools) if name))


def _name_of(value: dict[str, Any]) -> str | None:
    for member in (value.get("function"), value.get("custom"), value):
        if isinstance(member, dict) and isinstance(member.get("name"), str):
            return str(member["name"])
    return None


def _choice_mode(mode: str, allowed: Sequence[str], path: str) -> ToolChoice:
    if mode not in allowed:
        raise CallerError("invalid_value", f"{path} must be one of {', '.join(allowed)}, or an object.", param=path)
    return ToolChoice("required" if mode == "any" else mode)


def _merge_reasoning(sent: Reasoning | None, effort: Effort | None) -> Reasoning | None:
    if effort is None:
        return sent
    if sent is None:
        return Reasoning(effort=effort)
    return sent if sent.effort is not None else msgspec.structs.replace(sent, effort=effort)
