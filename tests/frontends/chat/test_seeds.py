"""The example streams of the four services' documents come out byte for byte.

As compact JSON in the documents' member order; where an example leaves out a frame that its
text demands (OpenToken's usage chunk), the text wins.
"""

from collections.abc import Iterator

import pytest

from streamweir.core.errors import UpstreamError
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    FinishReason,
    LogprobsDelta,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
    UsageReported,
)
from streamweir.core.usage import Usage
from streamweir.frontends.base import Reply
from streamweir.frontends.chat.encoder import Encoder
from streamweir.frontends.chat.table import DIALECTS


def encode(dialect: str, reply: Reply, events: list[Event]) -> str:
    encoder = Encoder(DIALECTS[dialect], reply)
    return b"".join(frame for event in events for frame in encoder.feed(event)).decode()


def lines(text: str) -> str:
    """The document's frames: each line of `text` is one, as `data: <line>` and a blank line."""
    return "".join(f"data: {line}\n\n" for line in text.strip().splitlines())


def text_events(*pieces: str, usage: Usage | None = None, model: str | None = None) -> list[Event]:
    events: list[Event] = [StreamStarted(model=model)]
    events += [TextDelta(0, piece) for piece in pieces]
    events.append(ChoiceFinished(0, FinishReason.STOP, "stop"))
    if usage is not None:
        events.append(UsageReported(usage))
    return [*events, StreamCompleted()]


@pytest.mark.parametrize("created", [1717000000, 1700000000])
def test_opentoken_text_with_the_usage_chunk_that_its_text_demands(created: int) -> None:
    head = f'"id":"chatcmpl-1","object":"chat.completion.chunk","created":{created},"model":"google/gemini-3-flash"'
    reply = Reply(id="chatcmpl-1", now=lambda: created, model="google/gemini-3-flash")
    usage = Usage(input_uncached=12, output=18)
    assert encode("opentoken", reply, text_events("Packets ", "in flight", usage=usage)) == lines(
        f"""
{{{head},"choices":[{{"index":0,"delta":{{"role":"assistant"}},"finish_reason":null}}]}}
{{{head},"choices":[{{"index":0,"delta":{{"content":"Packets "}},"finish_reason":null}}]}}
{{{head},"choices":[{{"index":0,"delta":{{"content":"in flight"}},"finish_reason":null}}]}}
{{{head},"choices":[{{"index":0,"delta":{{}},"finish_reason":"stop"}}]}}
{{{head},"choices":[],"usage":{{"prompt_tokens":12,"completion_tokens":18,"total_tokens":30}}}}
[DONE]
"""
    )


AIVENE_HEAD = (
    '"id":"ilbs_ccb8oqnvprv0p2ewiakn4r9s","object":"chat.completion.chunk","created":1716825600,"model":"gpt-4o"'
)
AIVENE_REPLY = Reply(id="ilbs_ccb8oqnvprv0p2ewiakn4r9s", now=lambda: 1716825600, model="gpt-4o", include_usage=True)


def test_aivene_text_with_the_usage_that_was_asked_for() -> None:
    usage = Usage(input_uncached=10, cache_read=32, output=128)
    assert encode("aivene", AIVENE_REPLY, text_events("Hello", " there!", usage=usage)) == lines(
        f"""
{{{AIVENE_HEAD},"choices":[{{"index":0,"delta":{{"role":"assistant","content":""}},"finish_reason":null}}]}}
{{{AIVENE_HEAD},"choices":[{{"index":0,"delta":{{"content":"Hello"}},"finish_reason":null}}]}}
{{{AIVENE_HEAD},"choices":[{{"index":0,"delta":{{"content":" there!"}},"finish_reason":null}}]}}
{{{AIVENE_HEAD},"choices":[{{"index":0,"delta":{{}},"finish_reason":"stop"}}]}}
{{{AIVENE_HEAD},"choices":[],"usage":{{"prompt_tokens":42,"completion_tokens":128,"total_tokens":170,\
"prompt_tokens_details":{{"cached_tokens":32}}}}}}
[DONE]
"""
    )


def test_aivene_tool_call() -> None:
    events: list[Event] = [
        StreamStarted(),
        ToolCallStarted(0, 0, "call_abc123", "get_weather"),
        ToolCallDelta(0, 0, '{"city":'),
        ToolCallDelta(0, 0, '"Tokyo"}'),
        ChoiceFinished(0, FinishReason.TOOL_CALLS, "tool_calls"),
        StreamCompleted(),
    ]
    reply = Reply(id="ilbs_ccb8oqnvprv0p2ewiakn4r9s", now=lambda: 1716825600, model="gpt-4o")
    opener = '{"index":0,"id":"call_abc123","type":"function","function":{"name":"get_weather","arguments":""}}'
    first = '{"index":0,"function":{"arguments":"{\\"city\\":"}}'
    second = '{"index":0,"function":{"arguments":"\\"Tokyo\\"}"}}'
    assert encode("aivene", reply, events) == lines(
        f"""
{{{AIVENE_HEAD},"choices":[{{"index":0,"delta":{{"role":"assistant","content":""}},"finish_reason":null}}]}}
{{{AIVENE_HEAD},"choices":[{{"index":0,"delta":{{"tool_calls":[{opener}]}},"finish_reason":null}}]}}
{{{AIVENE_HEAD},"choices":[{{"index":0,"delta":{{"tool_calls":[{first}]}},"finish_reason":null}}]}}
{{{AIVENE_HEAD},"choices":[{{"index":0,"delta":{{"tool_calls":[{second}]}},"finish_reason":null}}]}}
{{{AIVENE_HEAD},"choices":[{{"index":0,"delta":{{}},"finish_reason":"tool_calls"}}]}}
[DONE]
"""
    )


