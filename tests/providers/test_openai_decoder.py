"""Corners of the OpenAI-style decoder that no fixture can show: state between frames, failures from outside."""

from typing import Any

import pytest

from streamweir.core.errors import UpstreamError
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    FinishReason,
    ReasoningDelta,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
    UsageReported,
)
from streamweir.providers.openai.decoder import OpenAIDecoder
from streamweir.providers.openai.finish import failure_of, read_finish
from streamweir.providers.registry import provider_named
from streamweir.wire import jsonio
from streamweir.wire.sse import Frame
from support.event_lines import format_events

TOO_SLOW = UpstreamError("stream_idle_timeout", "Nothing came.")


def frame(document: Any, event: bytes = b"", terminated: bool = True) -> Frame:
    data = document if isinstance(document, bytes) else jsonio.encode(document)
    return Frame(b"data: " + data + b"\n\n", data, event, terminated)


def chunk(delta: dict[str, Any], finish: str | None = None, index: int = 0, **more: Any) -> Frame:
    return frame({"id": "c", "choices": [{"index": index, "delta": delta, "finish_reason": finish}], **more})


def codes(events: Any) -> list[str]:
    return [event.error.code for event in events if isinstance(event, StreamFailed)]


class TestFinish:
    def test_a_finish_is_held_for_one_frame_and_the_last_until_the_end(self) -> None:
        decoder = OpenAIDecoder()
        stop = FinishReason.STOP
        decoder.feed(chunk({"content": "a"}))
        decoder.feed(chunk({"content": "b"}, index=1))
        assert decoder.feed(chunk({}, "stop")) == []
        assert not decoder.may_end_when_idle
        assert decoder.feed(chunk({"content": "B"}, index=1)) == [ChoiceFinished(0, stop, "stop"), TextDelta(1, "B")]
        assert decoder.feed(chunk({}, "stop", index=1)) == []
        assert decoder.may_end_when_idle
        assert decoder.feed(chunk({}, index=1)) == []
        assert decoder.feed(chunk({}, "stop", index=1)) == []
        assert decoder.feed(frame(b"[DONE]")) == [ChoiceFinished(1, stop, "stop"), StreamCompleted()]

    @pytest.mark.parametrize(
        ("vendor", "stop_reason", "expected"),
        [
            ("vllm", "END", "END"),
            ("vllm", 128001, None),
            ("vllm", "", None),
            ("vllm", None, None),
            ("venice", "x", None),
        ],
    )
    def test_vllm_names_the_stop_sequence(self, vendor: str, stop_reason: Any, expected: str | None) -> None:
        provider = provider_named(vendor)
        ended = {"index": 0, "finish_reason": "stop", "stop_reason": stop_reason}
        finished = ChoiceFinished(0, FinishReason.STOP, "stop", expected)
        decoder = provider.decoder(1)
        decoder.feed(frame({"id": "c", "choices": [{**ended, "delta": {"content": "a"}}]}))
        assert decoder.feed(frame(b"[DONE]")) == [finished, StreamCompleted()]
        message = {"role": "assistant", "content": "a"}
        assert finished in provider.decode_whole(jsonio.encode({"id": "c", "choices": [{**ended, "message": message}]}))

    def test_a_finish_waits_while_its_choice_continues(self) -> None:
        decoder = OpenAIDecoder()
        decoder.feed(chunk({"content": "a"}))
        decoder.feed(chunk({"content": "b"}, index=1))
        assert decoder.feed(chunk({}, "stop")) == []
        assert decoder.feed(chunk({"content": "A"})) == [TextDelta(0, "A")]
        assert decoder.feed(chunk({}, index=1)) == [ChoiceFinished(0, FinishReason.STOP, "stop")]

    def test_nothing_is_awaited_before_anything_came(self) -> None:
        assert not OpenAIDecoder().may_end_when_idle

    def test_a_finish_that_is_held_is_not_given_out_with_a_failure(self) -> None:
        decoder = OpenAIDecoder()
        decoder.feed(chunk({"content": "a"}, "stop"))
        assert decoder.fail(TOO_SLOW) == [StreamFailed(TOO_SLOW)]

    @pytest.mark.parametrize(
        ("word", "reason"),
        [
            ("stop", FinishReason.STOP),
            ("end_turn", FinishReason.STOP),
            ("EOS", FinishReason.STOP),
            ("max_tokens", FinishReason.LENGTH),
            ("tool_use", FinishReason.TOOL_CALLS),
            ("function_call", FinishReason.FUNCTION_CALL),
            ("SAFETY", FinishReason.CONTENT_FILTER),
            ("whatever", FinishReason.OTHER),
        ],
    )
    def test_words(self, word: str, reason: FinishReason) -> None:
        assert read_finish(word) is reason
        assert failure_of(word) is None


