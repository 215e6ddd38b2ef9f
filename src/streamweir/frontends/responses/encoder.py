"""Events to the frames of the Responses API.

`response.created`, `response.in_progress`, the items (`responses.output`), then `response.completed` or
`response.incomplete` with the whole answer and its usage. That last frame is written when the answer is whole and never
before, so a stream that is cut does not have it: it ends with `error` and `response.failed`. Every frame has a
number, one more than the last, a keep-alive too. There is one answer: choices above the first are not written.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    Extra,
    FinishReason,
    LogprobsDelta,
    ReasoningDelta,
    RefusalDelta,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    StreamTagged,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
    UsageReported,
)
from streamweir.core.usage import Usage
from streamweir.frontends.base import Reply
from streamweir.frontends.responses.echo import Document, ResponseState
from streamweir.frontends.responses.errors import stream_members
from streamweir.frontends.responses.finish import ending_of
from streamweir.frontends.responses.output import Output, Part
from streamweir.frontends.responses.text import annotations_in, logprobs_in
from streamweir.wire import jsonio, sse

MAX_CHARACTERS = 2 * 1024 * 1024
"""Of the texts of an answer, as JSON has them, and of all else that is kept of it. The end repeats it four times, and
encoding more would block the event loop.
No model writes as much."""
_USUAL_NUMBER = 99_999
"""A sequence number with as many digits as most have."""

_TEXT_FRAME: Callable[[bytes], bytes] = b"event: response.output_text.delta\ndata: %b\n\n".__mod__


class _TextDocument(Struct, gc=False):
    """The document of a piece of text, which is filled anew for each."""

    type: str
    sequence_number: int
    item_id: str
    output_index: int
    content_index: int
    delta: str
    logprobs: tuple[()]


class ResponsesEncoder:
    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._response = ResponseState(reply)
        self._output = Output(reply)
        self.next_number = reply.first_number
        self._done_at: dict[int, int] = {}  # the numbers of the frames that ended items, by the items' index
        self._size = 0
        self._text: Part | None = None  # to which the next piece of text belongs
        self._document = _TextDocument("response.output_text.delta", 0, "", 0, 0, "", ())
        self._empty_size = 0  # of that document without a text
        self._logprobs: list[Document] = []
        self._usage: Usage | None = None
        self._finish = FinishReason.OTHER
        self._has_begun = reply.first_number > 0  # by frames that were passed on
        self._is_ended = False
        self._end_at: int | None = None  # the number of the first frame of a complete end

    @property
    def completion_id(self) -> str:
        return self._reply.id

    def begin(self) -> list[bytes]:
        if self._has_begun or self._is_ended:
            return []
        self._has_begun = True
        response = self._response.document("in_progress", [])
        kinds = ("response.created", "response.in_progress")
        return [self._frame({"type": kind, "response": response}) for kind in kinds]

    def keep_alive(self) -> bytes:
        """Nothing may be sent before `response.created` or after the end."""
        return self._frame({"type": "keepalive"}) if self._has_begun and not self._is_ended else b""

    def return_to(self, number: int) -> None:
        """The frames from this number on were not sent: a failure replaces them."""
        self.next_number = min(number, self.next_number)
        self._has_begun = self._has_begun and number > 0
        if self._end_at is not None:
            self._is_ended, self._end_at = False, None

    def feed(self, event: Event, /) -> list[bytes]:
        part = self._text
        if type(event) is TextDelta and part is not None and event.text and not event.choice:  # nearly every event
            document = self._document
            document.delta = event.text
            document.sequence_number = self.next_number
            data = jsonio.encode(document)
            self._size += len(data) - self._empty_size
            if self._size > MAX_CHARACTERS:
                raise _too_large()
            part.text.write(event.text)
            self.next_number += 1
            return [_TEXT_FRAME(data)]
        if getattr(event, "choice", None):
            return []
        write = _WRITE.get(type(event))
        if write is None or (self._is_ended and not (self._end_at is not None and type(event) is StreamFailed)):
            return []
        if self._output.size > MAX_CHARACTERS and type(event) not in _ENDS:
            raise _too_large()
        return write(self, event)

    def _note_start(self, event: StreamStarted | StreamTagged) -> list[bytes]:
        if isinstance(event.service_tier, str):
            self._response.service_tier = event.service_tier
        return []

    def _note_usage(self, event: UsageReported) -> list[bytes]:
        self._usage = event.usage
        return []

    def _note_finish(self, event: ChoiceFinished) -> list[bytes]:
        self._finish = event.reason
        return []

    def _note_logprobs(self, event: LogprobsDelta) -> list[bytes]:
        if self._reply.shows_logprobs:
            self._logprobs = logprobs_in(event.logprobs)
            if self._logprobs:
                self._text = None  # the next piece has them
        return []

    def _write_text(self, event: TextDelta) -> list[bytes]:
        self._count(event.text)
        held, self._logprobs = self._logprobs, []
        return self._write(self._output.text(event.text, held))

    def _write_refusal(self, event: RefusalDelta) -> list[bytes]:
        self._count(event.text)
        return self._write(self._output.refusal(event.text))

    def _write_reasoning(self, event: ReasoningDelta) -> list[bytes]:
        if self._reply.exclude_reasoning:
            return []
        self._count(event.text)
        return self._write(self._output.reasoning(event.text, event.details))

    def _write_call(self, event: ToolCallStarted) -> list[bytes]:
        self._logprobs = []
        return self._write(self._output.call(event.call, event.id, event.name, event.custom))

    def _write_arguments(self, event: ToolCallDelta) -> list[bytes]:
        self._count(event.arguments)
        return self._write(self._output.arguments(event.call, event.arguments))

    def _write_annotations(self, event: Extra) -> list[bytes]:
        annotations = annotations_in(event.fields) if event.choice is not None else []
        return self._write(self._output.annotate(annotations)) if annotations else []

    def _write_completion(self, _: StreamCompleted) -> list[bytes]:
        frames = self.begin()
        self._end_at = self.next_number
        ending = ending_of(self._finish)
        frames += self._write(self._output.close(ending.is_cut))
        usage = self._usage or self._reply.count_usage()
        response = self._response.document(ending.status, self._output.items, usage, reason=ending.reason)
        frames.append(self._frame({"type": f"response.{ending.status}", "response": response}))
        self._is_ended = True
        self._text = None
        return frames

    def _write_failure(self, event: StreamFailed) -> list[bytes]:
        if self._end_at is not None:  # it was not sent, and this replaces it
            self.return_to(self._end_at)
        begun = self.begin()  # clients expect it before an error, too
        self._is_ended = True
        self._text = None
        members = stream_members(event.error)
        error = {name: members[name] for name in ("code", "message")}
        sent = [item for index, item in sorted(self._output.done.items()) if self._done_at[index] < self.next_number]
        response = self._response.document("failed", sent, self._usage, error=error)
        documents = [{"type": "error", "error": members}, {"type": "response.failed", "response": response}]
        return [*begun, *map(self._frame, documents)]

    def _write(self, documents: list[Document]) -> list[bytes]:
        """The frames. What is open may have changed, so the next piece of text is prepared."""
        if not documents:
            return []
        frames = [*self.begin(), *map(self._frame, documents)]
        last, self._text = documents[-1], self._output.part
        if self._text is not None and last["type"] == "response.output_text.delta":
            document = self._document
            document.item_id, document.output_index = last["item_id"], last["output_index"]
            document.content_index = last["content_index"]
            document.delta, document.sequence_number = "", _USUAL_NUMBER
            self._empty_size = len(jsonio.encode(document))
        return frames

    def _frame(self, document: Document) -> bytes:
        numbered = {"type": document["type"], "sequence_number": self.next_number, **document}
        if document["type"] == "response.output_item.done":
            self._done_at[document["output_index"]] = self.next_number
        self.next_number += 1
        return sse.write_event(document["type"].encode(), jsonio.encode(numbered))

    def _count(self, text: str) -> None:
        self._size += len(jsonio.encode(text)) - len(b'""')
        if self._size > MAX_CHARACTERS:
            raise _too_large()


def _too_large() -> StreamweirError:
    return UpstreamError("response_too_large", "The answer is too large.")


_ENDS = (StreamCompleted, StreamFailed)
_WRITE: dict[type[Event], Callable[[ResponsesEncoder, Any], list[bytes]]] = {
    StreamStarted: ResponsesEncoder._note_start,
    StreamTagged: ResponsesEncoder._note_start,
    TextDelta: ResponsesEncoder._write_text,
    RefusalDelta: ResponsesEncoder._write_refusal,
    ReasoningDelta: ResponsesEncoder._write_reasoning,
    ToolCallStarted: ResponsesEncoder._write_call,
    ToolCallDelta: ResponsesEncoder._write_arguments,
    LogprobsDelta: ResponsesEncoder._note_logprobs,
    Extra: ResponsesEncoder._write_annotations,
    ChoiceFinished: ResponsesEncoder._note_finish,
    UsageReported: ResponsesEncoder._note_usage,
    StreamCompleted: ResponsesEncoder._write_completion,
    StreamFailed: ResponsesEncoder._write_failure,
}
