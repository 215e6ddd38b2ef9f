"""Events to output items: the open items, their indexes, and how an item ends.

It makes the documents of `response.output_item.added` and everything up to `response.output_item.done`, without their
numbers; a stream writes them as frames, a whole body has the items, so both are equal. A message or a reasoning
item ends where the kind of content changes. A call ends when something follows it and its arguments are complete,
else with the answer. An item of reasoning ends with the value that the caller sends back: the encrypted content of this
API's own models unchanged, else an envelope (`frontends.carried`).
"""

import hashlib
from collections.abc import Sequence
from io import StringIO
from typing import Any

from msgspec import Raw, Struct, field

from streamweir.core.completion import join_text, reasoning_index
from streamweir.core.request import ToolShape
from streamweir.frontends.base import Reply
from streamweir.frontends.carried import add_piece, carry
from streamweir.wire import jsonio
from streamweir.wire.jsonio import FAST_BYTES
from streamweir.wire.responses import REASONING_FORMAT

Document = dict[str, Any]
ITEM_PREFIXES = {"message": "msg_", "reasoning": "rs_", "function_call": "fc_", "custom_tool_call": "ctc_"}
_NO_CALL = -1
_ITEM_SIZE = 150


class Part(Struct):
    """Of a message, while it is open."""

    kind: str
    index: int
    text: StringIO = field(default_factory=StringIO)
    annotations: list[Document] = field(default_factory=list)
    logprobs: list[Raw] = field(default_factory=list)
    """Encoded at once, for there can be twenty for every token."""
    shown_logprobs: list[Raw] = field(default_factory=list)
    """The same as a delta shows them."""


class _Message(Struct):
    index: int
    id: str
    part: Part | None = None
    content: list[Document] = field(default_factory=list)
    """The parts that are done."""


class _Reasoning(Struct):
    index: int
    id: str
    source_index: object = None
    is_shown: bool = False
    """Its text has begun."""
    text: StringIO = field(default_factory=StringIO)
    details: list[Document] = field(default_factory=list)


class _Call(Struct):
    index: int
    id: str
    call_id: str
    shape: ToolShape
    is_wrapped: bool = False
    """A custom call whose input is in the arguments of a function."""
    text: StringIO = field(default_factory=StringIO)
    size: int = 0
    """Of the arguments, in characters."""

    @property
    def kind(self) -> str:
        return "custom_tool_call" if self.shape.custom else "function_call"

    @property
    def has_json(self) -> bool:
        """False: it is any text, and is complete only at the end of the answer."""
        return self.is_wrapped or not self.shape.custom