def test_aivene_error_frame() -> None:
    error = StreamFailed(UpstreamError("upstream_timeout", "upstream timeout"))
    assert encode("aivene", AIVENE_REPLY, [error]) == lines(
        """
{"error":{"message":"upstream timeout","type":"stream_error"}}
[DONE]
"""
    )


def ticking(start: int) -> Iterator[int]:
    while True:
        yield start
        start += 1


def test_bitseek_text() -> None:
    clock = ticking(1773042793)
    reply = Reply(id="stream:chat:1", now=lambda: next(clock))
    head = '"id":"stream:chat:1","object":"chat.completion"'
    assert encode("bitseek", reply, text_events("Hello", " world", model="gpt-4o")) == lines(
        f"""
{{{head},"created":1773042793,"model":"","choices":[{{"index":0,"delta":{{"content":"Hello"}},"finish_reason":null}}]}}
{{{head},"created":1773042794,"model":"","choices":[{{"index":0,"delta":{{"content":" world"}},"finish_reason":null}}]}}
{{{head},"created":1773042795,"model":"","choices":[{{"index":0,"delta":{{"content":""}},"finish_reason":"stop"}}]}}
"""
    )


def test_bitseek_tool_call() -> None:
    clock = ticking(1773042793)
    events: list[Event] = [
        StreamStarted(),
        ToolCallStarted(0, 0, "call_1", "get_weather"),
        ToolCallDelta(0, 0, '{"city":'),
        ToolCallDelta(0, 0, '"Singapore"}'),
        ChoiceFinished(0, FinishReason.TOOL_CALLS, "tool_calls"),
        StreamCompleted(),
    ]
    head = '"id":"stream:chat:2","object":"chat.completion"'
    function = '{"name":"get_weather","arguments":"{\\"city\\":\\"Singapore\\"}"}'
    call = f'{{"index":0,"id":"call_1","type":"function","function":{function}}}'
    assert encode("bitseek", Reply(id="stream:chat:2", now=lambda: next(clock)), events) == lines(
        f"""
{{{head},"created":1773042793,"model":"","choices":[{{"index":0,"delta":{{"tool_calls":[{call}]}},"finish_reason":null}}]}}
{{{head},"created":1773042794,"model":"","choices":[{{"index":0,"delta":{{"content":""}},"finish_reason":"tool_calls"}}]}}
"""
    )


def test_openai_text_and_the_usage_chunk() -> None:
    head = '"id":"chatcmpl-123","object":"chat.completion.chunk","created":1677652288,"model":"gpt-3.5-turbo"'
    reply = Reply(id="chatcmpl-123", now=lambda: 1677652288, include_usage=True)
    usage = Usage(input_uncached=9, output=12)
    details = (
        '"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,'
        '"rejected_prediction_tokens":0},"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0}'
    )
    counts = '"prompt_tokens":9,"completion_tokens":12,"total_tokens":21'
    tail = '"finish_reason":null}],"usage":null'
    got = encode("openai", reply, text_events("The weather today", usage=usage, model="gpt-3.5-turbo"))
    assert got == lines(
        f"""
{{{head},"choices":[{{"index":0,"delta":{{"role":"assistant","content":""}},{tail}}}
{{{head},"choices":[{{"index":0,"delta":{{"content":"The weather today"}},{tail}}}
{{{head},"choices":[{{"index":0,"delta":{{}},"finish_reason":"stop"}}],"usage":null}}
{{{head},"choices":[],"usage":{{{counts},{details}}}}}
[DONE]
"""
    )


def test_openai_labels_and_logprobs_stand_where_the_full_chunk_has_them() -> None:
    entry = {"token": "Hello", "logprob": -0.31725305, "bytes": [72], "top_logprobs": []}
    events: list[Event] = [
        StreamStarted("chatcmpl-123", "gpt-3.5-turbo", 1677652288, "fp_44709d6fcb", "default"),
        LogprobsDelta(0, {"content": [entry], "refusal": None}),
        TextDelta(0, "Hello"),
    ]
    got = encode("openai", Reply(id="chatcmpl-123", now=lambda: 1), events)
    assert got.splitlines()[2] == (
        'data: {"id":"chatcmpl-123","object":"chat.completion.chunk","created":1677652288,"model":"gpt-3.5-turbo",'
        '"system_fingerprint":"fp_44709d6fcb","service_tier":"default","choices":[{"index":0,'
        '"delta":{"content":"Hello"},"logprobs":{"content":[{"token":"Hello","logprob":-0.31725305,"bytes":[72],'
        '"top_logprobs":[]}],"refusal":null},"finish_reason":null}]}'
    )
