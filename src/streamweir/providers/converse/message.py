"""The conversation: chat messages to Converse's `system` and `messages`.

There are two roles, which alternate: consecutive messages of one role are joined. Instructions are sent separately, in
`system`. The results of all calls of a turn stand in one message of the user, before everything else and in the order
of the calls: other orders are refused. Reasoning is sent back where it was, unchanged and with its signature; without
one, and in the format of another vendor, it is left out and named.
"""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from streamweir.core.message import Message, ToolCall
from streamweir.providers.base import read_arguments
from streamweir.providers.converse.content import Block, Writer, text_value
from streamweir.providers.converse.model import CONVERSE_FORMAT
from streamweir.wire.messages import REASONING_FORMAT as CLAUDE_FORMAT

MAX_ID_LENGTH = 64
_SHORT_ID_LENGTH = 9
_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")


class Conversation:
    """The result of `read_messages`."""

    __slots__ = ("_legacy_id", "_turns", "_writer", "call_names", "system")

    def __init__(self, writer: Writer) -> None:
        self.system: list[Block] = []
        self.call_names: dict[str, None] = {}
        """The names of the tools that were called, in their order."""
        self._writer = writer
        self._turns: list[tuple[str, list[Block]]] = []
        self._legacy_id = ""

    def add(self, i: int, message: Message) -> None:
        path, writer = f"messages[{i}]", self._writer
        if message.name is not None and message.role != "function":
            writer.dropped.append(f"{path}.name")
        mark_path = f"{path}.cache_control" if isinstance(message.content, str) else None
        match message.role:
            case "system" | "developer":
                blocks = writer.text_blocks_of(message.parts, f"{path}.content", mark_path)
                self.system += _marked(blocks, message, path)
            case "assistant":
                if message.function_call is not None:
                    self._legacy_id = f"call_{i}"
                self._put("assistant", self._assistant_blocks(message, path, mark_path))
            case "tool":
                self._put("user", [self._result_block(message, message.tool_call_id or "", path)])
            case "function":  # legacy: it has no id, and belongs to the call before it
                self._put("user", [self._result_block(message, self._legacy_id, path)])
            case "user":
                blocks = writer.blocks_of(message.parts, f"{path}.content", mark_path)
                self._put("user", _marked(blocks, message, path))

    @property
    def continues_without_reasoning(self) -> bool:
        """The turn continues after calls without the reasoning of those calls: then Claude refuses a budget."""
        has_results = False
        for role, blocks in reversed(self._turns):
            kinds = {block.kind for block in blocks}
            if role == "user" and "toolResult" not in kinds:
                break
            if "reasoningContent" in kinds:
                return False
            has_results = has_results or role == "user"
        return has_results

    def write(self, body: dict[str, Any]) -> None:
        """Writes the members of the body, first what a cached beginning of the prompt has first."""
        if not self._turns and self.system:
            # A request with only an instruction is valid in OpenAI's format; here a message is required.
            self._turns, self.system = [("user", self.system)], []
        if self.system:
            body["system"] = self._writer.written(self.system)
        order: dict[str, int] = {}
        messages: list[dict[str, Any]] = []
        for role, blocks in self._turns:
            if role == "assistant":
                calls = [block.value["toolUse"]["toolUseId"] for block in blocks if block.kind == "toolUse"]
                order = {call_id: number for number, call_id in enumerate(calls)}
            else:
                blocks.sort(key=lambda block: _place_of(block, order))
            messages.append({"role": role, "content": self._writer.written(blocks)})
        if self._turns and self._turns[-1][0] == "assistant":
            _strip_end(messages[-1]["content"])
        body["messages"] = messages

    def _put(self, role: str, blocks: list[Block]) -> None:
        if not blocks:
            return
        if self._turns and self._turns[-1][0] == role:
            self._turns[-1][1].extend(blocks)
        else:
            self._turns.append((role, blocks))

    def _assistant_blocks(self, message: Message, path: str, mark_path: str | None) -> list[Block]:
        reasoning = self._reasoning_blocks(message, path)
        texts = self._writer.text_blocks_of(message.parts, f"{path}.content", mark_path)
        refusal = text_value(message.refusal or "")
        if refusal is not None:
            texts.append(Block(refusal))
        calls = [self._call_block(call) for call in message.tool_calls]
        if message.function_call is not None:
            call = message.function_call
            calls.append(self._use_block(self._legacy_id, call.name, read_arguments(call.arguments)))
        _marked(texts or calls, message, path)
        # For positions (see `block.py`) the text counts as one block, even if it is blank and not sent.
        rest: list[list[Block]] = [*([texts] if message.content or texts else []), *([call] for call in calls)]
        blocks: list[Block] = []
        position = sent = 0
        for index, block in reasoning:
            while isinstance(index, int) and position < index and sent < len(rest):
                blocks += rest[sent]
                sent += 1
                position += 1
            blocks.append(block)
            position += 1
        for others in rest[sent:]:
            blocks += others
        return blocks

    def _reasoning_blocks(self, message: Message, path: str) -> list[tuple[object, Block]]:
        """The blocks of `reasoning_details`, each with its position. Pieces of one block are joined."""
        writer = self._writer
        formats = writer.traits.reasoning_formats
        signed: list[_Signed] = []
        for j, entry in enumerate(message.reasoning_details):
            at, kind, form, index = f"{path}.reasoning_details[{j}]", *(entry.get(name) for name in _DETAIL_MEMBERS)
            data, last = entry.get("data"), signed[-1] if signed else None
            if form is None and CLAUDE_FORMAT in formats:
                form = CLAUDE_FORMAT
            if kind == "reasoning.encrypted" and isinstance(data, str) and form in formats:
                content = (
                    data if form == CONVERSE_FORMAT else base64.b64encode(data.encode("utf-8", "replace")).decode()
                )
                signed.append(_Signed(index, at, redacted=content))
            elif kind == "reasoning.text" and form == CLAUDE_FORMAT and form in formats:
                if last is None or last.index != index or last.redacted or last.signature:
                    last = _Signed(index, at)
                    signed.append(last)
                last.pieces.append(_text_of(entry, "text"))
                last.signature = _text_of(entry, "signature")
            else:
                writer.dropped.append(at)
        writer.dropped += [each.path for each in signed if not each.is_valid]
        if message.reasoning_content and not signed:
            writer.dropped.append(f"{path}.{message.reasoning_member}")
        return [(each.index, Block({"reasoningContent": each.content})) for each in signed if each.is_valid]

    def _call_block(self, call: ToolCall) -> Block:
        if call.function is not None:
            return self._use_block(call.id, call.function.name, read_arguments(call.function.arguments))
        # A free-form call that another model made: the input of a call is always an object here.
        name, input = (call.custom.name, {"input": call.custom.input}) if call.custom is not None else ("", {})
        return self._use_block(call.id, name, input)

    def _use_block(self, call_id: str, name: str, input: dict[str, Any]) -> Block:
        self.call_names[name] = None
        return Block({"toolUse": {"toolUseId": self._id_of(call_id), "name": name, "input": input}})

    def _result_block(self, message: Message, call_id: str, path: str) -> Block:
        mark, mark_path = message.cache_control, f"{path}.cache_control"
        if isinstance(message.content, str):
            content = [{"text": message.content}] if message.content.strip() else []
        else:
            blocks = self._writer.blocks_of(message.parts, f"{path}.content", takes_audio=False)
            content = [block.value for block in blocks]
            # There are no cache points within a result: the last one stands behind it.
            marked = [block for block in blocks if block.mark is not None]
            self._writer.dropped += [block.mark_path for block in marked[:-1]]
            if mark is None and marked:
                mark, mark_path = marked[-1].mark, marked[-1].mark_path
            elif marked:
                self._writer.dropped.append(marked[-1].mark_path)
        result: dict[str, Any] = {"toolUseId": self._id_of(call_id), "content": content}
        if message.is_error:
            result["status"] = "error"
            if not content:  # refused without a text
                result["content"] = [{"text": "Error"}]
        return Block({"toolResult": result}, mark, mark_path)

    def _id_of(self, call_id: str) -> str:
        """Ids of other vendors can be longer, or have other characters. Calls and results are changed in the same
        way."""
        pattern, length = (_SHORT_ID, _SHORT_ID_LENGTH) if self._writer.traits.has_short_ids else (_ID, MAX_ID_LENGTH)
        if pattern.fullmatch(call_id):
            return call_id
        return hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:length]