class Output:
    def __init__(self, reply: Reply) -> None:
        self.part: Part | None = None
        """The text that is open."""
        self.done: dict[int, Document] = {}
        """The items that are done, by their index."""
        self.size = 0
        """Of what is kept besides the texts and the arguments: about its bytes as JSON."""
        self._reply = reply
        self._tools = reply.tools or {}
        self._next = 0
        self._message: _Message | None = None
        self._reasoning: _Reasoning | None = None
        self._calls: dict[int, _Call] = {}  # those that are open, by their ordinal
        self._newest = _NO_CALL  # the ordinal of a call that nothing followed yet
        self._call_ids: set[str] = set()
        self._early_annotations: list[Document] = []  # annotations that arrived before their text

    @property
    def items(self) -> list[Document]:
        """Those that are done, in their order."""
        return [item for _, item in sorted(self.done.items())]

    def text(self, text: str, logprobs: Sequence[Document] = ()) -> list[Document]:
        return self._say("output_text", text, logprobs)

    def refusal(self, text: str) -> list[Document]:
        return self._say("refusal", text)

    def annotate(self, annotations: Sequence[Document]) -> list[Document]:
        """Of the text that is open, else of the next."""
        self.size += len(jsonio.encode(annotations))
        message, part = self._message, self.part
        if message is None or part is None:
            self._early_annotations += annotations
            return []
        documents: list[Document] = []
        for annotation in annotations:
            position = {**_position(message), "content_index": part.index, "annotation_index": len(part.annotations)}
            documents.append({"type": "response.output_text.annotation.added", **position, "annotation": annotation})
            part.annotations.append(annotation)
        return documents

    def reasoning(self, text: str, details: Sequence[Document]) -> list[Document]:
        if not text and not details:
            return []
        documents: list[Document] = []
        reasoning, source = self._reasoning, reasoning_index(details)
        if reasoning is not None and None not in (reasoning.source_index, source) and reasoning.source_index != source:
            reasoning = None
        if reasoning is None:
            documents = self._leave()
            reasoning = self._reasoning = _Reasoning(*self._take("reasoning"))
            documents.append(_added(reasoning.index, {"id": reasoning.id, "type": "reasoning", "summary": []}))
        if source is not None:
            reasoning.source_index = source
        known = len(reasoning.details)
        for entry in details:
            add_piece(entry, reasoning.details)
        if len(reasoning.details) > known:
            self.size += len(jsonio.encode(reasoning.details[known:]))
        if text:
            reasoning.text.write(text)
            documents += self._show_reasoning(reasoning, text)
        return documents

    def call(self, ordinal: int, id: str | None, name: str, custom: bool = False) -> list[Document]:
        """`custom`: the upstream calls it with any text, not with arguments."""
        documents = self._leave()
        if not id or id in self._call_ids:
            id = _derived("call_", self._reply.id, f"call/{ordinal}", 24)
        self._call_ids.add(id)
        self.size += len(id) + len(name)
        self._newest = ordinal
        shape = self._tools.get(name) or ToolShape(name, custom)
        if custom and not shape.custom:
            shape = ToolShape(shape.name, True, shape.namespace)
        index, item_id = self._take("custom_tool_call" if shape.custom else "function_call")
        call = self._calls[ordinal] = _Call(index, item_id, id, shape, shape.custom and not custom)
        documents.append(_added(index, _call_item(call, "in_progress", "")))
        return documents

    def arguments(self, ordinal: int, arguments: str) -> list[Document]:
        call = self._calls.get(ordinal)
        if call is None or not arguments:  # what follows whole arguments is white space, or makes them none
            return []
        call.text.write(arguments)
        call.size += len(arguments)
        if call.is_wrapped:  # its input is known when it is whole
            return []
        return [_input_delta(call, arguments)]

    def close(self, is_cut: bool = False) -> list[Document]:
        """The answer is at its end. `is_cut`: by a limit or a filter, so what is open is not whole."""
        documents = self._leave(is_cut=is_cut)
        for call in self._calls.values():  # as they began: in the order of indices
            is_last = call.index == self._next - 1
            documents += self._end_call(call, is_cut and (not _is_whole(call) if call.has_json else is_last))
        self._calls.clear()
        return documents

    def _say(self, kind: str, text: str, logprobs: Sequence[Document] = ()) -> list[Document]:
        if not text:
            return []
        documents: list[Document] = []
        message = self._message
        if message is None:
            documents = self._leave()
            message = self._message = _Message(*self._take("message"))
            item = {"id": message.id, "type": "message", "status": "in_progress", "content": [], "role": "assistant"}
            documents.append(_added(message.index, item))
        part = message.part
        if part is None or part.kind != kind:
            documents += self._end_part(message)
            part = message.part = Part(kind, len(message.content))
            documents.append(_part_document("response.content_part.added", message, part, ""))
            if kind == "output_text":
                self.part = part
                held, self._early_annotations = self._early_annotations, []
                documents += self.annotate(held)
        part.text.write(text)
        position = {**_position(message), "content_index": part.index}
        delta: Document = {"type": f"response.{kind}.delta", **position, "delta": text}
        if kind == "output_text":
            delta["logprobs"] = self._keep_logprobs(part, logprobs)
        documents.append(delta)
        return documents

    def _keep_logprobs(self, part: Part, logprobs: Sequence[Document]) -> list[Raw]:
        """As the delta shows them."""
        shown = [Raw(jsonio.encode(_without_bytes(each))) for each in logprobs]
        whole = [Raw(jsonio.encode(each)) for each in logprobs]
        part.shown_logprobs += shown
        part.logprobs += whole
        self.size += sum(map(len, map(bytes, whole))) // 2
        return shown

    def _end_part(self, message: _Message) -> list[Document]:
        part, message.part, self.part = message.part, None, None
        if part is None:
            return []
        text = _text_in(part.text)
        position = {**_position(message), "content_index": part.index}
        if part.kind == "output_text":
            done = {"type": "response.output_text.done", **position, "text": text}
            done["logprobs"] = part.shown_logprobs
        else:
            done = {"type": "response.refusal.done", **position, "refusal": text}
        document = _part_document("response.content_part.done", message, part, text)
        message.content.append(document["part"])
        return [done, document]

    def _show_reasoning(self, reasoning: _Reasoning, text: str) -> list[Document]:
        if self._reply.hides_reasoning:
            return []
        documents: list[Document] = []
        names = _SUMMARY if self._reply.summarizes_reasoning else _THOUGHT
        if not reasoning.is_shown:
            reasoning.is_shown = True
            documents.append(names.part(reasoning, "added", ""))
        documents.append({"type": f"{names.text}.delta", **names.position(reasoning), "delta": text})
        return documents

    def _leave(self, *, is_cut: bool = False) -> list[Document]:
        """Ends what is open, for another item begins. A call is looked at once: when something follows it."""
        if self._message is not None:
            message, self._message = self._message, None
            documents = self._end_part(message)
            item = {
                "id": message.id,
                "type": "message",
                "status": "incomplete" if is_cut else "completed",
                "content": message.content,
                "role": "assistant",
            }
            return [*documents, self._finish(message.index, item)]
        if self._reasoning is not None:
            reasoning, self._reasoning = self._reasoning, None
            return self._end_reasoning(reasoning)
        newest, self._newest = self._newest, _NO_CALL
        call = self._calls.get(newest)
        if call is None or call.size > FAST_BYTES or not _is_whole(call):
            return []  # very large ones are not parsed here: they stay open to the end
        del self._calls[newest]
        return self._end_call(call, False)

    def _end_reasoning(self, reasoning: _Reasoning) -> list[Document]:
        documents: list[Document] = []
        text = _text_in(reasoning.text)
        item: Document = {"id": reasoning.id, "type": "reasoning", "summary": []}
        if reasoning.is_shown:
            names = _SUMMARY if self._reply.summarizes_reasoning else _THOUGHT
            documents.append({"type": f"{names.text}.done", **names.position(reasoning), "text": text})
            documents.append(names.part(reasoning, "done", text))
            item[names.member] = [documents[-1]["part"]]
        encrypted = _encrypted_in(reasoning.details)
        if encrypted is None:
            hidden = text if self._reply.hides_reasoning else ""
            encrypted = carry(self._reply.target_model, reasoning.details, hidden)
        item["encrypted_content"] = encrypted
        return [*documents, self._finish(reasoning.index, item)]

    def _end_call(self, call: _Call, is_cut: bool) -> list[Document]:
        input_text = _text_in(call.text)
        documents: list[Document] = []
        if call.is_wrapped:
            input_text = _unwrapped(input_text)
            if input_text:
                documents.append(_input_delta(call, input_text))
        elif not call.shape.custom and not is_cut and not input_text.strip():  # agents cannot parse an empty text
            documents.append(_input_delta(call, "{}"))
            input_text += "{}"
        position = {"item_id": call.id, "output_index": call.index}
        if call.shape.custom:
            documents.append({"type": "response.custom_tool_call_input.done", **position, "input": input_text})
        else:
            done = {"type": "response.function_call_arguments.done", **position, "arguments": input_text}
            documents.append({**done, "name": call.shape.name})
        item = _call_item(call, "incomplete" if is_cut else "completed", input_text)
        return [*documents, self._finish(call.index, item)]

    def _finish(self, index: int, item: Document) -> Document:
        self.done[index] = item
        return {"type": "response.output_item.done", "output_index": index, "item": item}

    def _take(self, kind: str) -> tuple[int, str]:
        """The index and the id of the next item."""
        index = self._next
        self._next += 1
        self.size += _ITEM_SIZE
        return index, _derived(ITEM_PREFIXES[kind], self._reply.id, str(index), 48)