class TestEnd:
    def test_after_the_end_there_is_nothing(self) -> None:
        decoder = OpenAIDecoder()
        decoder.feed(chunk({"content": "a"}, "stop"))
        decoder.feed(frame(b"[DONE]"))
        assert decoder.feed(chunk({"content": "b"})) == ()
        assert decoder.finish() == ()
        assert decoder.fail(TOO_SLOW) == ()

    def test_an_empty_body(self) -> None:
        assert codes(OpenAIDecoder().finish()) == ["upstream_empty_response"]

    def test_a_stream_that_never_had_an_id_is_started_by_its_end(self) -> None:
        decoder = OpenAIDecoder()
        assert (
            decoder.feed(frame({"model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})) == []
        )
        assert decoder.finish() == [
            StreamStarted(model="m"),
            ChoiceFinished(0, FinishReason.STOP, "stop"),
            StreamCompleted(),
        ]

    def test_filter_results_alone_are_no_answer(self) -> None:
        decoder = OpenAIDecoder()
        assert decoder.feed(frame({"id": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]})) == []
        assert codes(decoder.finish()) == ["upstream_stream_truncated"]

    def test_usage_that_came_before_the_start_is_not_lost_with_a_failure(self) -> None:
        usage = {"prompt_tokens": 3, "completion_tokens": 0}
        for end in ("truncated", "failed", "unreadable"):
            decoder = OpenAIDecoder()
            assert decoder.feed(frame({"id": "c", "choices": [], "usage": usage})) == []
            if end == "truncated":
                events = decoder.finish()
            else:
                events = decoder.fail(TOO_SLOW) if end == "failed" else decoder.feed(frame(b"{"))
            assert [type(event) for event in events] == [StreamStarted, UsageReported, StreamFailed]

    def test_a_failure_before_anything_needs_no_start(self) -> None:
        assert OpenAIDecoder().fail(TOO_SLOW) == [StreamFailed(TOO_SLOW)]

    @pytest.mark.parametrize("data", [b"{", b'{"a":', b"nul", b"foo", b"7", b"[]", b'"x"', b'{"choices":[{]}'])
    def test_a_frame_that_cannot_be_read_is_never_skipped(self, data: bytes) -> None:
        decoder = OpenAIDecoder()
        decoder.feed(chunk({"content": "a"}, "stop"))
        assert codes(decoder.feed(frame(data))) == ["upstream_invalid_frame"]

    def test_an_unfinished_last_frame_is_a_cut_not_a_fault(self) -> None:
        decoder = OpenAIDecoder()
        decoder.feed(chunk({"content": "a"}))
        assert codes(decoder.feed(frame(b'{"choi', terminated=False))) == ["upstream_stream_truncated"]

    def test_the_name_of_an_event_means_nothing_but_for_an_error(self) -> None:
        decoder = OpenAIDecoder()
        assert decoder.feed(frame({"id": "c", "choices": [{"delta": {"content": "a"}}]}, event=b"message")) == [
            StreamStarted(id="c"),
            TextDelta(0, "a"),
        ]

    def test_a_dataless_block_without_an_error_is_nothing(self) -> None:
        assert OpenAIDecoder().feed(Frame(b": ping\n\n", None)) == ()


class TestFrames:
    def test_a_very_large_frame(self) -> None:
        text = "x" * 200_000
        assert OpenAIDecoder().feed(chunk({"content": text})) == [StreamStarted(id="c"), TextDelta(0, text)]

    def test_the_identity_is_gathered_until_the_start(self) -> None:
        decoder = OpenAIDecoder()
        assert decoder.feed(frame({"model": "m", "created": 5, "choices": []})) == []
        assert decoder.feed(frame({"id": "c", "model": "other", "created": 6, "choices": []})) == []
        assert decoder.feed(chunk({"content": "a"})) == [StreamStarted("c", "m", 5), TextDelta(0, "a")]

    def test_missing_labels_are_no_change(self) -> None:
        decoder = OpenAIDecoder()
        decoder.feed(chunk({"content": "a"}, system_fingerprint="f", service_tier="t"))
        assert decoder.feed(chunk({})) == []
        assert (
            format_events(decoder.feed(chunk({}, system_fingerprint=None))) == "StreamTagged system_fingerprint=null\n"
        )

    @pytest.mark.parametrize("member", ["content", "refusal", "reasoning", "reasoning_content"])
    def test_half_a_surrogate_pair_is_a_text_like_any_other(self, member: str) -> None:
        data = b'{"id":"c","choices":[{"delta":{"%b":"a\\ud83d"}}]}' % member.encode()
        events = OpenAIDecoder().feed(frame(data))
        assert len(events) == 2
        assert getattr(events[1], "text", None) == "a\ud83d"

    def test_half_a_surrogate_pair_in_arguments(self) -> None:
        call = b'{"index":0,"id":"x","function":{"name":"f","arguments":"{\\"a\\":\\"\\ud83d"}}'
        events = OpenAIDecoder().feed(frame(b'{"id":"c","choices":[{"delta":{"tool_calls":[%b]}}]}' % call))
        assert events[-1] == ToolCallDelta(0, 0, '{"a":"\ud83d')

    @pytest.mark.parametrize("delta", ["text", 7, [], {"content": 7}, {"tool_calls": [{"function": 7}]}])
    def test_a_delta_of_a_wrong_type_is_ignored(self, delta: Any) -> None:
        assert OpenAIDecoder().feed(chunk(delta)) == []

    def test_a_choice_beyond_all_bounds_is_the_first(self) -> None:
        decoder = OpenAIDecoder()
        sent = {"id": "c", "choices": [{"index": 10**9, "delta": {"content": "a"}}]}
        assert decoder.feed(frame(sent)) == [StreamStarted(id="c"), TextDelta(0, "a")]

    @pytest.mark.parametrize(
        ("content", "events"),
        [
            ([{"type": "thinking", "thinking": "hm"}], [ReasoningDelta(0, "hm")]),
            ([{"type": "text", "text": ""}, 7, "plain"], [TextDelta(0, "plain")]),
            ([{"type": "thinking", "thinking": [7, {"text": 8}, {"text": "ok"}]}], [ReasoningDelta(0, "ok")]),
        ],
    )
    def test_content_as_a_list(self, content: Any, events: list[Event]) -> None:
        assert OpenAIDecoder().feed(chunk({"content": content})) == [StreamStarted(id="c"), *events]

    def test_a_closed_choice_carries_nothing_more(self) -> None:
        decoder = OpenAIDecoder()
        decoder.feed(chunk({"content": "a"}, "stop"))
        decoder.feed(chunk({"content": "b"}, index=1))
        late = {"annotations": [1], "audio": {"data": "AA"}, "images": [2]}
        assert decoder.feed(chunk(late, logprobs={"content": []})) == []


class TestCalls:
    def test_another_id_without_a_name_continues_the_call(self) -> None:
        """Some servers make up an id for each piece."""
        decoder = OpenAIDecoder()
        call = {"index": 0, "id": "one", "function": {"name": "f", "arguments": "{"}}
        decoder.feed(chunk({"tool_calls": [call]}))
        events = decoder.feed(chunk({"tool_calls": [{"index": 0, "id": "two", "function": {"arguments": "}"}}]}))
        assert format_events(events) == 'ToolCallDelta choice=0 call=0 arguments="}"\n'
        assert decoder.feed(chunk({"tool_calls": [{"index": 0, "function": {"arguments": ""}}]})) == []

    def test_an_empty_piece(self) -> None:
        decoder = OpenAIDecoder()
        decoder.feed(chunk({"tool_calls": [{"index": 0}]}, "stop"))
        assert [*decoder.finish()][1:] == [ChoiceFinished(0, FinishReason.STOP, "stop"), StreamCompleted()]

    def test_a_legacy_call_whose_name_comes_later(self) -> None:
        decoder = OpenAIDecoder()
        assert decoder.feed(chunk({"function_call": {"arguments": ""}})) == []
        events = decoder.feed(chunk({"function_call": {"name": "f"}}))
        assert events == [StreamStarted(id="c"), ToolCallStarted(0, 0, None, "f", True)]

    def test_a_free_form_call_is_marked(self) -> None:
        call = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "patch", "input": "any"}}
        events = OpenAIDecoder().feed(chunk({"tool_calls": [call]}))
        assert events[1:] == [ToolCallStarted(0, 0, "c", "patch", custom=True), ToolCallDelta(0, 0, "any")]

    def test_calls_are_counted_in_the_order_of_their_start(self) -> None:
        decoder = OpenAIDecoder()
        late, early = {"index": 0, "id": "late"}, {"index": 1, "id": "early", "function": {"name": "g"}}
        events = [*decoder.feed(chunk({"tool_calls": [late, early]}))]
        events += decoder.feed(chunk({"tool_calls": [{"index": 0, "function": {"name": "f"}}]}))
        starts = [event for event in events if isinstance(event, ToolCallStarted)]
        assert starts == [ToolCallStarted(0, 0, "early", "g"), ToolCallStarted(0, 1, "late", "f")]
