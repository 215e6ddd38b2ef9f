"""The output items of one response: their state between frames.

An item is identified by its `output_index`: its id can differ in every frame (Copilot). Of its texts only the length so
far is kept: a `.done` frame and the end of the item repeat them, and text that was not in the deltas is sent then.
Items that are not the caller's (searches, programs, and every unknown type) make no events.

`index` of a reasoning detail is the position of its item among those that a chat message can contain (reasoning,
adjacent text, a call), as in `providers.anthropic.block`: `message.py` restores that order.
"""

from collections.abc import Mapping
from typing import Any

from streamweir.core.events import (
    Event,
    Extra,
    LogprobsDelta,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
)
from streamweir.providers.members import object_of, objects_in, text_of
from streamweir.providers.responses.frame import NO_INDEX, StreamEvent

MAX_PARTS = 20_000
"""Items and their parts, in one answer: more than the calls that a stream may have."""

_MESSAGE, _REASONING, _CALL, _OTHER = "message", "reasoning", "call", "other"
_KINDS = {"message": _MESSAGE, "reasoning": _REASONING, "function_call": _CALL, "custom_tool_call": _CALL}
_SEPARATOR = "\n\n"
"""Between two parts of a summary, which are paragraphs."""
_NOT_STARTED = -1


class _Item:
    __slots__ = ("annotations", "call", "is_custom", "kind", "lengths", "position", "summaries")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.lengths: dict[int, int] = {}  # of the texts that were sent, by part
        self.summaries: dict[int, int] = {}  # the same of the parts of a summary
        self.annotations = 0
        self.position: int | None = None
        self.call = _NOT_STARTED
        self.is_custom = False


_DONE = _Item("done")