class _ReasoningNames(Struct, frozen=True):
    """The names of members and events for the text of reasoning."""

    member: str
    index: str
    part_event: str
    text: str
    part_type: str

    def position(self, reasoning: _Reasoning) -> Document:
        return {"item_id": reasoning.id, "output_index": reasoning.index, self.index: 0}

    def part(self, reasoning: _Reasoning, change: str, text: str) -> Document:
        part = {"type": self.part_type, "text": text}
        return {"type": f"{self.part_event}.{change}", **self.position(reasoning), "part": part}


_SUMMARY = _ReasoningNames(
    "summary",
    "summary_index",
    "response.reasoning_summary_part",
    "response.reasoning_summary_text",
    "summary_text",
)
_THOUGHT = _ReasoningNames(
    "content", "content_index", "response.content_part", "response.reasoning_text", "reasoning_text"
)


def _added(index: int, item: Document) -> Document:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def _position(message: _Message) -> Document:
    return {"item_id": message.id, "output_index": message.index}


def _part_document(kind: str, message: _Message, part: Part, text: str) -> Document:
    if part.kind == "output_text":
        shown: Document = {
            "type": "output_text",
            "annotations": list(part.annotations),
            "logprobs": list(part.logprobs),
            "text": text,
        }
    else:
        shown = {"type": "refusal", "refusal": text}
    return {"type": kind, **_position(message), "content_index": part.index, "part": shown}


