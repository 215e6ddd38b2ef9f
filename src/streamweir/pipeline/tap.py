"""The tap of OpenAI's chat format: reads frames that are passed on unchanged, and checks that they may be.

Each frame gets one small typed decode. The data for accounting goes into the meter's record. The structs below
declare the format that the frontend promises: a frame that deviates is not passed on; `feed` returns None, and the
stream is translated from there on. Members that the structs do not name are not checked.
"""

from collections.abc import Iterator
from io import StringIO
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from streamweir.core.errors import StreamweirError
from streamweir.core.events import MAX_CHOICES, FinishReason
from streamweir.core.usage import Usage
from streamweir.frontends.identifier import is_unique
from streamweir.pipeline.meter import Record, Text
from streamweir.pipeline.usage_cost import frame_with_price, has_provider_cost
from streamweir.providers.openai.usage import read_usage
from streamweir.wire import jsonio
from streamweir.wire.sse import DONE, Frame

NULL_USAGE = b',"usage":null'
"""These bytes cannot occur inside a JSON string, where quotes are escaped, so they can be cut out of a frame."""
_LAST_NULL_USAGE = NULL_USAGE + b"}\n\n"

ABSENT: Literal["absent"] = "absent"
_NoError = Literal["absent"]
"""The type of a member that must be absent: no upstream sends this value."""

_FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "function_call"]


class _Function(Struct, gc=False, forbid_unknown_fields=True):
    name: str | UnsetType = UNSET
    arguments: str | UnsetType = UNSET


class _Call(Struct, gc=False, forbid_unknown_fields=True):
    index: int
    id: str | UnsetType = UNSET
    type: Literal["function"] | UnsetType = UNSET
    function: _Function | UnsetType = UNSET


class _Delta(Struct, gc=False, forbid_unknown_fields=True):
    role: Literal["assistant"] | UnsetType = UNSET
    content: str | None | UnsetType = UNSET
    refusal: str | None | UnsetType = UNSET
    tool_calls: tuple[_Call] | UnsetType = UNSET
    function_call: _Function | UnsetType = UNSET


class _Choice(Struct, gc=False):
    index: int
    delta: _Delta
    finish_reason: _FinishReason | None


class _Chunk(Struct, gc=False):
    choices: list[_Choice]
    usage: dict[str, Any] | None | UnsetType = UNSET
    error: _NoError = ABSENT
    system_fingerprint: Any = UNSET
    service_tier: Any = UNSET


class _FullChunk(_Chunk, gc=False, kw_only=True):
    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str


class _TextDelta(Struct, gc=False, forbid_unknown_fields=True):
    content: str


class _TextChoice(Struct, gc=False):
    index: int
    delta: _TextDelta
    finish_reason: None


class _TextChunk(Struct, gc=False):
    """A frame with text only: nearly every frame."""

    choices: tuple[_TextChoice]
    usage: None
    error: _NoError = ABSENT


_EMPTY = _Delta()
_NO_LABELS = (UNSET, UNSET)
_NEVER = b"\n"  # no frame begins with it
_MAX_REPLAYED = 1 << 20
"""Characters of a call's arguments. If there are more, a part of them is replayed: the call does not look whole."""

_decode_text = msgspec.json.Decoder(_TextChunk).decode
_decode = msgspec.json.Decoder(_Chunk).decode
_decode_full = msgspec.json.Decoder(_FullChunk).decode


class ChoiceState(Struct):
    """What was read of a choice so far."""

    calls: tuple[StringIO, ...] = ()
    """The arguments of each. They are kept for a choice that turns out to have no finish: is each call whole?"""
    legacy_call: StringIO | None = None
    finish: str | None = None