class ItemTable:
    __slots__ = (
        "_calls",
        "_in_text",
        "_items",
        "_last",
        "_names",
        "_positions",
        "_reasoning_format",
        "has_lost_call",
        "parts",
        "searches",
        "text_index",
        "text_length",
        "text_part",
    )

    def __init__(self, reasoning_format: str) -> None:
        self.text_index: int | None = None
        """The item whose text is being sent, with its part and the length so far, which the decoder updates."""
        self.text_part = 0
        self.text_length = 0
        self.parts = 0
        """All that were seen."""
        self.has_lost_call = False
        """A call never got a name, so it cannot be sent to the caller."""
        self.searches = 0
        """Searches of the web by the provider."""
        self._items: dict[int, _Item] = {}
        self._last = NO_INDEX
        self._calls = 0
        self._positions = 0
        self._in_text = False
        self._names: set[str] | None = None
        self._reasoning_format = reasoning_format

    @property
    def is_empty(self) -> bool:
        """No item has begun."""
        return not self._items

    @property
    def has_calls(self) -> bool:
        return self._calls > 0

    def declare(self, tools: object) -> None:
        """The tools of the request, as the response repeats them."""
        if isinstance(tools, list) and tools:
            own = [tool for tool in tools if isinstance(tool, dict)]
            self._names = {name for tool in own for name in _names_in(tool)}

    def start(self, index: int, sent: Mapping[str, Any], events: list[Event]) -> None:
        self.leave_text()
        item = self._open(self._last + 1 if index == NO_INDEX else index, sent)
        if item.kind is _CALL:
            self._start_call(item, sent, events)

    def add(self, event: StreamEvent, kind: str, events: list[Event]) -> None:
        """A delta; `kind` is its type without its prefix."""
        delta = event.delta
        if not delta:
            return
        self.leave_text()
        if kind == "output_text.delta":
            self._add_text(event, delta, events)
        elif kind in ("function_call_arguments.delta", "custom_tool_call_input.delta"):
            self._add_arguments(self._find(event.output_index, _CALL), delta, events)
        elif kind == "reasoning_summary_text.delta":
            self._add_summary(self._find(event.output_index, _REASONING), event.summary_index, delta, events)
        elif kind == "reasoning_text.delta":
            self._add_reasoning(self._find(event.output_index, _REASONING), event.content_index, delta, events)
        elif kind == "refusal.delta":
            self._add_refusal(self._find(event.output_index, _MESSAGE), event.content_index, delta, events)

    def complete(self, event: StreamEvent, kind: str, events: list[Event]) -> None:
        """A `.done` frame: the rest of its text, if the deltas did not have all of it."""
        self.leave_text()
        # quirk: arguments that are only in this frame (fixture openai-responses/arguments_in_done).
        if kind == "output_text.done":
            item = self._find(event.output_index, _MESSAGE)
            self._complete_text(item, event.content_index, event.text, event.logprobs, events)
        elif kind == "refusal.done":
            item = self._find(event.output_index, _MESSAGE)
            self._add_refusal(item, event.content_index, _rest(item, event.content_index, event.refusal), events)
        elif kind == "reasoning_summary_text.done":
            item = self._find(event.output_index, _REASONING)
            self._complete_summary(item, event.summary_index, event.text, events)
        elif kind == "reasoning_text.done":
            item = self._find(event.output_index, _REASONING)
            self._add_reasoning(item, event.content_index, _rest(item, event.content_index, event.text), events)
        elif kind in ("function_call_arguments.done", "custom_tool_call_input.done"):
            item = self._find(event.output_index, _CALL)
            self._add_arguments(item, _rest(item, 0, event.arguments or event.input), events)

    def annotate(self, index: int, annotation: Mapping[str, Any], events: list[Event]) -> None:
        self.leave_text()
        item = self._find(index, _MESSAGE)
        if item is not None:
            item.annotations += 1
            self._give_annotations([annotation], events)

    def end(self, index: int, sent: Mapping[str, Any], events: list[Event]) -> None:
        """The item is done, and `sent` is its final form."""
        self.leave_text()
        kind = _KINDS.get(text_of(sent, "type") or "", _OTHER)
        if index == NO_INDEX:
            index = self._last
        item = self._items.get(index)
        if item is None:
            item = self._open(index, sent)
        if item.kind is not kind:
            return
        self._items[index] = _DONE
        if kind is _MESSAGE:
            self._end_message(item, sent, events)
        elif kind is _REASONING:
            self._end_reasoning(item, sent, events)
        elif kind is _CALL:
            self._end_call(item, sent, events)
        elif sent.get("type") == "image_generation_call":
            _give_image(sent, events)
        elif sent.get("type") == "web_search_call":
            self.searches += _is_search(sent)

    def close(self, events: list[Event]) -> None:
        """The answer is complete, and so are the items without an end."""
        self.leave_text()
        for _, item in sorted(self._items.items()):
            if item.kind is _CALL and item.call == _NOT_STARTED:
                self.has_lost_call = True
            elif item.kind is _CALL and not item.lengths and not item.is_custom:
                events.append(ToolCallDelta(0, item.call, "{}"))

    def _open(self, index: int, sent: Mapping[str, Any]) -> _Item:
        self._last = index
        self.parts += 1
        item = self._items[index] = _Item(_KINDS.get(text_of(sent, "type") or "", _OTHER))
        return item

    def _find(self, index: int, kind: str) -> _Item | None:
        """The item of a piece, which begins it if it has not begun. None: there is none, or it is done."""
        if index == NO_INDEX:
            index = self._last
        item = self._items.get(index)
        if item is None:
            self._last = index
            self.parts += 1
            item = self._items[index] = _Item(kind)
        return item if item.kind is kind else None

    def leave_text(self) -> None:
        """The next frame is not a further piece of the text."""
        if self.text_index is not None:
            self._items[self.text_index].lengths[self.text_part] = self.text_length
            self.text_index = None

    def _add_text(self, event: StreamEvent, delta: str, events: list[Event]) -> None:
        item = self._find(event.output_index, _MESSAGE)
        if item is None:
            return
        part = event.content_index
        if event.logprobs:
            events.append(LogprobsDelta(0, {"content": event.logprobs}))
        self._give_text(item, part, delta, events)
        if event.output_index != NO_INDEX:
            self.text_index, self.text_part, self.text_length = event.output_index, part, item.lengths[part]

    def _give_text(self, item: _Item, part: int, text: str, events: list[Event]) -> None:
        if not self._in_text:
            self._next_position()
            self._in_text = True
        self._grow(item.lengths, part, text)
        events.append(TextDelta(0, text))

    def _complete_text(
        self, item: _Item | None, part: int, text: str | None, logprobs: object, events: list[Event]
    ) -> None:
        rest = _rest(item, part, text)
        if item is None or not rest:
            return
        if rest == text and logprobs and isinstance(logprobs, list):
            events.append(LogprobsDelta(0, {"content": logprobs}))
        self._give_text(item, part, rest, events)

    def _add_refusal(self, item: _Item | None, part: int, text: str, events: list[Event]) -> None:
        if item is not None and text:
            self._grow(item.lengths, part, text)
            events.append(RefusalDelta(0, text))

    def _add_reasoning(self, item: _Item | None, part: int, text: str, events: list[Event]) -> None:
        if item is not None and text:
            self._grow(item.lengths, part, text)
            self._in_text = False
            events.append(ReasoningDelta(0, text))

    def _add_summary(self, item: _Item | None, part: int, text: str, events: list[Event]) -> None:
        if item is None or not text:
            return
        is_further = bool(item.summaries) and part not in item.summaries
        self._grow(item.summaries, part, text)
        if is_further:
            text = _SEPARATOR + text
        position = self._position(item)
        entry = {"type": "reasoning.summary", "summary": text, "format": self._reasoning_format, "index": position}
        events.append(ReasoningDelta(0, text, (entry,)))

    def _complete_summary(self, item: _Item | None, part: int, text: str | None, events: list[Event]) -> None:
        if item is not None and text:
            self._add_summary(item, part, text[item.summaries.get(part, 0) :], events)

    def _add_arguments(self, item: _Item | None, text: str, events: list[Event]) -> None:
        if item is not None and text and item.call != _NOT_STARTED:  # a call without a name is sent at its end
            self._grow(item.lengths, 0, text)
            events.append(ToolCallDelta(0, item.call, text))

    def _start_call(self, item: _Item, sent: Mapping[str, Any], events: list[Event], *, is_done: bool = False) -> None:
        name, is_custom = text_of(sent, "name"), sent.get("type") == "custom_tool_call"
        if name is None or (not name and not is_done):  # an empty one counts when no other can follow
            return
        # quirk: xAI shows its own searches as calls of tools that were not declared (fixture
        # xai-responses/calls_of_the_providers_own). A name that the model invented is passed on: the caller refuses it.
        if self._names is not None and name not in self._names and (is_custom or not self._names):
            item.kind = _OTHER
            return
        item.call, item.is_custom = self._calls, is_custom
        self._calls += 1
        self._next_position()
        call_id = text_of(sent, "call_id") or None
        events.append(ToolCallStarted(0, item.call, call_id, name, custom=is_custom))

    def _end_message(self, item: _Item, sent: Mapping[str, Any], events: list[Event]) -> None:
        annotations: list[dict[str, Any]] = []
        for i, part in enumerate(objects_in(sent, "content")):
            if part.get("type") == "refusal":
                self._add_refusal(item, i, _rest(item, i, text_of(part, "refusal")), events)
            else:
                self._complete_text(item, i, text_of(part, "text"), part.get("logprobs"), events)
            annotations += objects_in(part, "annotations")
        self._give_annotations(annotations[item.annotations :], events)

    def _end_reasoning(self, item: _Item, sent: Mapping[str, Any], events: list[Event]) -> None:
        texts = [text_of(part, "text") for part in objects_in(sent, "content")]
        if any(texts) and not item.summaries:
            for i, text in enumerate(texts):
                self._add_reasoning(item, i, _rest(item, i, text), events)
        elif not item.lengths:
            for i, part in enumerate(objects_in(sent, "summary")):
                self._complete_summary(item, i, text_of(part, "text"), events)
        data = text_of(sent, "encrypted_content")
        if data:
            entry: dict[str, Any] = {"type": "reasoning.encrypted", "data": data}
            if id := text_of(sent, "id"):
                entry["id"] = id
            # quirk: OpenRouter names the family of a content that is not OpenAI's.
            entry["format"] = text_of(sent, "format") or self._reasoning_format
            entry["index"] = self._position(item)
            events.append(ReasoningDelta(0, "", (entry,)))

    def _end_call(self, item: _Item, sent: Mapping[str, Any], events: list[Event]) -> None:
        if item.call == _NOT_STARTED:
            self._start_call(item, sent, events, is_done=True)
            self.has_lost_call |= item.kind is _CALL and item.call == _NOT_STARTED
        text = text_of(sent, "arguments") or text_of(sent, "input")
        self._add_arguments(item, _rest(item, 0, text), events)
        is_function = sent.get("type") == "function_call" and item.call != _NOT_STARTED
        if is_function and not item.lengths and sent.get("status") != "incomplete":
            events.append(ToolCallDelta(0, item.call, "{}"))

    def _give_annotations(self, annotations: list[Any], events: list[Event]) -> None:
        given = [cited for each in annotations if (cited := _citation(each)) is not None]
        if given:
            events.append(Extra(0, {"annotations": given}))

    def _position(self, item: _Item) -> int:
        if item.position is None:
            item.position = self._next_position()
        return item.position

    def _next_position(self) -> int:
        position = self._positions
        self._positions += 1
        self._in_text = False
        return position

    def _grow(self, lengths: dict[int, int], part: int, text: str) -> None:
        known = lengths.get(part)
        if known is None:
            self.parts += 1
            known = 0
        lengths[part] = known + len(text)


