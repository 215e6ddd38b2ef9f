"""The members of an OpenAI-style frame that are used here, as types.

There is one typed decode per frame into the Structs below; other members are skipped. Vendors send wrong types: such a
frame is decoded again without types, and `_usable` keeps the members that can be used. A whole answer has the same
format, with `message` instead of `delta`. This module does not interpret frames: that is the decoder's part.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, TypeVar, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from streamweir.core.events import MAX_CHOICES
from streamweir.wire import jsonio

S = TypeVar("S", bound=Struct)


class FunctionPiece(Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | list[Any] | None = None
    """quirk: some vendors send an object (fixture openai-compatible/tool_arguments_as_object)."""


class CustomPiece(Struct, gc=False):
    name: str | None = None
    input: str | None = None


class CallPiece(Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: FunctionPiece | None = None
    custom: CustomPiece | None = None


class Delta(Struct, gc=False):
    content: str | list[Any] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    tool_calls: list[CallPiece] | None = None
    function_call: FunctionPiece | None = None
    annotations: list[Any] | None = None
    audio: dict[str, Any] | None = None
    images: list[Any] | None = None
    reasoning_encrypted: Any = None


class Choice(Struct, gc=False):
    index: Annotated[int, Meta(ge=0, lt=MAX_CHOICES)] = 0
    delta: Delta | None = None
    message: Delta | None = None
    """The whole message so far, beside the delta (Perplexity, Writer) or instead of it."""
    finish_reason: str | None = None
    stop_reason: Any = None
    """vLLM: the stop sequence that was hit, or the number of a token. For other vendors its meaning is not known."""
    logprobs: dict[str, Any] | None | UnsetType = UNSET
    content_filter_results: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    """quirk: Moonshot reports it here (fixture moonshot/usage_inside_a_choice)."""
    error: Any = None


class Chunk(Struct, gc=False):
    id: str | None = None
    model: str | None = None
    created: int | None = None
    system_fingerprint: str | None | UnsetType = UNSET
    service_tier: str | None | UnsetType = UNSET
    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    x_groq: dict[str, Any] | None = None
    error: Any = None
    type: Any = None
    code: Any = None
    message: Any = None
    citations: list[Any] | None = None
    search_results: list[Any] | None = None
    prompt_filter_results: list[Any] | None = None
    moderation: Any = None


def read_chunk(value: Any) -> Chunk:
    """A chunk from an untyped document, streamed or whole."""
    if not isinstance(value, Mapping):
        raise jsonio.InvalidJson("a frame is not an object")
    return _usable(Chunk, value, {"choices": lambda choices: _each(choices, _choice)})


decode_chunk = jsonio.typed(Chunk, read_chunk)


def _choice(value: Mapping[str, Any]) -> Choice:
    return _usable(Choice, value, {"delta": _delta, "message": _delta})


def _delta(value: Any) -> Delta | None:
    if not isinstance(value, Mapping):
        return None
    readers = {"content": _content, "tool_calls": lambda calls: _each(calls, _call), "reasoning_details": _objects}
    return _usable(Delta, value, readers)


def _call(value: Mapping[str, Any]) -> CallPiece:
    return _usable(CallPiece, value, {"function": lambda function: _object(FunctionPiece, function)})


def _content(value: Any) -> str | list[Any] | None:
    if isinstance(value, Mapping):
        return [value]
    return value if isinstance(value, str | list) else None


def _objects(value: Any) -> list[dict[str, Any]] | None:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else None


def _object(model: type[S], value: Any) -> S | None:
    return _usable(model, value, {}) if isinstance(value, Mapping) else None


def _each(value: Any, read: Callable[[Mapping[str, Any]], S]) -> list[S] | None:
    """The objects of a list; an object instead of a list counts as a list of one."""
    if isinstance(value, Mapping):
        value = [value]
    return [read(item) for item in value if isinstance(item, Mapping)] if isinstance(value, list) else None


_fields = cache(msgspec.structs.fields)
"""Cached: reading the annotations of a model takes longer than reading an answer."""


def _usable(model: type[S], value: Mapping[str, Any], readers: Mapping[str, Callable[[Any], Any]]) -> S:
    """The Struct from the members that have the right type, or that their reader can convert."""
    kept: dict[str, Any] = {}
    for field in _fields(model):
        if field.name not in value:
            continue
        member = value[field.name]
        reader = readers.get(field.name)
        if reader is not None:
            kept[field.name] = reader(member)
        elif isinstance(member, str):
            # msgspec refuses half of a surrogate pair, but here it is a valid text (fixture openai/lone_surrogate).
            if field.type is Any or str in get_args(field.type):
                kept[field.name] = member
        else:
            try:
                kept[field.name] = msgspec.convert(member, field.type)
            except (msgspec.ValidationError, UnicodeEncodeError):
                continue
    return model(**kept)
