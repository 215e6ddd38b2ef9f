"""The encoder against a slow one that builds each frame anew: what was sent before must not show in the next.

Left out, for they need rules and not frames: legacy calls, several calls, calls that go out whole (see `test_chat`).
"""

import json
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Struct, UnsetType, field

from streamweir.core import events as e
from streamweir.core.errors import UpstreamError
from streamweir.core.usage import Usage
from streamweir.frontends.base import Reply
from streamweir.frontends.chat.dialect import Dialect, UsageRule, call_id, identity_of
from streamweir.frontends.chat.encoder import Encoder
from streamweir.frontends.chat.errors import stream_envelope
from streamweir.frontends.chat.table import DIALECTS
from streamweir.frontends.chat.usage import usage_object


class Said(Struct):
    """What the slow encoder knows of a choice."""

    null: None | UnsetType
    waiting: list[dict[str, Any]] = field(default_factory=list)
    has_calls: bool = False


class SlowEncoder:
    def __init__(self, dialect: Dialect, reply: Reply) -> None:
        self.dialect, self.reply = dialect, reply
        self.head: dict[str, Any] = {}
        self.extras: dict[str, Any] = {}
        self.said: dict[int, Said] = {}
        self.finishes: list[e.ChoiceFinished] = []
        self.usage = Usage()
        self.out: list[dict[str, Any]] = []

    def feed(self, event: e.Event) -> None:
        dialect = self.dialect
        match event:
            case e.StreamStarted() | e.StreamTagged():
                if isinstance(event, e.StreamStarted):
                    id, created, model = identity_of(event, dialect, self.reply)
                    created = created or self.reply.now()
                    self.head = {"id": id, "object": dialect.chunk_object, "created": created, "model": model}
                tags = {"system_fingerprint": event.system_fingerprint, "service_tier": event.service_tier}
                self.head |= {name: tag for name, tag in tags.items() if dialect.labels and tag is not UNSET}
            case e.UsageReported():
                self.usage = event.usage
            case e.Extra():
                shown = {name: value for name, value in event.fields.items() if name in dialect.extras}
                if event.choice is None:
                    self.extras |= shown
                elif shown:
                    self.show(event.choice, shown)
            case e.TextDelta():
                self.show(event.choice, {"content": event.text})
            case e.RefusalDelta():
                self.show(event.choice, {"refusal" if dialect.refusal else "content": event.text})
            case e.ReasoningDelta() if dialect.reasoning:
                self.show(event.choice, {"reasoning_content": event.text})
            case e.ToolCallStarted() | e.ToolCallDelta():
                self.show(event.choice, self.call(event, self.open(event.choice)))
            case e.LogprobsDelta() if dialect.logprobs:
                said = self.open(event.choice, event.logprobs)
                if isinstance(event.logprobs, dict):
                    said.waiting.append(event.logprobs)
                else:
                    said.null = event.logprobs
            case e.ChoiceFinished():
                self.open(event.choice)
                self.finishes.append(event)
                if dialect.usage is not UsageRule.ON_FINISH:
                    self.finish(event)
            case e.StreamCompleted():
                self.complete()
            case e.StreamFailed():
                head = {**self.head, "choices": []} if dialect.error_in_chunk else {}
                self.out.append({**head, **stream_envelope(event.error, dialect)})

    def call(self, event: e.ToolCallStarted | e.ToolCallDelta, said: Said) -> dict[str, Any]:
        if isinstance(event, e.ToolCallDelta):
            function, opener = {"arguments": event.arguments}, {}
        else:
            function = {"name": event.name, "arguments": ""}
            opener = {"id": event.id or call_id(self.head["id"], event.choice, event.call), "type": "function"}
            said.has_calls = True
        return {"tool_calls": [{"index": event.call, **opener, "function": function}]}

    def finish(self, event: e.ChoiceFinished, usage: dict[str, Any] | None = None) -> None:
        word = self.dialect.finish_reason(event.reason, self.said[event.choice].has_calls)
        self.show(event.choice, self.dialect.finish_delta, word, usage)

    def complete(self) -> None:
        usage = (
            usage_object(self.usage, self.dialect) if self.dialect.includes_usage(self.reply.include_usage) else None
        )
        if self.dialect.usage is UsageRule.ON_FINISH:
            for event in self.finishes:
                self.finish(event, usage)
        elif usage is not None:
            self.write([], usage)

    def open(self, choice: int, logprobs: object = UNSET) -> Said:
        if choice not in self.said:
            self.said[choice] = Said(None if logprobs is None else UNSET)
            if self.dialect.first_delta is not None:
                self.show(choice, self.dialect.first_delta)
        return self.said[choice]

    def show(self, choice: int, delta: Any, word: str | None = None, usage: dict[str, Any] | None = None) -> None:
        said = self.open(choice)
        has_logprobs = said.waiting or said.null is None
        logprobs = {"logprobs": joined(said.waiting) if said.waiting else None} if has_logprobs else {}
        said.waiting = []
        self.write([{"index": choice, "delta": delta, **logprobs, "finish_reason": word}], usage)

    def write(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None) -> None:
        has_usage = usage is not None or (self.dialect.null_usage and self.reply.include_usage)
        self.out.append({**self.head, "choices": choices, **({"usage": usage} if has_usage else {}), **self.extras})
        self.extras = {}