def _call_item(call: _Call, status: str, input_text: str) -> Document:
    item: Document = {"id": call.id, "type": call.kind, "status": status, "call_id": call.call_id}
    item["name"] = call.shape.name
    if call.shape.namespace is not None:
        item["namespace"] = call.shape.namespace
    item["input" if call.shape.custom else "arguments"] = input_text
    return item


def _input_delta(call: _Call, text: str) -> Document:
    member = "custom_tool_call_input" if call.shape.custom else "function_call_arguments"
    return {"type": f"response.{member}.delta", "item_id": call.id, "output_index": call.index, "delta": text}


def _encrypted_in(details: Sequence[Document]) -> str | None:
    """The encrypted reasoning of this API's own family, if there is no other reasoning to send back."""
    encrypted = [entry for entry in details if entry.get("type") == "reasoning.encrypted"]
    data = encrypted[0].get("data") if len(encrypted) == 1 and encrypted[0].get("format") == REASONING_FORMAT else None
    return data if isinstance(data, str) and data else None


def _without_bytes(logprob: Document) -> Document:
    """As a delta shows it."""
    shown = {name: logprob.get(name) for name in ("token", "logprob")}
    top = logprob.get("top_logprobs")
    shown["top_logprobs"] = [
        {name: each.get(name) for name in ("token", "logprob")}
        for each in (top if isinstance(top, list) else ())
        if isinstance(each, dict)
    ]
    return shown


def _derived(prefix: str, answer_id: str, what: str, length: int) -> str:
    """An id that is always the same for the same answer."""
    return prefix + hashlib.sha256(f"{answer_id}/{what}".encode()).hexdigest()[:length]


def _text_in(written: StringIO) -> str:
    """A token as an object of its own would take fifteen times the memory."""
    return join_text([written.getvalue()])


def _arguments_in(call: _Call) -> Any:
    try:
        return jsonio.decode(_text_in(call.text).encode("utf-8", "surrogatepass"))
    except jsonio.InvalidJson:
        return None


def _is_whole(call: _Call) -> bool:
    return call.has_json and isinstance(_arguments_in(call), dict)


def _unwrapped(arguments: str) -> str:
    """The input of a custom tool. Arguments in another form than requested are returned unchanged."""
    try:
        value = jsonio.decode(arguments.encode("utf-8", "surrogatepass"))
    except jsonio.InvalidJson:
        return arguments
    return value["input"] if isinstance(value, dict) and isinstance(value.get("input"), str) else arguments
