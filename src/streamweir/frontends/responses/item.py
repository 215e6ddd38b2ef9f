"""The conversation: the items of `input` to the messages of chat completions.

Items of the assistant in a row are one message: its reasoning, its text, its calls. Results are placed
directly after the message with their calls, because providers refuse any other order. A result without a call becomes
text of the user, and a call without a result gets one with a note. Reasoning becomes entries of `reasoning_details`;
reasoning of other families is in the gateway's envelope (`frontends.carried`).
"""

from collections import deque
from typing import Any

from streamweir.core.errors import CallerError
from streamweir.frontends.carried import CarriedReader, is_carried
from streamweir.frontends.members import Drops, text_in
from streamweir.frontends.responses.content import Item, Part, objects_in, parts_of, refuse_file, result_of, written
from streamweir.frontends.responses.tool import FlatNames, namespace_in
from streamweir.wire import jsonio
from streamweir.wire.responses import REASONING_FORMAT

Message = dict[str, Any]

ABORTED = "aborted"
"""The result of a call that has none. Vendors refuse a call without a result."""
_ROLES = ("user", "system", "developer", "assistant")
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_OUTPUTS = ("function_call_output", "custom_tool_call_output")


class Conversation:
    def __init__(self, names: FlatNames, drops: Drops) -> None:
        self._names = names
        self._drops = drops
        self.carried = CarriedReader()
        self._turns: list[Message | _Turn] = []
        self._open: dict[str, deque[_Turn]] = {}  # turns with calls that are not answered yet, by the id of the call

    def add_instructions(self, text: str) -> None:
        if text:
            self._turns.append({"role": "developer", "content": text})

    def add(self, item: Item, path: str) -> None:
        kind = item.get("type", "message")
        if not isinstance(kind, str):
            raise CallerError("invalid_type", "The type of an item must be a string.", param=f"{path}.type")
        if kind == "message":
            self._add_message(item, path)
        elif kind == "reasoning":
            self._turn().add_reasoning(item, path)
        elif kind in _CALLS:
            self._add_call(item, path, kind)
        elif kind in _OUTPUTS:
            self._add_result(item, path)
        elif kind == "item_reference":
            message = "Items are not stored here: send the item itself. Clients do so where 'store' is set to false."
            raise CallerError("invalid_value", message, param=path)
        else:
            refuse_file(item, path)
            self._drops.add(path)

    def messages(self) -> tuple[list[Message], dict[str, str]]:
        """All of them; and which model wrote an entry of their `reasoning_details`, by its path, where it is known."""
        messages: list[Message] = []
        models: dict[str, str] = {}
        for turn in self._turns:
            if isinstance(turn, dict):
                messages.append(turn)
                continue
            message = turn.message()
            if message is None:
                for path in turn.reasoning_paths:
                    self._drops.add(path)
                continue
            at = f"messages[{len(messages)}].reasoning_details"
            models |= {f"{at}[{j}]": model for j, model in turn.models.items()}
            messages.append(message)
            messages += turn.results()
        return messages, models

    def _turn(self) -> "_Turn":
        """The assistant's that is not over."""
        if not self._turns or not isinstance(last := self._turns[-1], _Turn) or last.is_over:
            last = _Turn(self.carried)
            self._turns.append(last)
        return last

    def _add_message(self, item: Item, path: str) -> None:
        role = text_in(item, "role", path)
        if role not in _ROLES:
            message = f"{path}.role must be one of {', '.join(_ROLES)}."
            raise CallerError("invalid_value", message, param=f"{path}.role")
        parts = parts_of(item.get("content"), f"{path}.content", self._drops)
        if role == "assistant":
            said = [part for part in parts if part["type"] in ("text", "refusal")]
            if len(said) < len(parts):
                self._drops.add(f"{path}.content")
            self._turn().add_text(said)
        elif parts:
            self._append(role, parts)

    def _append(self, role: str, parts: list[Part]) -> None:
        self._turns.append({"role": role, "content": written(parts)})

    def _add_call(self, item: Item, path: str, kind: str) -> None:
        id, name, sent = (text_in(item, member, path) for member in ("call_id", "name", _CALLS[kind]))
        is_custom = kind == "custom_tool_call"
        flat = self._names.flat(namespace_in(item, path), name, custom=is_custom)
        arguments = jsonio.encode({"input": sent}).decode() if is_custom else sent or "{}"
        turn = self._turn()
        turn.add_call({"id": id, "type": "function", "function": {"name": flat, "arguments": arguments}})
        self._open.setdefault(id, deque()).append(turn)

    def _add_result(self, item: Item, path: str) -> None:
        id, output = text_in(item, "call_id", path), item.get("output")
        parts = parts_of(output if output is not None else "", f"{path}.output", self._drops)
        waiting = self._open.get(id)
        if waiting:
            waiting.popleft().answer(id, result_of(parts))
        elif parts:
            self._append("user", parts)