def joined(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    found = {name: [piece[name] for piece in pieces if piece.get(name) is not None] for name in chain(*pieces)}
    return {name: list(chain(*lists)) if lists else None for name, lists in found.items()}


word = st.text(st.sampled_from('ab"\\\n{é'), min_size=1, max_size=2)
tag = st.sampled_from([UNSET, None, "a", "b"])
entries = st.none() | st.lists(st.sampled_from([{"token": "a"}, {"token": "b"}]), max_size=2)
logprobs = st.dictionaries(st.sampled_from(["content", "refusal"]), entries, min_size=1)
members = st.dictionaries(st.sampled_from(["citations", "images", "odd"]), st.just([1]), min_size=1)
choice = st.sampled_from([0, 0, 0, 1])
some_logprobs = st.builds(e.LogprobsDelta, choice, logprobs | logprobs | st.none() | st.just(UNSET))
some_text = st.builds(e.TextDelta, choice, word)
anything = st.one_of(
    st.builds(e.RefusalDelta, choice, word),
    st.builds(e.ReasoningDelta, choice, word),
    st.builds(e.ToolCallStarted, choice, st.just(0), st.none() | word, word),
    st.builds(e.ToolCallDelta, choice, st.just(0), word),
    st.builds(e.ChoiceFinished, choice, st.sampled_from(e.FinishReason)),
    st.builds(e.StreamTagged, tag, tag),
    st.builds(e.UsageReported, st.builds(Usage, output=st.integers(0, 9))),
    st.builds(e.Extra, st.none() | choice, members),
)
stream_extra = st.builds(e.Extra, st.none(), members)
drawn_events = st.lists(some_text | some_logprobs | some_logprobs | stream_extra | anything, min_size=5)


def lawful(drawn: list[e.Event], dialect: Dialect, is_complete: bool) -> list[e.Event]:
    """The drawn events less what the law forbids, at most one call per choice, between a start and an end."""
    kept: list[e.Event] = [e.StreamStarted("chatcmpl-u000000000000001", "m", 5, None)]
    is_open: dict[int, bool] = {}
    have_call: set[int | None] = set()
    for event in drawn:
        index = getattr(event, "choice", None)
        is_call = isinstance(event, e.ToolCallStarted)
        is_late = index is not None and (not is_open.get(index, True) or index >= dialect.request.max_choices)
        is_odd_call = is_call and (dialect.whole_tool_calls or index in have_call)
        if is_late or is_odd_call or (isinstance(event, e.ToolCallDelta) and index not in have_call):
            continue
        if is_call:
            have_call.add(index)
        if index is not None:
            is_open[index] = not isinstance(event, e.ChoiceFinished)
        kept.append(event)
    if not is_complete:
        return [*kept, e.StreamFailed(UpstreamError("upstream_stream_reset", "gone"))]
    rest = [e.ChoiceFinished(index, e.FinishReason.STOP) for index in is_open if is_open[index]]
    return [*kept, *rest, e.StreamCompleted()]


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@given(drawn=drawn_events, is_complete=st.booleans(), usage=st.booleans())
def test_a_frame_shows_nothing_of_the_frames_before(
    dialect: Dialect, drawn: list[e.Event], is_complete: bool, usage: bool
) -> None:
    reply = Reply(id="ours", now=lambda: 7, model="asked", include_usage=usage)
    fast, slow = Encoder(dialect, reply), SlowEncoder(dialect, reply)
    for event in lawful(drawn, dialect, is_complete):
        slow.out.clear()
        slow.feed(event)
        lines = [json.dumps(document, ensure_ascii=False, separators=(",", ":")) for document in slow.out]
        is_last = isinstance(event, e.StreamCompleted | e.StreamFailed)
        expected = "".join(f"data: {line}\n\n" for line in lines).encode() + dialect.terminator * is_last
        assert b"".join(fast.feed(event)) == expected