def _rest(item: _Item | None, part: int, text: str | None) -> str:
    """Of a text that is repeated as a whole: the part that was not sent yet."""
    return text[item.lengths.get(part, 0) :] if item is not None and text else ""


def _names_in(tool: Mapping[str, Any]) -> list[str]:
    """The names under which the model calls a tool of the caller; a tool that the provider runs has none."""
    function = object_of(tool, "function") or tool
    if tool.get("type") == "namespace":
        return [name for inner in objects_in(tool, "tools") for name in _names_in(inner)]
    name = text_of(function, "name") if tool.get("type") in ("function", "custom") else None
    return [name] if name else []


def _citation(annotation: Mapping[str, Any]) -> dict[str, Any] | None:
    """As in chat completions, which have only citations with an address."""
    if annotation.get("type") != "url_citation":
        return None
    return {"type": "url_citation", "url_citation": {k: v for k, v in annotation.items() if k != "type"}}


def _is_search(sent: Mapping[str, Any]) -> bool:
    """Opening a page, or finding a text in one, is another action of the same tool: OpenAI does not charge for it."""
    action = object_of(sent, "action")
    return sent.get("status") != "failed" and (action is None or text_of(action, "type") in (None, "search"))


def _give_image(sent: Mapping[str, Any], events: list[Event]) -> None:
    result = text_of(sent, "result")
    if not result:
        return
    url = result
    if not result.startswith(("http://", "https://", "data:")):
        url = f"data:image/{text_of(sent, 'output_format') or 'png'};base64,{result}"
    events.append(Extra(0, {"images": [{"type": "image_url", "image_url": {"url": url}}]}))
