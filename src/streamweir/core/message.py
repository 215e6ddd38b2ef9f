"""One message of a request: its roles, its content parts, its tool calls.

A `SentMessage` has the right types; `read_message` validates the rest and returns the `Message` that providers use.
Parts of an unknown type are kept unchanged. This module does not depend on the request around the message, nor on
what a provider supports.
"""

from typing import Any, Literal

from msgspec import Struct

from streamweir.core.errors import CallerError
from streamweir.core.validation import convert, missing_parameter

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]


class TextPart(Struct, frozen=True):
    text: str
    cache_control: dict[str, Any] | None = None


class ImageUrl(Struct, frozen=True):
    url: str
    detail: str | None = None


class ImagePart(Struct, frozen=True):
    image_url: ImageUrl
    cache_control: dict[str, Any] | None = None


class InputAudio(Struct, frozen=True):
    data: str
    format: str


class AudioPart(Struct, frozen=True):
    input_audio: InputAudio
    cache_control: dict[str, Any] | None = None


class FileRef(Struct, frozen=True):
    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class FilePart(Struct, frozen=True):
    file: FileRef
    cache_control: dict[str, Any] | None = None


class RefusalPart(Struct, frozen=True):
    refusal: str


class OtherPart(Struct, frozen=True):
    """A part of an unknown type: for providers that accept the body unchanged."""

    type: str
    members: dict[str, Any]


Part = TextPart | ImagePart | AudioPart | FilePart | RefusalPart | OtherPart


class FunctionCall(Struct, frozen=True):
    name: str
    arguments: str = ""


class CustomCall(Struct, frozen=True):
    name: str
    input: str = ""


class ToolCall(Struct, frozen=True):
    """A tool call of the model on an earlier turn."""

    id: str
    type: str = "function"
    function: FunctionCall | None = None
    custom: CustomCall | None = None


class Message(Struct, frozen=True, kw_only=True):
    role: Role
    content: str | tuple[Part, ...] | None = None
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    function_call: FunctionCall | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning_member: str = "reasoning_content"
    """The name of the member in which the reasoning was sent: vendors use two."""
    reasoning_details: tuple[dict[str, Any], ...] = ()
    cache_control: dict[str, Any] | None = None
    is_error: bool = False
    """A tool result that reports a failure: an extension, for providers that support it."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The content as parts; a plain string is one text part."""
        if self.content is None:
            return ()
        if isinstance(self.content, str):
            return (TextPart(self.content, self.cache_control),)
        return self.content


class SentMessage(Struct, kw_only=True):
    role: Role
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    function_call: FunctionCall | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    cache_control: dict[str, Any] | None = None
    is_error: bool | None = None
    audio: dict[str, Any] | None = None


def read_message(sent: SentMessage, path: str) -> Message:
    has_content = sent.content is not None
    if sent.role == "assistant":
        has_content = has_content or bool(
            sent.tool_calls
            or sent.function_call
            or sent.refusal
            or sent.audio
            or sent.reasoning_details
            or sent.reasoning_content
            or sent.reasoning
        )
    if not has_content and sent.role != "function":
        raise missing_parameter(f"{path}.content")
    if sent.role == "tool" and not sent.tool_call_id:
        raise missing_parameter(f"{path}.tool_call_id")
    if sent.role == "function" and not sent.name:
        raise missing_parameter(f"{path}.name")
    for i, call in enumerate(sent.tool_calls or ()):
        if call.function is None and call.custom is None:
            raise missing_parameter(f"{path}.tool_calls[{i}].{'custom' if call.type == 'custom' else 'function'}")
    content: str | tuple[Part, ...] | None
    if isinstance(sent.content, list):
        content = tuple([_read_part(part, f"{path}.content[{i}]") for i, part in enumerate(sent.content)])
    else:
        content = sent.content
    is_alias = not sent.reasoning_content and bool(sent.reasoning)
    return Message(
        role=sent.role,
        content=content,
        name=sent.name,
        tool_calls=tuple(sent.tool_calls or ()),
        tool_call_id=sent.tool_call_id,
        function_call=sent.function_call,
        refusal=sent.refusal,
        reasoning_content=sent.reasoning if is_alias else sent.reasoning_content,
        reasoning_member="reasoning" if is_alias else "reasoning_content",
        reasoning_details=tuple(sent.reasoning_details or ()),
        cache_control=sent.cache_control,
        is_error=bool(sent.is_error),
    )


PART_TYPES: dict[str, type[Part]] = {
    "text": TextPart,
    "image_url": ImagePart,
    "input_audio": AudioPart,
    "file": FilePart,
    "refusal": RefusalPart,
}


def _read_part(value: dict[str, Any], path: str) -> Part:
    kind = value.get("type")
    if kind is None:
        raise missing_parameter(f"{path}.type")
    if not isinstance(kind, str):
        raise CallerError("invalid_type", "The type of a content part must be a string.", param=f"{path}.type")
    model = PART_TYPES.get(kind)
    if model is None:
        return OtherPart(kind, value)
    return convert(value, model, path)