class ChatTap:
    """Frames to the bytes that are sent for them. None: the frame deviates, and nothing was read from it.

    Once every choice has finished, frames are held until the end, or until another choice begins: a last finish that
    is followed by a failure must not be sent. While other choices are open, a finish is passed on at once. `choices`
    is the requested number (None: unknown): there is no end before all of them have finished, and a further one is a
    deviation.
    """

    has_reasoned = False
    failure: StreamweirError | None = None

    def __init__(self, record: Record, include_usage: bool, choices: int | None = None) -> None:
        self.record = record
        self.choices: dict[int, ChoiceState] = {}
        self.created = 0
        self.held: list[tuple[Frame, bytes]] = []
        """Frames that were not sent yet, with their bytes: the last finish, and the usage."""
        self.ended = False
        self._usage: Usage | None = None
        self._cuts_usage = not include_usage
        self._min_choices, self._max_choices = choices or 1, choices or MAX_CHOICES
        # The members before `choices`, as bytes. A frame that begins with them has the same id, model
        # and time as the one that was checked: one comparison instead of decoding four members.
        self._head = _NEVER
        self._text_head = _NEVER  # the same, while the next frame is likely to be text
        self._open: set[int] = set()  # choices that have begun and not finished
        # `system_fingerprint` and `service_tier`, as last sent: for the encoder, if it takes over.
        self._labels: tuple[Any, Any] = _NO_LABELS
        self._deliver = record.delivered.write

    next_number = 0  # its frames have none

    @property
    def has_finished(self) -> bool:
        """Every requested choice has finished: only usage and the end can follow."""
        return bool(self.held) and len(self.choices) >= self._min_choices

    def feed(self, frame: Frame, /) -> bytes | None:
        raw, data = frame.raw, frame.data
        if not frame.is_plain or data is None or not (data.isascii() or _is_utf8(data)):
            return None
        if raw.startswith(self._text_head):
            try:
                choice = _decode_text(data).choices[0]
            except (msgspec.DecodeError, RecursionError):
                self._text_head = _NEVER  # for example a tool call: then the next frame is likely one, too
            else:
                if choice.index not in self._open:
                    return None
                if self._cuts_usage:
                    raw = _without_null_usage(raw)
                    if not raw:
                        return None
                self._deliver(choice.delta.content)
                return raw
        return None if self.ended else self._feed_any(frame, raw, data)

    def replay_frames(self) -> Iterator[Frame]:
        """Frames of a short answer that bring a decoder into the state after the frames that were sent."""
        head = {"id": self.record.completion_id, "created": self.created, "model": self.record.model}
        labels = zip(("system_fingerprint", "service_tier"), self._labels, strict=True)
        head |= {name: label for name, label in labels if label is None or isinstance(label, str)}
        for index, seen in self.choices.items():
            delta: dict[str, Any] = {"role": "assistant", "content": "."}
            if seen.legacy_call is not None:
                delta["function_call"] = _replayed(seen.legacy_call)
            if seen.calls:
                delta["tool_calls"] = [
                    {"index": index, "id": f"call_{index}", "type": "function", "function": _replayed(arguments)}
                    for index, arguments in enumerate(seen.calls)
                ]
            reason = self.record.finishes.get(index)
            yield _frame({**head, "choices": [{"index": index, "delta": delta, "finish_reason": reason}]})
        yield _frame({**head, "choices": []})  # a decoder returns a finish with the next frame

    def _feed_any(self, frame: Frame, raw: bytes, data: bytes) -> bytes | None:
        try:
            chunk = _decode(data) if raw.startswith(self._head) else self._decode_checked(data, raw)
        except (msgspec.DecodeError, RecursionError):
            return self._end() if data == b"[DONE]" else None
        if self._usage is not None:
            return None  # the usage is the last frame
        labels = chunk.system_fingerprint, chunk.service_tier
        if labels != self._labels and labels != _NO_LABELS:
            self._note_labels(*labels)
        if isinstance(chunk.usage, dict):
            return None if chunk.choices else self._take_usage(chunk.usage, frame)
        if chunk.usage is UNSET and not self._cuts_usage:
            return None
        passed = _without_null_usage(raw) if chunk.usage is None and self._cuts_usage else raw
        if len(chunk.choices) != 1 or not passed or not self._take(chunk.choices[0]):
            return None
        if not self._open:
            self.held.append((frame, passed))
            return b""
        delta = chunk.choices[0].delta
        if chunk.usage is None and (delta.content or delta.role is not UNSET):
            self._text_head = self._head
        return self._release() + passed if self.held else passed

    def _decode_checked(self, data: bytes, raw: bytes) -> _Chunk:
        """A frame with another beginning: it must still have the id, the model and the time of the others."""
        chunk = _decode_full(data)
        record = self.record
        if record.completion_id is None:
            head, found, _ = raw.partition(b'"choices":')
            is_compact = b" " not in head[6:]
            if not found or not is_compact or not is_unique(chunk.id, "chatcmpl-") or not chunk.created:
                raise msgspec.DecodeError("not a beginning that may stand")
            record.completion_id, record.model, self.created = chunk.id, chunk.model, chunk.created
            self._head = head + found
        elif (chunk.id, chunk.model, chunk.created) != (record.completion_id, record.model, self.created):
            raise msgspec.DecodeError("another id, model or time")
        return chunk

    def _note_labels(self, fingerprint: Any, tier: Any) -> None:
        """A label that is absent is still the last one (docs/spec/quirks.md Q44)."""
        known = self._labels
        self._labels = known[0] if fingerprint is UNSET else fingerprint, known[1] if tier is UNSET else tier
        if isinstance(tier, str):
            self.record.service_tier = tier

    def _take(self, choice: _Choice) -> bool:
        """Whether the choice's delta has the promised format; if so, its data goes into the record."""
        index, delta, finish_reason = choice.index, choice.delta, choice.finish_reason
        seen = self.choices.get(index)
        if seen is None:
            # The opening delta: the role, and no text yet; a call may open in it.
            if delta.role is UNSET or delta.content or delta.refusal not in (None, UNSET):
                return False
            if finish_reason is not None or not 0 <= index < self._max_choices:
                return False
            seen = ChoiceState()
        elif delta.role is not UNSET or index not in self._open:
            return False
        if finish_reason is not None:
            if delta != _EMPTY:
                return False
            seen.finish = finish_reason
            self._open.discard(index)
            if self._open:  # else it is held
                self.record.finishes[index] = FinishReason(finish_reason)
            return True
        if not self._take_delta(seen, delta):
            return False
        self.choices[index] = seen
        self._open.add(index)
        return True

    def _take_delta(self, seen: ChoiceState, delta: _Delta) -> bool:
        contents = [m for m in (delta.content, delta.refusal, delta.tool_calls, delta.function_call) if m]
        if len(contents) > 1:
            return False
        if delta.function_call is not UNSET:
            return _take_function(seen, delta.function_call, self.record.delivered)
        if delta.tool_calls is not UNSET:
            return _take_call(seen, delta.tool_calls[0], self.record.delivered)
        self._deliver(delta.content or delta.refusal or "")
        return True

    def _take_usage(self, usage: dict[str, Any], frame: Frame) -> bytes | None:
        report = read_usage(usage)
        must_release = (
            bool(self.held) and len(self.choices) >= self._min_choices
        )  # `has_finished`, at less than its price
        if not must_release or report is None or not _adds_up(report, usage) or not self.record.is_plausible(report):
            return None
        if self._cuts_usage:
            self._usage = report
            self.held.append((frame, b""))
            return b""
        if has_provider_cost(usage):
            return None  # what the provider asks is not the caller's business: the encoder leaves it out
        price_of = self.record.price_of
        shown = frame if price_of is None else frame_with_price(frame, price_of(report))
        self._usage = report
        self.held.append((frame, shown.raw))
        return b""

    def _end(self) -> bytes | None:
        if not self.held or len(self.choices) < self._min_choices or (self._usage is None and not self._cuts_usage):
            return None
        self.ended = self.record.completed = True
        self.record.usage = self._usage
        return self._release() + DONE

    def _release(self) -> bytes:
        """The held bytes; their data goes into the record now."""
        held = b"".join([passed for _, passed in self.held])
        self.held.clear()
        for index, seen in self.choices.items():
            if seen.finish is not None:
                self.record.finishes[index] = FinishReason(seen.finish)
        return held


