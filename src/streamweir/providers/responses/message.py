"""The conversation: chat messages to the items of `input`.

Every message is an item, and so is every call, every result and every piece of reasoning. Reasoning is sent back
unchanged: encrypted, without its id (a provider that stores nothing cannot find it), and at its earlier position.
Reasoning of other families, and parts without a counterpart, are left out and named.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from streamweir.core.message import AudioPart, FilePart, ImagePart, Message, Part, RefusalPart, TextPart, ToolCall
from streamweir.providers.openai.vendor import ResponsesWire

Items = list[dict[str, Any]]
_MAX_ID_LENGTH = 64


def write_items(messages: Sequence[Message], wire: ResponsesWire, system_role: str, dropped: list[str]) -> Items:
    writer = _Writer(wire, system_role, dropped)
    for i, message in enumerate(messages):
        writer.add(message, f"messages[{i}]", i)
    return writer.items


class _Writer:
    def __init__(self, wire: ResponsesWire, system_role: str, dropped: list[str]) -> None:
        self.items: Items = []
        self._wire = wire
        self._system_role = system_role
        self._dropped = dropped
        self._custom: set[str] = set()  # the ids of free-form calls
        self._legacy_id = ""

    def add(self, message: Message, path: str, i: int) -> None:
        if message.name is not None and message.role != "function":
            self._dropped.append(f"{path}.name")
        if message.cache_control is not None:
            self._dropped.append(f"{path}.cache_control")
        match message.role:
            case "system" | "developer":
                self._add_message(self._system_role, message, path)
            case "user":
                self._add_message("user", message, path)
            case "assistant":
                if message.function_call is not None:
                    self._legacy_id = f"call_{i}"
                self._add_turn(message, path)
            case "tool":
                self._add_result(message, message.tool_call_id or "", path)
            case "function":  # legacy: it has no id, and is the result of the call before it
                self._add_result(message, self._legacy_id, path)

    def _add_message(self, role: str, message: Message, path: str) -> None:
        content = self._parts(message, path)
        if content:
            self.items.append({"type": "message", "role": role, "content": content})

    def _add_turn(self, message: Message, path: str) -> None:
        reasoning = self._reasoning(message, path)
        text_items = self._text_items(message, path)
        rest: list[Items] = [
            *([text_items] if message.content or text_items else []),
            *([call] for call in self._calls(message)),
        ]
        # Positions count reasoning too, also reasoning that is left out.
        taken = sorted({index for entry in message.reasoning_details if isinstance(index := entry.get("index"), int)})
        sent = 0
        for index, item in reasoning:
            while isinstance(index, int) and sent < len(rest) and sent < index - bisect_left(taken, index):
                self.items += rest[sent]
                sent += 1
            self.items.append(item)
        for others in rest[sent:]:
            self.items += others

    def _text_items(self, message: Message, path: str) -> Items:
        self._drop_marks(message, path)
        content: Items = []
        for i, part in enumerate(message.parts):
            if isinstance(part, TextPart | RefusalPart):
                content += _own_part(part)
            else:
                self._dropped.append(f"{path}.content[{i}]")
        if message.refusal:
            content.append({"type": "refusal", "refusal": message.refusal})
        return [{"type": "message", "role": "assistant", "content": content}] if content else []

    def _calls(self, message: Message) -> Items:
        calls = [self._call(call) for call in message.tool_calls]
        if message.function_call is not None:
            name, arguments = message.function_call.name, message.function_call.arguments
            calls.append(_function_call(self._legacy_id, name, arguments))
        return calls

    def _call(self, call: ToolCall) -> dict[str, Any]:
        if call.function is not None or call.custom is None:
            function = call.function
            return _function_call(call.id, function.name if function else "", function.arguments if function else "")
        self._custom.add(call.id)
        call_id, custom = _id_of(call.id), call.custom
        return {"type": "custom_tool_call", "call_id": call_id, "name": custom.name, "input": custom.input}

    def _add_result(self, message: Message, call_id: str, path: str) -> None:
        if message.is_error:
            self._dropped.append(f"{path}.is_error")
        kind = "custom_tool_call_output" if call_id in self._custom else "function_call_output"
        output: str | Items = message.content if isinstance(message.content, str) else ""
        if isinstance(message.content, tuple):
            output = self._parts(message, path) or ""
        self.items.append({"type": kind, "call_id": _id_of(call_id), "output": output})

    def _parts(self, message: Message, path: str) -> Items:
        self._drop_marks(message, path)
        written: Items = []
        for i, part in enumerate(message.parts):
            item = _part(part)
            if item is None:
                self._dropped.append(f"{path}.content[{i}]")
            else:
                written.append(item)
        return written

    def _drop_marks(self, message: Message, path: str) -> None:
        for i, part in enumerate(message.content if isinstance(message.content, tuple) else ()):
            if getattr(part, "cache_control", None) is not None:
                self._dropped.append(f"{path}.content[{i}].cache_control")

    def _reasoning(self, message: Message, path: str) -> list[tuple[object, dict[str, Any]]]:
        """The items of `reasoning_details`, each with its position. Entries with the same position are one item."""
        found: list[tuple[object, dict[str, Any]]] = []
        paths: list[list[str]] = []
        for j, entry in enumerate(message.reasoning_details):
            at = f"{path}.reasoning_details[{j}]"
            kind, index = entry.get("type"), entry.get("index")
            text = _text_of(entry, "summary") if kind == "reasoning.summary" else None
            data = _text_of(entry, "data") if kind == "reasoning.encrypted" else None
            if entry.get("format") != self._wire.reasoning_format or (text is None and data is None):
                self._dropped.append(at)
                continue
            if not found or index is None or found[-1][0] != index or "encrypted_content" in found[-1][1]:
                found.append((index, {"type": "reasoning", "summary": []}))
                paths.append([])
            item = found[-1][1]
            paths[-1].append(at)
            if data is not None:
                item["encrypted_content"] = data
            elif text and item["summary"]:  # pieces of one
                item["summary"][0]["text"] += text
            elif text:
                item["summary"].append({"type": "summary_text", "text": text})
        self._dropped += [
            at for (_, item), ats in zip(found, paths, strict=True) if "encrypted_content" not in item for at in ats
        ]
        kept = [each for each in found if "encrypted_content" in each[1]]  # providers do not take a summary alone
        if message.reasoning_content and not kept:
            if self._wire.takes_reasoning_text:
                part = {"type": "reasoning_text", "text": message.reasoning_content}
                return [(0, {"type": "reasoning", "summary": [], "content": [part]})]
            if not message.reasoning_details:
                self._dropped.append(f"{path}.{message.reasoning_member}")
        return kept


def _part(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart():
            return {"type": "input_text", "text": part.text}
        case RefusalPart():
            return {"type": "input_text", "text": part.refusal}
        case ImagePart():
            return {
                "type": "input_image",
                "image_url": part.image_url.url,
                "detail": part.image_url.detail or "auto",
            }
        case FilePart():
            return _file(part)
        case AudioPart():
            audio = {"data": part.input_audio.data, "format": part.input_audio.format}
            return {"type": "input_audio", "input_audio": audio}
    return None


def _file(part: FilePart) -> dict[str, Any] | None:
    file = part.file
    written: dict[str, Any] = {"type": "input_file"}
    if file.file_id:
        return {**written, "file_id": file.file_id}
    if not file.file_data:
        return None
    if file.file_data[:8].lower().startswith(("https://", "http://")):
        return {**written, "file_url": file.file_data}
    if file.filename:
        written["filename"] = file.filename
    return {**written, "file_data": file.file_data}


def _own_part(part: TextPart | RefusalPart) -> Items:
    """Of the text of the assistant."""
    if isinstance(part, RefusalPart):
        return [{"type": "refusal", "refusal": part.refusal}]
    return [{"type": "output_text", "text": part.text}] if part.text else []


def _function_call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    arguments = arguments if arguments.strip() else "{}"
    return {"type": "function_call", "call_id": _id_of(call_id), "name": name, "arguments": arguments}


def _id_of(call_id: str) -> str:
    """An id that is too long for OpenAI is shortened, in calls and results alike."""
    if len(call_id) <= _MAX_ID_LENGTH:
        return call_id
    return "call_" + hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:48]


def _text_of(entry: Mapping[str, Any], name: str) -> str | None:
    value = entry.get(name)
    return value if isinstance(value, str) else None
