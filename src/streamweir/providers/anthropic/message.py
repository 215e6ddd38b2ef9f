"""The conversation: OpenAI's messages to Anthropic's `system` and `messages`.

Anthropic has two roles, which alternate: consecutive messages of one role are joined into one message with several
blocks. System and developer texts are sent separately, in `system`. Tool results are blocks of the user's message and
come first in it. The assistant's thinking is sent back in its original blocks, unchanged and with its signature,
because Anthropic refuses it otherwise (docs/spec/quirks.md Q37).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from streamweir.core.message import Message, ToolCall
from streamweir.providers.anthropic.content import DroppedMembers, blocks_of, text_block, text_blocks_of
from streamweir.providers.base import read_arguments
from streamweir.wire.messages import REASONING_FORMAT as FORMAT

_NOT_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")

Blocks = list[dict[str, Any]]


class Conversation:
    """The result of `read_messages`. `system` is empty if there is none."""

    __slots__ = ("_legacy_id", "messages", "system")

    def __init__(self) -> None:
        self.system: Blocks = []
        self.messages: list[tuple[str, Blocks]] = []
        self._legacy_id = ""

    def add(self, i: int, message: Message, drops: DroppedMembers) -> None:
        path = f"messages[{i}]"
        if message.name is not None and message.role != "function":
            drops.paths.append(f"{path}.name")
        match message.role:
            case "system" | "developer":
                self.system += _marked(text_blocks_of(message.parts, f"{path}.content", drops), message)
            case "assistant":
                if message.function_call is not None:
                    self._legacy_id = f"call_{i}"
                self._put("assistant", _assistant_blocks(message, self._legacy_id, path, drops))
            case "tool":
                self._put("user", [_result_block(message, message.tool_call_id or "", path, drops)])
            case "function":  # legacy: it has no id, and belongs to the call before it
                self._put("user", [_result_block(message, self._legacy_id, path, drops)])
            case "user":
                self._put("user", _marked(blocks_of(message.parts, f"{path}.content", drops), message))

    def _put(self, role: str, blocks: Blocks) -> None:
        if not blocks:
            return
        if self.messages and self.messages[-1][0] == role:
            self.messages[-1][1].extend(blocks)
        else:
            self.messages.append((role, blocks))

    @property
    def continues_without_thinking(self) -> bool:
        """The turn continues after tool calls without the thinking of those calls: then a budget is refused."""
        has_results = False
        for role, blocks in reversed(self.messages):
            kinds = {block["type"] for block in blocks}
            if role == "user" and "tool_result" not in kinds:
                break
            if kinds & {"thinking", "redacted_thinking"}:
                return False
            has_results = has_results or role == "user"
        return has_results

    def write(self, body: dict[str, Any]) -> None:
        if not self.messages and self.system:
            # OpenAI accepts a request with only an instruction; Anthropic requires a user message.
            self.messages, self.system = [("user", self.system)], []
        if self.system:
            body["system"] = _written(self.system)
        for role, blocks in self.messages:
            if role == "user":
                blocks.sort(key=lambda block: block["type"] != "tool_result")
        if self.messages and self.messages[-1][0] == "assistant":
            _strip_end(self.messages[-1][1])
        body["messages"] = [{"role": role, "content": _written(blocks)} for role, blocks in self.messages]


def read_messages(messages: Sequence[Message], drops: DroppedMembers) -> Conversation:
    conversation = Conversation()
    for i, message in enumerate(messages):
        conversation.add(i, message, drops)
    return conversation


def _assistant_blocks(message: Message, legacy_id: str, path: str, drops: DroppedMembers) -> Blocks:
    thinking_blocks = _thinking_blocks(message, path, drops)
    text_blocks = text_blocks_of(message.parts, f"{path}.content", drops)
    refusal = text_block(message.refusal or "")
    if refusal is not None:
        text_blocks.append(refusal)
    calls = [_call_block(call) for call in message.tool_calls]
    if message.function_call is not None:
        call = message.function_call
        calls.append({"type": "tool_use", "id": legacy_id, "name": call.name, "input": read_arguments(call.arguments)})
    _marked(text_blocks or calls, message)
    # For positions (see `block.py`) the text counts as one block, even if it is blank and not sent.
    rest: list[Blocks] = [*([text_blocks] if message.content or text_blocks else []), *([call] for call in calls)]
    blocks: Blocks = []
    position = 0
    for index, thinking_block in thinking_blocks:
        while isinstance(index, int) and position < index and rest:
            blocks += rest.pop(0)
            position += 1
        blocks.append(thinking_block)
        position += 1
    for others in rest:
        blocks += others
    return blocks


def _thinking_blocks(message: Message, path: str, drops: DroppedMembers) -> list[tuple[object, dict[str, Any]]]:
    """The blocks of `reasoning_details`, each with its position. Pieces of one block are joined."""
    thinking_blocks: list[tuple[object, dict[str, Any]]] = []
    paths: list[str] = []
    for j, entry in enumerate(message.reasoning_details):
        at = f"{path}.reasoning_details[{j}]"
        if entry.get("format") not in (None, FORMAT):
            drops.paths.append(at)
            continue
        index = entry.get("index")
        if entry.get("type") == "reasoning.encrypted" and isinstance(entry.get("data"), str):
            thinking_blocks.append((index, {"type": "redacted_thinking", "data": entry["data"]}))
            paths.append(at)
        elif entry.get("type") == "reasoning.text":
            last = thinking_blocks[-1] if thinking_blocks else None
            if last is None or last[0] != index or last[1]["type"] != "thinking" or last[1]["signature"]:
                last = (index, {"type": "thinking", "thinking": "", "signature": ""})
                thinking_blocks.append(last)
                paths.append(at)
            last[1]["thinking"] += _text_of(entry, "text")
            last[1]["signature"] = _text_of(entry, "signature")
        else:
            drops.paths.append(at)
    kept = [thinking_block for thinking_block in thinking_blocks if thinking_block[1].get("signature") != ""]
    drops.paths += [
        at
        for at, thinking_block in zip(paths, thinking_blocks, strict=True)
        if thinking_block[1].get("signature") == ""
    ]
    if message.reasoning_content and not thinking_blocks:
        drops.paths.append(f"{path}.{message.reasoning_member}")  # without a signature it is refused
    return kept


def _call_block(call: ToolCall) -> dict[str, Any]:
    if call.function is not None:
        name, arguments = call.function.name, read_arguments(call.function.arguments)
    else:
        # A free-form call that another model made: the input of Anthropic's calls is always an object.
        name, arguments = (call.custom.name, {"input": call.custom.input}) if call.custom is not None else ("", {})
    return {"type": "tool_use", "id": _id_of(call.id), "name": name, "input": arguments}


def _result_block(message: Message, call_id: str, path: str, drops: DroppedMembers) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": _id_of(call_id)}
    if isinstance(message.content, str):
        if message.content.strip():
            block["content"] = message.content
    else:
        content = blocks_of(message.parts, f"{path}.content", drops)
        if content:
            block["content"] = content
    if message.is_error:
        block["is_error"] = True
    if message.cache_control is not None:
        block["cache_control"] = message.cache_control
    return block


def _marked(blocks: Blocks, message: Message) -> Blocks:
    """A cache breakpoint on a message is set on its last block."""
    if blocks and message.cache_control is not None:
        blocks[-1].setdefault("cache_control", message.cache_control)
    return blocks


def _written(blocks: Blocks) -> str | Blocks:
    if len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
        return str(blocks[0]["text"])
    return blocks


def _strip_end(blocks: Blocks) -> None:
    """Anthropic continues a last message of the assistant, and refuses one that ends in white space."""
    if blocks[-1]["type"] == "text":
        blocks[-1]["text"] = blocks[-1]["text"].rstrip()


def _id_of(call_id: str) -> str:
    """Other vendors' ids contain characters that Anthropic refuses. Calls and results are changed in the same way."""
    return _NOT_IN_ID.sub("_", call_id)


def _text_of(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    return value if isinstance(value, str) else ""