def _frame(document: dict[str, Any]) -> Frame:
    data = jsonio.encode(document)
    return Frame(data, data)


def _is_utf8(data: bytes) -> bool:
    """msgspec does not check the members that it skips, and they are sent as well."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _without_null_usage(raw: bytes) -> bytes:
    """The frame without the member; empty if it cannot be cut out safely."""
    if raw.endswith(_LAST_NULL_USAGE):  # the last member of the document: it cannot be anywhere else
        return raw[: -len(_LAST_NULL_USAGE)] + b"}\n\n"
    parts = raw.split(NULL_USAGE)
    return parts[0] + parts[1] if len(parts) == 2 else b""


def _adds_up(report: Usage, usage: dict[str, Any]) -> bool:
    return (report.prompt_tokens, report.completion_tokens, report.total_tokens) == (
        usage.get("prompt_tokens"),
        usage.get("completion_tokens"),
        usage.get("total_tokens"),
    )


def _take_call(seen: ChoiceState, call: _Call, delivered: Text) -> bool:
    function = call.function
    if function is UNSET or function.arguments is UNSET:
        return False
    if call.index == len(seen.calls):
        if not call.id or call.type is UNSET or not function.name or function.arguments:
            return False
        seen.calls += (StringIO(),)
        delivered.write(function.name)
        return True
    is_piece = call.id is UNSET and call.type is UNSET and function.name is UNSET
    if not is_piece or not 0 <= call.index < len(seen.calls):
        return False
    seen.calls[call.index].write(function.arguments)
    delivered.write(function.arguments)
    return True


def _take_function(seen: ChoiceState, function: _Function, delivered: Text) -> bool:
    if function.arguments is UNSET:
        return False
    if seen.legacy_call is None:
        if not function.name or function.arguments:
            return False
        seen.legacy_call = StringIO()
        delivered.write(function.name)
        return True
    if function.name is not UNSET:
        return False
    seen.legacy_call.write(function.arguments)
    delivered.write(function.arguments)
    return True


def _replayed(arguments: StringIO) -> dict[str, str]:
    return {"name": "f", "arguments": arguments.getvalue() if arguments.tell() <= _MAX_REPLAYED else "{"}
