"""Text completions: what a request may be, and how its answer is written."""

import json
from typing import Any

import pytest

from streamweir.core.completion import Accumulator
from streamweir.core.errors import CallerError, GatewayFault, UpstreamError
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    FinishReason,
    LogprobsDelta,
    ReasoningDelta,
    RefusalDelta,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    TextDelta,
    UsageReported,
)
from streamweir.core.usage import Usage
from streamweir.frontends.base import Reply
from streamweir.frontends.completions.frontend import COMPLETIONS
from streamweir.frontends.completions.request import read_completions_request

LOGPROBS = {"tokens": ["a"], "token_logprobs": [-0.5], "top_logprobs": None, "text_offset": [0]}


def asked(**members: Any) -> Any:
    return read_completions_request({"model": "m", "prompt": "Hi", **members})


def test_a_prompt_becomes_one_user_message() -> None:
    request = asked(stop=["."], n=2, temperature=0.5, top_p=0.9, seed=7, presence_penalty=1, frequency_penalty=-1)
    assert request.body == {
        "model": "m",
        "temperature": 0.5,
        "top_p": 0.9,
        "n": 2,
        "stop": ["."],
        "seed": 7,
        "presence_penalty": 1,
        "frequency_penalty": -1,
        "max_tokens": 16,
        "messages": [{"role": "user", "content": "Hi"}],
    }
    assert (request.api, request.n, request.prompts, request.max_output_tokens) == ("completions", 2, 1, 16)
    assert request.native.untranslated == ()
    assert request.native.body["max_tokens"] == 16, "the same limit wherever it goes"


def test_what_chat_cannot_say_is_named() -> None:
    request = asked(suffix="s", echo=True, best_of=3, logprobs=2, strange=1, user="u")
    assert set(request.native.untranslated) == {"suffix", "echo", "best_of", "logprobs", "strange"}
    assert asked(suffix=None, echo=False, best_of=1, logprobs=None).native.untranslated == ()
    assert asked(logprobs=0).native.untranslated == ("logprobs",), "0 requests them, too"
    assert not {"suffix", "echo", "best_of", "logprobs", "strange"} & request.body.keys()


@pytest.mark.parametrize(
    ("prompt", "messages", "tokens", "prompts"),
    [("", 1, 0, 1), (["a", "b"], 2, 0, 2), ([1, 2, 3], 0, 3, 1), ([[1], [2, 3]], 0, 3, 2)],
)
def test_prompts(prompt: Any, messages: int, tokens: int, prompts: int) -> None:
    request = asked(prompt=prompt, n=3)
    assert (len(request.messages), request.tokens, request.prompts) == (messages, tokens, prompts)
    assert request.n == 3 * prompts


@pytest.mark.parametrize(
    ("members", "code", "param"),
    [
        ({"model": None}, "missing_required_parameter", "model"),
        ({"prompt": None}, "missing_required_parameter", "prompt"),
        ({"prompt": []}, "invalid_value", "prompt"),
        ({"prompt": ["a", 1]}, "invalid_type", "prompt"),
        ({"prompt": [[1], "a"]}, "invalid_type", "prompt"),
        ({"prompt": [[]]}, "invalid_type", "prompt"),
        ({"prompt": [2**31]}, "invalid_type", "prompt"),
        ({"prompt": [-1]}, "invalid_type", "prompt"),
        ({"prompt": {"a": 1}}, "invalid_type", "prompt"),
        ({"prompt": ["a"] * 129}, "invalid_value", "prompt"),
        ({"prompt": ["a"] * 3, "n": 100}, "invalid_value", "n"),
        ({"n": 0}, "invalid_value", "n"),
        ({"max_tokens": -1}, "invalid_value", "max_tokens"),
        ({"stream_options": {"include_usage": True}}, "invalid_value", "stream_options"),
        ({"logprobs": True}, "invalid_type", "logprobs"),
        ({"base_url": "x"}, "unknown_parameter", "base_url"),
        ({"logit_bias": {"1": "x"}}, "invalid_type", "logit_bias[...]"),
    ],
)
def test_what_a_request_may_not_be(members: dict[str, Any], code: str, param: str) -> None:
    with pytest.raises(CallerError) as caught:
        asked(**members)
    assert (caught.value.code, caught.value.param) == (code, param)