class _Turn:
    """One message of the assistant, and the results of its calls."""

    def __init__(self, carried: CarriedReader) -> None:
        self.models: dict[int, str] = {}
        """Which model wrote an entry of its reasoning, where that is known."""
        self.reasoning_paths: list[str] = []
        self.is_over = False
        """A call has a result: the next item of the assistant begins another turn."""
        self._carried = carried
        self._calls: list[dict[str, Any]] = []
        self._answers: dict[str, deque[str | list[Part]]] = {}
        self._parts: list[Part] = []
        self._thoughts: list[str] = []
        self._details: list[dict[str, Any]] = []

    def add_text(self, parts: list[Part]) -> None:
        self._parts += parts

    def add_call(self, call: dict[str, Any]) -> None:
        self._calls.append(call)

    def answer(self, id: str, output: str | list[Part]) -> None:
        self._answers.setdefault(id, deque()).append(output)
        self.is_over = True

    def add_reasoning(self, item: Item, path: str) -> None:
        self.reasoning_paths.append(path)
        text = _texts_in(item, "content", path) or _texts_in(item, "summary", path)
        encrypted = item.get("encrypted_content")
        if encrypted is not None and not isinstance(encrypted, str):
            at = f"{path}.encrypted_content"
            raise CallerError("invalid_type", f"{at} must be a string.", param=at)
        if encrypted is not None and is_carried(encrypted):
            carried = self._carried.open(encrypted, text)
            if carried.model is not None:
                first = len(self._details)
                self.models |= dict.fromkeys(range(first, first + len(carried.entries)), carried.model)
            self._details += carried.entries
            text = text or carried.text
        elif encrypted:
            self._add_own(item, encrypted, text)
        if text:
            self._thoughts.append(text)

    def _add_own(self, item: Item, encrypted: str, text: str) -> None:
        """Of this API's own family: as its provider sent it."""
        entry: dict[str, Any] = {"format": REASONING_FORMAT, "index": len(self.reasoning_paths) - 1}
        if isinstance(item.get("id"), str):
            entry["id"] = item["id"]
        if text:
            self._details.append({"type": "reasoning.summary", "summary": text, **entry})
        self._details.append({"type": "reasoning.encrypted", "data": encrypted, **entry})

    def message(self) -> Message | None:
        """None: it has neither text nor calls. Providers refuse a message with reasoning only."""
        if not (self._parts or self._calls):
            return None
        message: Message = {"role": "assistant", "content": written(self._parts) if self._parts else None}
        if self._thoughts:
            message["reasoning_content"] = "\n\n".join(self._thoughts)
        if self._details:
            message["reasoning_details"] = self._details
        if self._calls:
            message["tool_calls"] = self._calls
        return message

    def results(self) -> list[Message]:
        """In the order of the calls."""
        results: list[Message] = []
        for call in self._calls:
            answers = self._answers.get(call["id"])
            output = answers.popleft() if answers else ABORTED
            results.append({"role": "tool", "tool_call_id": call["id"], "content": output})
        return results


def _texts_in(item: Item, member: str, path: str) -> str:
    sent = item.get(member)
    if sent is None:
        return ""
    parts = objects_in(sent, f"{path}.{member}")
    return "\n\n".join(
        [text for i, part in enumerate(parts) if (text := text_in(part, "text", f"{path}.{member}[{i}]"))]
    )
