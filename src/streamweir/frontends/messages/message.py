"""The conversation: `system` and `messages` of the Messages API to the messages of chat completions.

A user message can contain the results of calls: each becomes a message of its own, right after the calls, and the rest
of the message follows. A result whose call is not right before it would be refused by every provider, and is sent as
user text. Reasoning is sent back in the entries of `reasoning_details`, each with its position in the message
(`providers.anthropic.block` defines positions); the data that other families need is in the envelope
(`frontends.carried`).
"""

import re
from typing import Any

from streamweir.core.errors import CallerError
from streamweir.frontends.carried import Carried, CarriedReader, is_carried
from streamweir.frontends.members import Drops, text_in
from streamweir.frontends.messages.content import (
    Block,
    Part,
    blocks_in,
    part_of,
    refuse_uploads,
    type_of,
)
from streamweir.frontends.tool_name import ToolNames
from streamweir.wire import jsonio
from streamweir.wire.messages import REASONING_FORMAT

BILLING = "x-anthropic-billing-header:"
"""The start of a block that one client adds to the system prompt for Anthropic only. It changes with every request, so
that no provider could cache what follows it."""
_PLAIN_ID = re.compile(r"[a-zA-Z0-9_-]+")


class Conversation:
    def __init__(self, names: ToolNames, drops: Drops) -> None:
        self.messages: list[dict[str, Any]] = []
        self.needs_repair = False
        """It contains something that Anthropic would refuse: reasoning of another family, or an invalid id."""
        self.loaded: set[str] = set()
        """Tools that were found by a search, by the caller's names."""
        self.reasoning_models: dict[str, str] = {}
        """The model that wrote an entry of `reasoning_details`, by its path in `messages`, if it is known."""
        self._names = names
        self._drops = drops
        self.carried = CarriedReader()
        self._open_calls: set[str] = set()  # ids of calls of the message before, without a result so far

    def add_system(self, system: Any, path: str = "system") -> None:
        blocks = [{"type": "text", "text": system}] if isinstance(system, str) else blocks_in(system, path)
        parts: list[Part] = []
        for i, block in enumerate(blocks):
            at = path if isinstance(system, str) else f"{path}[{i}]"
            if type_of(block, at) == "text" and text_in(block, "text", at).startswith(BILLING):
                self._drops.add(at)
            else:
                parts += part_of(block, at, self._drops)
        if parts:
            self.messages.append({"role": "system", "content": _written(parts)})

    def add(self, role: str, content: Any, path: str) -> None:
        if role == "system":
            self.add_system(content, f"{path}.content")
            return
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        blocks = blocks_in(content, f"{path}.content")
        if role == "assistant":
            self._add_answer(blocks, f"{path}.content")
        else:
            self._add_question(blocks, f"{path}.content")

    def mark_last(self, mark: dict[str, Any]) -> None:
        """A cache breakpoint after everything so far."""
        if self.messages:
            self.messages[-1].setdefault("cache_control", mark)

    def _add_question(self, blocks: list[Block], path: str) -> None:
        rest: list[Part] = []
        for i, block in enumerate(blocks):
            at = f"{path}[{i}]"
            if type_of(block, at) == "tool_result":
                rest += self._add_result(block, at)
            else:
                rest += part_of(block, at, self._drops)
        self._open_calls = set()
        if rest:
            self.messages.append({"role": "user", "content": _written(rest)})

    def _add_result(self, block: Block, path: str) -> list[Part]:
        """Adds a message for the result. If its call is missing, returns parts for the user's text instead."""
        id, content = text_in(block, "tool_use_id", path), self._result_parts(block.get("content"), f"{path}.content")
        if not _PLAIN_ID.fullmatch(id):
            self.needs_repair = True
        if id not in self._open_calls:
            return content
        self._open_calls.discard(id)
        if all(part.keys() == {"type", "text"} for part in content):
            said: str | list[Part] = "\n".join(part["text"] for part in content)
        else:
            said = content
        message: dict[str, Any] = {"role": "tool", "tool_call_id": id, "content": said}
        if block.get("is_error") is True:
            message["is_error"] = True
        if isinstance(block.get("cache_control"), dict):
            message["cache_control"] = block["cache_control"]
        self.messages.append(message)
        return []

    def _result_parts(self, content: Any, path: str) -> list[Part]:
        if content is None:
            return []
        if isinstance(content, str):
            return [{"type": "text", "text": content}] if content else []
        parts: list[Part] = []
        for i, block in enumerate(blocks_in(content, path)):
            if type_of(block, f"{path}[{i}]") == "tool_reference":
                name = text_in(block, "tool_name", f"{path}[{i}]")
                self.loaded.add(name)
                parts.append({"type": "text", "text": f"Tool {self._names.sent(name)} is loaded."})
            else:
                parts += part_of(block, f"{path}[{i}]", self._drops)
        return parts

    def _add_answer(self, blocks: list[Block], path: str) -> None:
        answer = _Answer(self.carried)
        for i, block in enumerate(blocks):
            at = f"{path}[{i}]"
            match type_of(block, at):
                case "text":
                    answer.add_text(part_of(block, at, self._drops))
                case "thinking":
                    self.needs_repair |= answer.add_thinking(block, at)
                case "redacted_thinking":
                    self.needs_repair |= answer.add_redacted(block, at)
                case "tool_use":
                    self._add_call(answer, block, at)
                case _:
                    refuse_uploads(block, at)
                    self._drops.add(at)
        self._open_calls = {call["id"] for call in answer.calls}
        message = answer.message()
        if message is not None:
            at = f"messages[{len(self.messages)}].reasoning_details"
            self.reasoning_models |= {f"{at}[{j}]": model for j, model in answer.models.items()}
            self.messages.append(message)

    def _add_call(self, answer: "_Answer", block: Block, path: str) -> None:
        id, name, input = text_in(block, "id", path), text_in(block, "name", path), block.get("input", {})
        if not isinstance(input, dict):
            raise CallerError("invalid_type", f"{path}.input must be an object.", param=f"{path}.input")
        if not _PLAIN_ID.fullmatch(id):
            self.needs_repair = True
        function = {"name": self._names.sent(name), "arguments": jsonio.encode(input).decode()}
        answer.add_call({"id": id, "type": "function", "function": function}, block.get("cache_control"))