_DETAIL_MEMBERS = ("type", "format", "index")


class _Signed:
    """One block of reasoning."""

    __slots__ = ("index", "path", "pieces", "redacted", "signature")

    def __init__(self, index: object, path: str, redacted: str = "") -> None:
        self.index = index
        self.path = path
        self.redacted = redacted
        self.pieces: list[str] = []
        self.signature = ""

    @property
    def is_valid(self) -> bool:
        return bool(self.redacted or self.signature)

    @property
    def content(self) -> dict[str, Any]:
        if self.redacted:
            return {"redactedContent": self.redacted}
        return {"reasoningText": {"text": "".join(self.pieces), "signature": self.signature}}


def read_messages(messages: Sequence[Message], writer: Writer) -> Conversation:
    conversation = Conversation(writer)
    for i, message in enumerate(messages):
        conversation.add(i, message)
    return conversation


def _marked(blocks: list[Block], message: Message, path: str) -> list[Block]:
    """A cache breakpoint on a message is set on its last block."""
    if blocks and message.cache_control is not None and blocks[-1].mark is None:
        blocks[-1].mark, blocks[-1].mark_path = message.cache_control, f"{path}.cache_control"
    return blocks


def _place_of(block: Block, order: Mapping[str, int]) -> tuple[int, int]:
    if block.kind != "toolResult":
        return (1, 0)
    return (0, order.get(block.value["toolResult"]["toolUseId"], len(order)))


def _strip_end(values: list[dict[str, Any]]) -> None:
    """Claude continues a last message of the assistant, and refuses one that ends in white space."""
    last = len(values) - 2 if "cachePoint" in values[-1] else -1
    if "text" in values[last]:
        values[last] = {"text": values[last]["text"].rstrip()}


def _text_of(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    return value if isinstance(value, str) else ""
