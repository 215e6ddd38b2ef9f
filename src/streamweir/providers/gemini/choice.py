"""One candidate of a Gemini answer: its parts to events, and the state that is kept between frames.

Thought text becomes reasoning. A signature becomes an entry of `reasoning_details` that names the part it came with
(`signature`). Parts of tools that Google runs itself (code, its result, searches) are not part of the content and are
left out. A finish reason is only noted here: the newest one counts when the body ends.
"""

from streamweir.core.events import (
    ChoiceFinished,
    Event,
    Extra,
    FinishReason,
    LogprobsDelta,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
)
from streamweir.providers.gemini import signature
from streamweir.providers.gemini.answer import Blob, Call, Candidate, Part
from streamweir.providers.gemini.arguments import PartialArguments, whole_arguments
from streamweir.providers.gemini.logprob import logprobs_of

MALFORMED_CALL = "MALFORMED_FUNCTION_CALL"

UNSPECIFIED = frozenset(
    ("", 0, None, "FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED")
)
"""Enum values that mean that no reason is given."""

_FILTERED = frozenset(
    (
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MODEL_ARMOR",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
    )
)

# quirk: numbers if enum-encoding=int was requested, seen only on Vertex, so these are Vertex's numbers
# (fixture vertex/finish_reason_as_number). AI Studio's numbers differ from 6 on.
_NUMBERED = (
    "FINISH_REASON_UNSPECIFIED",
    "STOP",
    "MAX_TOKENS",
    "SAFETY",
    "RECITATION",
    "OTHER",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "MODEL_ARMOR",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "IMAGE_OTHER",
    "UNEXPECTED_TOOL_CALL",
    "NO_IMAGE",
)


class Choice:
    __slots__ = ("_call_count", "_open_call", "_signature_count", "index", "is_blocked", "reason", "text_length")

    def __init__(self, index: int) -> None:
        self.index = index
        self.text_length = 0
        self.reason = ""
        """The newest finish reason as Gemini spells it; empty if there is none yet."""
        self.is_blocked = False
        self._call_count = 0
        self._signature_count = 0
        self._open_call: PartialArguments | None = None

    def take(self, candidate: Candidate, events: list[Event]) -> None:
        if candidate.logprobs_result is not None:
            logprobs = logprobs_of(candidate.logprobs_result)
            if logprobs is not None:
                events.append(LogprobsDelta(self.index, logprobs))
        content = candidate.content
        if content is not None and content.parts:
            for part in content.parts:
                self._take_part(part, events)

    def note_reason(self, value: str | int) -> None:
        if isinstance(value, int):
            value = _NUMBERED[value] if 0 < value < len(_NUMBERED) else str(value)
        self.reason = value

    def finish(self, events: list[Event]) -> None:
        self._close_call(events)
        if self.is_blocked or self.reason in _FILTERED:
            reason = FinishReason.CONTENT_FILTER
        elif self.reason == "STOP":
            reason = FinishReason.TOOL_CALLS if self._call_count else FinishReason.STOP
        elif self.reason == "MAX_TOKENS":
            reason = FinishReason.LENGTH
        else:
            reason = FinishReason.OTHER
        events.append(ChoiceFinished(self.index, reason, self.reason))

    def _take_part(self, part: Part, events: list[Event]) -> None:
        if part.function_call is not None:
            self._take_call(part.function_call, part.thought_signature, events)
            return
        text = part.text
        start = self.text_length
        if part.thought:
            if text:
                events.append(ReasoningDelta(self.index, text))
        elif text:
            self.text_length += len(text)
            events.append(TextDelta(self.index, text))
        elif part.inline_data is not None:
            self._take_blob(part.inline_data, events)
        if part.thought_signature:
            is_carried = text is not None
            position = signature.text_position(start, self.text_length) if is_carried else signature.UNCARRIED
            self._sign(part.thought_signature, position, events)

    def _take_blob(self, blob: Blob, events: list[Event]) -> None:
        kind = blob.mime_type or ""
        if not blob.data:
            return
        if kind.startswith("image/"):
            image = {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{blob.data}"}}
            events.append(Extra(self.index, {"images": [image]}))
        elif kind.startswith("audio/"):
            events.append(Extra(self.index, {"audio": {"data": blob.data, "mime_type": kind}}))

    def _take_call(self, call: Call, signed: str | None, events: list[Event]) -> None:
        args = bytes(call.args)
        if call.name or self._open_call is None:
            if not (call.name or args or call.partial_args):
                return  # the end of a call that has ended already
            self._close_call(events)
            ordinal = self._call_count
            if signed:
                self._sign(signed, signature.call_position(ordinal, call.id), events)
            events.append(ToolCallStarted(self.index, ordinal, call.id or None, call.name or ""))
            self._call_count += 1
            if not call.will_continue and not call.partial_args:
                events.append(ToolCallDelta(self.index, ordinal, whole_arguments(args)))
                return
            self._open_call = PartialArguments()
        elif signed:
            self._sign(signed, signature.call_position(self._call_count - 1, None), events)
        self._open_call.replace(args)
        for piece in call.partial_args or ():
            self._open_call.add(piece)
        if not call.will_continue:
            self._close_call(events)

    def _close_call(self, events: list[Event]) -> None:
        # quirk: the piece that ends a call can be missing (fixture vertex/streamed_arguments_without_end)
        if self._open_call is not None:
            events.append(ToolCallDelta(self.index, self._call_count - 1, self._open_call.text()))
            self._open_call = None

    def _sign(self, signed: str, position: str, events: list[Event]) -> None:
        entry = signature.entry(signed, self._signature_count, position)
        self._signature_count += 1
        events.append(ReasoningDelta(self.index, "", (entry,)))