class _Answer:
    """An assistant message, which becomes one message."""

    def __init__(self, carried: CarriedReader) -> None:
        self._carried = carried
        self.calls: list[dict[str, Any]] = []
        self.models: dict[int, str] = {}
        """The model that wrote an entry of its reasoning, if it is known."""
        self._said: list[Part] = []
        self._thoughts: list[str] = []
        self._details: list[dict[str, Any]] = []
        self._mark: dict[str, Any] | None = None
        self._places = 0
        self._in_text = False

    def add_text(self, parts: list[Part]) -> None:
        if parts and not self._in_text:
            self._next_position()
            self._in_text = True
        self._said += parts

    def add_call(self, call: dict[str, Any], mark: object) -> None:
        self._next_position()
        self.calls.append(call)
        if isinstance(mark, dict):
            self._mark = mark

    def add_thinking(self, block: Block, path: str) -> bool:
        """Whether it is reasoning of another family."""
        text, signature, place = text_in(block, "thinking", path), block.get("signature"), self._next_position()
        if isinstance(signature, str) and is_carried(signature):
            self._add_carried(self._carried.open(signature, text), text)
            return True
        entry: dict[str, Any] = {"type": "reasoning.text", "text": text}
        if isinstance(signature, str) and signature:
            entry["signature"] = signature
        self._details.append({**entry, "format": REASONING_FORMAT, "index": place})
        self._append_reasoning(text)
        return "signature" not in entry

    def add_redacted(self, block: Block, path: str) -> bool:
        data, place = text_in(block, "data", path), self._next_position()
        if is_carried(data):
            self._add_carried(self._carried.open(data))
            return True
        entry = {"type": "reasoning.encrypted", "data": data, "format": REASONING_FORMAT, "index": place}
        self._details.append(entry)
        return False

    def message(self) -> dict[str, Any] | None:
        """None: it is empty."""
        if not (self._said or self.calls or self._details or self._thoughts):
            return None
        message: dict[str, Any] = {"role": "assistant", "content": _written(self._said) if self._said else None}
        if self._thoughts:
            message["reasoning_content"] = "\n\n".join(self._thoughts)
        if self._details:
            message["reasoning_details"] = self._details
        if self.calls:
            message["tool_calls"] = self.calls
        if self._mark is not None:
            message["cache_control"] = self._mark
        return message

    def _add_carried(self, carried: Carried, shown: str = "") -> None:
        if carried.model is not None:
            first = len(self._details)
            self.models |= dict.fromkeys(range(first, first + len(carried.entries)), carried.model)
        self._details += carried.entries
        self._append_reasoning(shown or carried.text)

    def _append_reasoning(self, text: str) -> None:
        if text:
            self._thoughts.append(text)

    def _next_position(self) -> int:
        place = self._places
        self._places += 1
        self._in_text = False
        return place


def _written(parts: list[Part]) -> str | list[Part]:
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        return str(parts[0]["text"])
    return parts
