"""Messages to Gemini's `contents` and `systemInstruction`.

Gemini has two roles, `user` and `model`; consecutive messages of one role become one content with more parts. System
text is sent separately, wherever it was in the conversation. A tool result names its function, not its call, so the
name is looked up among the calls before it. Signatures go back to the parts that they came with (`signature`).
"""

from typing import Any

from streamweir.core.message import FunctionCall, ImagePart, Message, OtherPart, Part, RefusalPart, TextPart, ToolCall
from streamweir.core.request import ChatRequest
from streamweir.providers.base import object_in, read_arguments
from streamweir.providers.gemini import signature
from streamweir.providers.gemini.media import media_part


class Conversation:
    """The messages of a request, translated. `dropped` names what was left out."""

    def __init__(self, request: ChatRequest, *, model: str, is_vertex: bool, demands_signatures: bool) -> None:
        self.contents: list[dict[str, Any]] = []
        self.system: list[dict[str, Any]] = []
        self.dropped: list[str] = []
        self._is_vertex = is_vertex
        self._demands_signatures = demands_signatures
        self._names: dict[str, str] = {}
        for number, message in enumerate(request.messages if request.native is None else request.messages_for(model)):
            self._take(message, f"messages[{number}]")
        if not self.contents and self.system:
            # Gemini refuses a request without contents: a request with only instructions sends them as the user's text.
            self.contents = [{"role": "user", "parts": self.system}]
            self.system = []

    def _take(self, message: Message, path: str) -> None:
        if message.cache_control is not None:
            self.dropped.append(f"{path}.cache_control")
        if message.name is not None and message.role not in ("tool", "function"):
            self.dropped.append(f"{path}.name")
        match message.role:
            case "system" | "developer":
                self.system += self._parts(message, path, text_alone=True)
            case "user":
                self._add("user", self._parts(message, path))
            case "assistant":
                self._add("model", self._answer(message, path))
            case _:
                self._add("user", self._result(message, path))

    def _add(self, role: str, parts: list[dict[str, Any]]) -> None:
        if not parts:
            return
        if self.contents and self.contents[-1]["role"] == role:
            self.contents[-1]["parts"] += parts
        else:
            self.contents.append({"role": role, "parts": parts})

    def _parts(self, message: Message, path: str, *, text_alone: bool = False) -> list[dict[str, Any]]:
        parts = []
        is_list = not isinstance(message.content, str)
        for number, part in enumerate(message.parts):
            path_of_part = f"{path}.content[{number}]"
            made = self._part(part, path_of_part, text_alone)
            if made is None:
                self.dropped.append(path_of_part)
                continue
            if is_list and getattr(part, "cache_control", None) is not None:
                self.dropped.append(f"{path_of_part}.cache_control")
            if made != {"text": ""}:  # Vertex refuses it
                parts.append(made)
        return parts

    def _part(self, part: Part, path_of_part: str, text_alone: bool) -> dict[str, Any] | None:
        if isinstance(part, TextPart):
            return {"text": part.text}
        if isinstance(part, RefusalPart):
            return {"text": part.refusal}
        if isinstance(part, OtherPart) or text_alone:
            return None
        made = media_part(part, needs_kind=self._is_vertex)
        if made is not None and isinstance(part, ImagePart) and part.image_url.detail not in (None, "auto"):
            self.dropped.append(f"{path_of_part}.image_url.detail")
        return made

    def _answer(self, message: Message, path: str) -> list[dict[str, Any]]:
        """A message of the model: its text, split where a signature belongs to a piece of it, then its calls."""
        own_parts = self._parts(message, path)
        others = [part for part in own_parts if "text" not in part]
        text = "".join(part["text"] for part in own_parts if "text" in part) + (message.refusal or "")
        calls = list(message.tool_calls)
        if message.function_call is not None:
            calls.append(ToolCall("", function=message.function_call))
        signed = signature.read_signatures(message.reasoning_details, [call.id for call in calls], len(text))
        self.dropped += [f"{path}.reasoning_details[{number}]" for number in signed.unplaced]
        if message.reasoning_content and not (signed.calls or signed.texts):  # only signatures are sent back
            self.dropped.append(f"{path}.{message.reasoning_member}")
        parts = [*_cut_text(text, signed.texts), *others]
        for ordinal, call in enumerate(calls):
            part = self._call(call)
            sign = signed.calls.get(ordinal)
            if sign is None and ordinal == 0 and self._demands_signatures:
                sign = signature.SKIPS_VALIDATION
            if sign is not None:
                part["thoughtSignature"] = sign
            parts.append(part)
        return parts

    def _call(self, call: ToolCall) -> dict[str, Any]:
        if call.custom is not None:
            made: dict[str, Any] = {"name": call.custom.name, "args": {"input": call.custom.input}}
        else:
            function = call.function or FunctionCall("")
            made = {"name": function.name, "args": read_arguments(function.arguments)}
        if call.id:
            self._names[call.id] = made["name"]
            if not self._is_vertex:  # Vertex refuses the id
                made["id"] = call.id
        return {"functionCall": made}

    def _result(self, message: Message, path: str) -> list[dict[str, Any]]:
        own_parts = self._parts(message, path)
        text = "".join(part["text"] for part in own_parts if "text" in part)
        id = message.tool_call_id or ""
        result: dict[str, Any] = {"name": self._names.get(id) or message.name or id}
        response = None if message.is_error else object_in(text)
        result["response"] = {"error" if message.is_error else "result": text} if response is None else response
        if id and not self._is_vertex:
            result["id"] = id
        # Before Gemini 3 a result cannot contain an image; beside the result, all models accept it.
        return [{"functionResponse": result}, *(part for part in own_parts if "text" not in part)]


def _cut_text(text: str, signed: list[tuple[int, int, str]]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    at = 0
    for start, end, sign in signed:
        start, end = max(start, at), max(end, at)
        if start > at:
            parts.append({"text": text[at:start]})
        parts.append({"text": text[start:end], "thoughtSignature": sign})
        at = end
    if text[at:]:
        parts.append({"text": text[at:]})
    return parts
