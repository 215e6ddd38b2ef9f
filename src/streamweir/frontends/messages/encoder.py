"""Events to the frames of the Messages API.

`message_start`, the blocks (`messages.block`), `message_delta` with the stop reason and the usage, `message_stop`.
The last two are written only when the answer is complete; a stream that breaks off ends with an `error` frame instead.
Every frame has its `event` line, because clients ignore frames without it. There is one answer: choices above the first
are not written.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from streamweir.core.events import (
    ChoiceFinished,
    Event,
    FinishReason,
    ReasoningDelta,
    RefusalDelta,
    StreamCompleted,
    StreamFailed,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
    UsageReported,
)
from streamweir.core.usage import Usage
from streamweir.frontends.base import Reply, with_cost
from streamweir.frontends.messages.block import NO_INDEX, Blocks, Document
from streamweir.frontends.messages.errors import document_of
from streamweir.frontends.messages.stop import Stop, stop_of
from streamweir.frontends.messages.usage import usage_object
from streamweir.wire import jsonio, sse

PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_DELTA_FRAME: Callable[[bytes], bytes] = b"event: content_block_delta\ndata: %b\n\n".__mod__


_STOP_FRAME: Callable[[int], bytes] = (
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'.__mod__
)


class _TextPiece(Struct, gc=False):
    type: str
    text: str


class _TextFrame(Struct, gc=False):
    """The document of a piece of text; one object, reused for each."""

    type: str
    index: int
    delta: _TextPiece


class MessagesEncoder:
    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._blocks = Blocks(reply)
        self._text_index = NO_INDEX  # of the block that the next piece of text belongs to
        self._piece = _TextPiece("text_delta", "")
        self._frame = _TextFrame("content_block_delta", NO_INDEX, self._piece)
        self._usage: Usage | None = None
        self._finish = ChoiceFinished(0, FinishReason.OTHER)
        self._has_refusal = False
        self._has_begun = False
        self._is_ended = False

    @property
    def completion_id(self) -> str:
        return self._reply.id

    def begin(self) -> list[bytes]:
        if self._has_begun or self._is_ended:
            return []
        self._has_begun = True
        return [_frame(self._start_document())]

    def feed(self, event: Event, /) -> list[bytes]:
        if type(event) is TextDelta and self._text_index >= 0 and event.text and not event.choice:  # nearly every event
            self._piece.text = event.text
            return [_DELTA_FRAME(jsonio.encode(self._frame))]
        if self._is_ended or getattr(event, "choice", None):
            return []
        write = _WRITE.get(type(event))
        if write is None:
            return []
        frames = write(self, event)
        self._text_index = self._frame.index = self._blocks.text_index
        return frames

    def _note_usage(self, event: UsageReported) -> list[bytes]:
        self._usage = event.usage
        return []

    def _note_finish(self, event: ChoiceFinished) -> list[bytes]:
        self._finish = event
        return []

    def _write_text(self, event: TextDelta) -> list[bytes]:
        return self._write(self._blocks.text(event.text))

    def _write_refusal(self, event: RefusalDelta) -> list[bytes]:
        self._has_refusal = True
        return self._write(self._blocks.text(event.text))

    def _write_reasoning(self, event: ReasoningDelta) -> list[bytes]:
        if self._reply.exclude_reasoning:
            return []
        return self._write(self._blocks.reasoning(event.text, event.details))

    def _write_call(self, event: ToolCallStarted) -> list[bytes]:
        return self._write(self._blocks.call(event.call, event.id, event.name, event.custom))

    def _write_arguments(self, event: ToolCallDelta) -> list[bytes]:
        return self._write(self._blocks.arguments(event.call, event.arguments))

    def _write_completion(self, _: StreamCompleted) -> list[bytes]:
        frames = self._write(self._blocks.close())
        stop = self._stop()
        counted = self._usage or self._reply.count_usage()
        usage = with_cost(usage_object(counted, with_buckets=False), counted, self._reply)
        delta = {"stop_reason": stop.reason, "stop_sequence": stop.sequence}
        frames.append(_frame({"type": "message_delta", "delta": delta, "usage": usage}))
        frames.append(_frame({"type": "message_stop"}))
        self._is_ended = True
        return frames

    def _write_failure(self, event: StreamFailed) -> list[bytes]:
        self._is_ended = True
        self._blocks.text_index = NO_INDEX
        return [_frame(document_of(event.error, self._reply.request_id))]

    def _write(self, documents: list[Document]) -> list[bytes]:
        return [*self.begin(), *map(_frame, documents)]

    def _stop(self) -> Stop:
        finish = self._finish
        return stop_of(
            finish.reason,
            finish.raw,
            finish.stop_sequence,
            has_calls=self._blocks.has_calls,
            has_refusal=self._has_refusal,
        )

    def _start_document(self) -> Document:
        reply = self._reply
        usage = self._usage or Usage(input_uncached=reply.prompt_tokens)
        message = message_document(reply, [], Stop("", None), usage)
        return {"type": "message_start", "message": {**message, "stop_reason": None}}


def message_document(reply: Reply, content: list[Document], stop: Stop, usage: Usage) -> Document:
    return {
        "id": reply.id,
        "type": "message",
        "role": "assistant",
        "model": reply.model or reply.target_model,
        "content": content,
        "stop_reason": stop.reason,
        "stop_sequence": stop.sequence,
        "usage": usage_object(usage, with_buckets=True),
    }


def _frame(document: Document) -> bytes:
    if document["type"] == "content_block_stop":  # an answer can end with very many of them
        return _STOP_FRAME(document["index"])
    return sse.write_event(document["type"].encode(), jsonio.encode(document))


_WRITE: dict[type[Event], Callable[[MessagesEncoder, Any], list[bytes]]] = {
    TextDelta: MessagesEncoder._write_text,
    RefusalDelta: MessagesEncoder._write_refusal,
    ReasoningDelta: MessagesEncoder._write_reasoning,
    ToolCallStarted: MessagesEncoder._write_call,
    ToolCallDelta: MessagesEncoder._write_arguments,
    ChoiceFinished: MessagesEncoder._note_finish,
    UsageReported: MessagesEncoder._note_usage,
    StreamCompleted: MessagesEncoder._write_completion,
    StreamFailed: MessagesEncoder._write_failure,
}
