"""What a caller asked for and why it was refused, for the record.

Never what was said: numbers, modes and names alone, and of a refusal the gateway's own words. Names are the caller's:
they are sanitized, shortened, and at most so many.
"""

from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from streamweir.core.errors import StreamweirError
from streamweir.core.request import ChatRequest, Reasoning, Tool
from streamweir.server.request.attempt.attempt_report import without_quotations
from streamweir.server.telemetry.sanitize import clean
from streamweir.store.db.request_log import MAX_NAME_LENGTH, MAX_WORD_LENGTH, ParametersView, RefusalView
from streamweir.wire import jsonio

MAX_READ_BYTES = 1 << 20
"""Of a refused body. What is not asked for is skipped, at about a millisecond for so many."""
MAX_TOOLS = 32
MAX_TOOL_LENGTH = 64
MAX_MESSAGE_LENGTH = 300
_LARGEST = 2**53
"""Of a whole number that every reader of JSON takes as it is."""
_AS_SENT = frozenset(
    {
        "temperature",
        "top_p",
        "top_k",
        "presence_penalty",
        "frequency_penalty",
        "logprobs",
        "top_logprobs",
        "parallel_tool_calls",
        "seed",
    }
)
_NO_PARAMETERS = frozenset({"model", "messages", "stream", "stream_options", "user"})
"""The members of a body of chat completions that are not parameters."""


class _Sent(Struct):
    model: str | None = None


_decode = msgspec.json.Decoder(_Sent).decode


def model_in(body: bytes) -> str | None:
    """The model that a refused body names, as far as that can be read. Nobody has checked the name."""
    if not body or len(body) > MAX_READ_BYTES:
        return None
    try:
        model = _decode(body).model
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # neither JSON, nor an object, nor a name
        return None
    return clean(model, MAX_NAME_LENGTH) if model else None


def refusal_of(error: StreamweirError, *, has_content: bool) -> str:
    """`has_content`: the key stores prompts and answers."""
    message = error.message if has_content else without_quotations(error.message)
    refusal = RefusalView(message=clean(message, MAX_MESSAGE_LENGTH))
    if error.param is not None:
        refusal.param = clean(error.param, MAX_NAME_LENGTH)
    if (budget := (error.details or {}).get("budget")) is not None:
        refusal.budget = budget["scope"]
    return jsonio.encode(refusal).decode()


def parameters_of(chat: ChatRequest) -> str:
    if chat.api == "chat" and chat.native is None and _NO_PARAMETERS.issuperset(chat.body):
        return _only_messages(len(chat.messages))  # most requests, and as good as always with the same number
    found: dict[str, Any] = {}
    for name in _AS_SENT.intersection(chat.body):  # a request has only a few of them
        value = getattr(chat, name)
        if value is not None and -_LARGEST < value < _LARGEST:
            found[name] = value
    if chat.max_output_tokens:
        found["max_tokens"] = chat.max_output_tokens
    if chat.n > 1 and chat.api == "chat":
        found["n"] = chat.n
    if chat.stop:
        found["stop"] = len(chat.stop)
    if chat.logit_bias:
        found["logit_bias"] = len(chat.logit_bias)
    if chat.reasoning is not None:
        _add_reasoning(found, chat.reasoning)
    if chat.verbosity is not None:
        found["verbosity"] = clean(chat.verbosity, MAX_WORD_LENGTH)
    if chat.response_format is not None:
        found["response_format"] = chat.response_format.type
    if chat.modalities:
        found["modalities"] = [clean(each, MAX_WORD_LENGTH) for each in chat.modalities[:MAX_TOOLS]]
    if chat.tools or (chat.native is not None and chat.native.server_tools):
        _add_tools(found, chat)
    if (choice := chat.tool_choice) is not None:
        found["tool_choice"] = clean(choice.name or choice.mode, MAX_TOOL_LENGTH)
    if (embedding := chat.embedding) is not None and embedding.dimensions is not None:
        found["dimensions"] = embedding.dimensions
    messages = len(embedding.inputs) if embedding is not None else len(chat.messages)
    return jsonio.encode(ParametersView(messages=messages, **found)).decode()


@lru_cache(maxsize=256)
def _only_messages(count: int) -> str:
    return jsonio.encode(ParametersView(messages=count)).decode()


def _add_reasoning(found: dict[str, Any], reasoning: Reasoning) -> None:
    if reasoning.effort is not None:
        found["effort"] = clean(reasoning.effort, MAX_WORD_LENGTH)
    if reasoning.max_tokens is not None:
        found["reasoning_tokens"] = reasoning.max_tokens


def _add_tools(found: dict[str, Any], chat: ChatRequest) -> None:
    own = chat.native.tool_names if chat.native is not None else {}
    names = [own.get(name := _name_of(tool), name) for tool in chat.tools[:MAX_TOOLS]]
    names += [tool.kind for tool in chat.server_tools[: MAX_TOOLS - len(names)]]
    found["tools"] = [clean(name, MAX_TOOL_LENGTH) for name in names]
    count = len(chat.tools) + len(chat.server_tools)
    if count > len(names):
        found["tool_count"] = count


def _name_of(tool: Tool) -> str:
    """A tool that a provider runs is known by its type."""
    if tool.function is not None:
        return tool.function.name
    name = tool.custom.get("name") if tool.custom is not None else None
    return name if isinstance(name, str) else tool.type
