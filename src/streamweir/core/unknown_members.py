"""Nested members of a request for which `ChatRequest` has no field.

A provider with another protocol writes its request from the typed view, `ChatRequest`. A member without a field is
lost there, and every lost member must be reported. So this module lists them by their JSON path. It does not list
members at the top of the body, because providers take some of them (`ChatRequest.unknown_members`).
"""

from collections.abc import Iterable
from typing import Any

from streamweir.core.message import PART_TYPES, FileRef, FunctionCall, ImageUrl, InputAudio, Message, ToolCall
from streamweir.core.request import ChatRequest, Function, JsonSchema, Reasoning, ResponseFormat, Tool

_EMPTY: tuple[Any, ...] = (None, False, "", [], {})
"""Values without meaning, for any member."""

_MESSAGE = {*Message.__struct_fields__, "reasoning"} - {"reasoning_member"}
_CALL = {*ToolCall.__struct_fields__, "index"}
"""Clients keep `index` from the streamed delta; the order of the list has the same information."""
_INNER: dict[str, tuple[str, ...]] = {
    # The object that a content part holds, by its name.
    "image_url": ImageUrl.__struct_fields__,
    "input_audio": InputAudio.__struct_fields__,
    "file": FileRef.__struct_fields__,
}


def unknown_paths(request: ChatRequest) -> list[str]:
    body = request.body
    paths: list[str] = []
    for i, message in enumerate(body["messages"]):
        paths += _unknown_in_message(message, f"messages[{i}]")
    for i, tool in enumerate(body.get("tools") or ()):
        if isinstance(tool.get("function"), dict):  # others are sent or left out as a whole
            paths += _unknown_in(tool, Tool.__struct_fields__, f"tools[{i}]")
            paths += _unknown_in(tool["function"], Function.__struct_fields__, f"tools[{i}].function")
    if request.uses_legacy_functions:
        for i, function in enumerate(body["functions"]):
            paths += _unknown_in(function, Function.__struct_fields__, f"functions[{i}]")
    elif body.get("functions"):
        paths.append("functions")  # `tools` take precedence
    if body.get("tool_choice") is not None and body.get("function_call") is not None:
        paths.append("function_call")
    form = body.get("response_format")
    paths += _unknown_in(form, ResponseFormat.__struct_fields__, "response_format")
    if isinstance(form, dict):
        paths += _unknown_in(form.get("json_schema"), JsonSchema.__struct_fields__, "response_format.json_schema")
    paths += _unknown_in(body.get("reasoning"), Reasoning.__struct_fields__, "reasoning")
    paths += _unknown_in(body.get("stream_options"), ("include_usage",), "stream_options")
    return paths


def _unknown_in_message(message: dict[str, Any], path: str) -> list[str]:
    paths = _unknown_in(message, _MESSAGE, path)
    content = message.get("content")
    for i, part in enumerate(content if isinstance(content, list) else ()):
        model = PART_TYPES.get(part["type"])
        if model is not None:
            paths += _unknown_in(part, {*model.__struct_fields__, "type"}, f"{path}.content[{i}]")
            inner = part["type"]
            paths += _unknown_in(part.get(inner), _INNER.get(inner, ()), f"{path}.content[{i}].{inner}")
    for i, call in enumerate(message.get("tool_calls") or ()):
        paths += _unknown_in(call, _CALL, f"{path}.tool_calls[{i}]")
        paths += _unknown_in(call.get("function"), FunctionCall.__struct_fields__, f"{path}.tool_calls[{i}].function")
    return paths


def _unknown_in(value: object, read: Iterable[str], path: str) -> list[str]:
    if not isinstance(value, dict):
        return []
    known = set(read)
    return [f"{path}.{name}" for name, member in value.items() if name not in known and member not in _EMPTY]
