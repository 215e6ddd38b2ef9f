"""One choice of an OpenAI-style answer: the state that is kept between frames.

Handles the deltas that contain more than plain text (the decoder handles plain text itself, for speed) and turns them
into events in this order: reasoning, text, refusal, calls, then the members that are only carried along.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from streamweir.core.events import ChoiceFinished, Event, Extra, FinishReason, ReasoningDelta, RefusalDelta, TextDelta
from streamweir.providers.openai.call import CallTable
from streamweir.providers.openai.chunk import Delta


class ChoiceState:
    __slots__ = (
        "_calls",
        "_extras",
        "_is_inferred",
        "_may_replace",
        "_raw",
        "_stop_sequence",
        "closed",
        "finish",
        "has_new_content",
        "index",
        "logprobs",
    )

    def __init__(self, index: int) -> None:
        self.index = index
        self.logprobs: dict[str, Any] | None | UnsetType = UNSET
        """As last sent; two objects are never the same, so an object is always sent."""
        self.finish: FinishReason | None = None
        """Held from the frame that has it until `close`."""
        self.closed = False
        self.has_new_content = False
        """There was content in this frame, while a finish was held."""
        self._may_replace = True  # whether a newer finish replaces the held one
        self._raw = ""
        self._stop_sequence: str | None = None
        self._is_inferred = False
        self._calls: CallTable | None = None
        self._extras: dict[str, Any] = {}

    def hold(self, reason: FinishReason, raw: str, stop_sequence: str | None = None) -> None:
        """The first finish counts, unless content followed it."""
        if self._may_replace:
            self.finish = reason
            self._raw, self._stop_sequence = raw, stop_sequence
            self._may_replace = False

    @property
    def has_only_whole_calls(self) -> bool:
        """No call was cut, as far as its arguments show."""
        return self._calls is None or self._calls.are_whole

    def hold_default_finish(self, *, is_inferred: bool) -> None:
        """The finish of a choice that has none."""
        reason = FinishReason.STOP
        if self._calls is not None:
            reason = FinishReason.FUNCTION_CALL if self._calls.are_legacy else FinishReason.TOOL_CALLS
        self.hold(reason, "")
        self._is_inferred = is_inferred

    def close(self, events: list[Event]) -> None:
        """Sends the held finish: nothing of this choice follows it."""
        if self._calls is not None:
            self._calls.close(events)
        reason = self.finish or FinishReason.OTHER
        events.append(ChoiceFinished(self.index, reason, self._raw, self._stop_sequence, self._is_inferred))
        self.closed = True

    def read_delta(self, delta: Delta, events: list[Event]) -> bool:
        """Adds the delta's events. False, and no events: it has content although the choice is closed."""
        before = len(events)
        self._read_reasoning(delta, events)
        if delta.content:
            if isinstance(delta.content, str):
                events.append(TextDelta(self.index, delta.content))
            else:
                self._read_parts(delta.content, events)
        if delta.refusal:
            events.append(RefusalDelta(self.index, delta.refusal))
        if delta.tool_calls or delta.function_call is not None:
            if self._calls is None:
                self._calls = CallTable(self.index)
            self._calls.feed(delta.tool_calls or (), events)
            if delta.function_call is not None:
                self._calls.feed_legacy(delta.function_call, events)
        if len(events) > before:
            if self.closed:
                del events[before:]
                return False
            if self.finish is not None:
                self.has_new_content = self._may_replace = True
        self._read_extras(delta, events)
        return True

    def add_extra(self, name: str, value: Any, events: list[Event]) -> None:
        """An extra of this choice, unless it is the same as the last one."""
        if value and not self.closed and self._extras.get(name) != value:
            self._extras[name] = value
            events.append(Extra(self.index, {name: value}))

    def _read_reasoning(self, delta: Delta, events: list[Event]) -> None:
        # quirk: one text under up to three names, in one frame; it is counted once
        # (fixture doubleword/reasoning_under_three_names).
        details = tuple(delta.reasoning_details or ())
        text = delta.reasoning_content or delta.reasoning or _text_of(details)
        if text or details:
            events.append(ReasoningDelta(self.index, text, details))

    def _read_parts(self, parts: Sequence[Any], events: list[Event]) -> None:
        """quirk: content as a list, with the reasoning in it (fixture mistral/thinking_parts)."""
        for part in parts:
            if isinstance(part, str):
                part = {"text": part}
            if not isinstance(part, Mapping):
                continue
            text = part.get("text")
            if isinstance(text, str) and text:
                events.append(TextDelta(self.index, text))
            thinking = part.get("thinking")
            if isinstance(thinking, list):
                thinking = "".join(_text_member(piece, "text") for piece in thinking)
            if isinstance(thinking, str) and thinking:
                events.append(ReasoningDelta(self.index, thinking))

    def _read_extras(self, delta: Delta, events: list[Event]) -> None:
        self.add_extra("annotations", delta.annotations, events)
        self.add_extra("images", delta.images, events)
        self.add_extra("reasoning_encrypted", delta.reasoning_encrypted, events)
        if delta.audio and not self.closed:
            # Pieces of audio: two that are the same are not a repetition.
            events.append(Extra(self.index, {"audio": delta.audio}))


def _text_of(details: Sequence[Mapping[str, Any]]) -> str:
    return "".join(_text_member(entry, "text") or _text_member(entry, "summary") for entry in details)


def _text_member(value: Any, name: str) -> str:
    member = value.get(name) if isinstance(value, Mapping) else None
    return member if isinstance(member, str) else ""