ANSWER: list[Event] = [
    StreamStarted(id="cmpl-own0000000000001", model="own", created=5),
    ReasoningDelta(0, "Let me think."),
    LogprobsDelta(0, LOGPROBS),
    TextDelta(0, "a"),
    TextDelta(1, "b\u2028"),
    RefusalDelta(0, " no"),
    ChoiceFinished(0, FinishReason.LENGTH),
    ChoiceFinished(1, FinishReason.OTHER),
    UsageReported(Usage(input_uncached=3, output=4, reasoning=2)),
    StreamCompleted(),
]


def frames(events: list[Event], **reply: Any) -> list[Any]:
    encoder = COMPLETIONS.encoder(Reply(now=lambda: 9, id="cmpl-made", model="asked", **reply))
    assert encoder.begin() == []
    data = b"".join(b"".join(encoder.feed(event)) for event in events)
    assert encoder.feed(TextDelta(0, "late")) == encoder.feed(StreamCompleted()) == []
    return [
        block[6:].decode() if block == b"data: [DONE]" else json.loads(block[6:]) for block in data.split(b"\n\n")[:-1]
    ]


def test_a_stream() -> None:
    *chunks, usage, done = frames(ANSWER, include_usage=True)
    head = {"id": "cmpl-own0000000000001", "object": "text_completion", "created": 5, "model": "own"}
    shown = [(0, "a", LOGPROBS, None), (1, "b\u2028", None, None), (0, " no", None, None), (0, "", None, "length")]
    shown.append((1, "", None, "stop"))
    assert chunks == [
        {
            **head,
            "choices": [{"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}],
            "usage": None,
        }
        for index, text, logprobs, finish in shown
    ]
    counts = {"prompt_tokens": 3, "completion_tokens": 6, "total_tokens": 9}
    assert (usage, done) == ({**head, "choices": [], "usage": counts}, "[DONE]")


def test_usage_is_shown_only_where_it_was_asked_for() -> None:
    assert not any("usage" in chunk for chunk in frames(ANSWER)[:-1])
    without = [event for event in ANSWER if not isinstance(event, UsageReported)]
    counted = frames(without, include_usage=True, count_usage=lambda: Usage(input_uncached=8))[-2]
    assert counted["usage"]["prompt_tokens"] == 8


def test_a_whole_body_is_the_stream_joined() -> None:
    accumulator = Accumulator()
    for event in ANSWER:
        accumulator.feed(event)
    id, body = COMPLETIONS.write_whole(accumulator.fold(), Reply(now=lambda: 9, id="cmpl-made"))
    assert id == "cmpl-own0000000000001"
    assert json.loads(body) == {
        "id": "cmpl-own0000000000001",
        "object": "text_completion",
        "created": 5,
        "model": "own",
        "choices": [
            {"index": 0, "text": "a no", "logprobs": LOGPROBS, "finish_reason": "length"},
            {"index": 1, "text": "b\u2028", "logprobs": None, "finish_reason": "stop"},
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 6, "total_tokens": 9},
    }


def test_an_id_of_another_api_is_replaced() -> None:
    for short in ("cmpl-", "cmpl-764", "cmpl-" + "x" * 15):  # docs/spec/quirks.md Q43
        shown = frames([StreamStarted(id=short), TextDelta(0, "a"), StreamCompleted()])[0]
        assert shown["id"] == "cmpl-made"
    first = frames([StreamStarted(id="chatcmpl-x"), TextDelta(0, "a"), StreamCompleted()], target_model="target")[0]
    assert (first["id"], first["model"], first["created"]) == ("cmpl-made", "target", 9)
    made = COMPLETIONS.make_id(bytes(24))
    assert made.startswith("cmpl-")
    assert len(made) == len("cmpl-") + 29


@pytest.mark.parametrize(
    ("error", "type", "code"),
    [
        (UpstreamError("upstream_stream_truncated", "cut"), "stream_error", "upstream_stream_truncated"),
        (UpstreamError("upstream_auth_failed", "no"), "stream_error", "upstream_server_error"),
        (GatewayFault("overloaded", "full"), "overloaded_error", "overloaded"),
        (CallerError("budget_exceeded", "spent"), "insufficient_quota", "budget_exceeded"),
    ],
)
def test_a_failure_inside_the_stream(error: Any, type: str, code: str) -> None:
    _, failed, done = frames([StreamStarted(), TextDelta(0, "a"), StreamFailed(error)])
    assert failed == {"error": {"message": error.message, "type": type, "param": None, "code": code}}
    assert done == "[DONE]"
