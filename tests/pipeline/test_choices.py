"""As many choices as were asked for, on every wire: without one the answer is not whole, beyond them it is none."""

import json
from typing import Any

import pytest

from streamweir.core.errors import StreamweirError
from streamweir.core.verdict import Verdict
from streamweir.frontends.base import Reply
from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline.exchange import Exchange, WholeExchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode
from streamweir.providers.registry import provider_named

HEAD = {"id": "chatcmpl-u000000000000001", "object": "chat.completion.chunk", "created": 5, "model": "gpt-4o-2024"}
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
DONE = b"data: [DONE]\n\n"
TRUNCATED, BAD = "upstream_stream_truncated", "upstream_bad_response"


def sse(document: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


def piece(index: int, delta: dict[str, Any], finish: str | None = None) -> bytes:
    return sse({**HEAD, "choices": [{"index": index, "delta": delta, "finish_reason": finish}], "usage": None})


def choice(index: int) -> list[bytes]:
    role = {"role": "assistant", "content": ""}
    return [piece(index, role), piece(index, {"content": "Hi"}), piece(index, {}, "stop")]


REPORT = sse({**HEAD, "choices": [], "usage": USAGE})


def candidate(index: int, finish: str = "STOP") -> dict[str, Any]:
    return {"index": index, "content": {"parts": [{"text": "Hi"}]}, "finishReason": finish}


def exchange(choices: int, mode: Mode = Mode.TRANSLATE, provider: str = "openai") -> Exchange:
    reply = Reply(id="chatcmpl-ours", now=lambda: 7, model="m", include_usage=True, choices=choices)
    return Exchange(provider_named(provider), FRONTENDS.by_name["openai"], reply, mode, Meter())


def whole(body: dict[str, Any], choices: int, mode: Mode = Mode.TRANSLATE, provider: str = "openai") -> WholeExchange:
    reply = Reply(id="chatcmpl-ours", now=lambda: 7, model="m", choices=choices)
    answer = WholeExchange(provider_named(provider), FRONTENDS.by_name["openai"], reply, mode, Meter())
    answer.feed(json.dumps(body).encode())
    answer.finish()
    return answer


def code_of(error: StreamweirError | None) -> str | None:
    return error.code if error is not None else None


def run(stream: Exchange, *frames: bytes) -> bytes:
    return b"".join([stream.feed(frame) for frame in frames])


@pytest.mark.parametrize("mode", Mode)
class TestStreamed:
    @pytest.mark.parametrize(
        "end", [[REPORT, DONE], [DONE], [REPORT], []], ids=["usage and end", "end", "usage", "eof"]
    )
    def test_one_that_never_came_makes_it_truncated(self, mode: Mode, end: list[bytes]) -> None:
        stream = exchange(2, mode)
        out = run(stream, *choice(0))
        assert not stream.may_end_when_idle
        out += run(stream, *end)
        out += stream.finish()
        assert TRUNCATED.encode() in out
        settlement = stream._meter.settle()
        assert (settlement.verdict, code_of(settlement.error)) == (Verdict.TRUNCATED, TRUNCATED)

    def test_one_that_comes_late_is_waited_for(self, mode: Mode) -> None:
        stream = exchange(2, mode)
        out = run(stream, *choice(0))
        assert not stream.may_end_when_idle
        out += run(stream, *choice(1))
        assert stream.may_end_when_idle
        out += run(stream, REPORT, DONE)
        assert b"error" not in out
        assert stream.ended
        assert stream._meter.settle().verdict is Verdict.COMPLETED

    def test_the_first_beyond_those_that_were_asked_for_ends_it(self, mode: Mode) -> None:
        stream = exchange(1, mode)
        run(stream, *choice(0)[:2])
        out = run(stream, choice(1)[0])
        assert b"more choices" in out
        assert stream.ended
        assert code_of(stream._meter.record.error) == BAD


class TestWhole:
    def body(self, *indexes: int) -> dict[str, Any]:
        choices = [
            {"index": index, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
            for index in indexes
        ]
        return {**HEAD, "object": "chat.completion", "choices": choices, "usage": USAGE}

    @pytest.mark.parametrize("mode", Mode)
    @pytest.mark.parametrize(("indexes", "asked"), [((0,), 2), ((1,), 2), ((0, 1), 1), ((0, 1, 2), 2)])
    def test_too_few_and_too_many(self, mode: Mode, indexes: tuple[int, ...], asked: int) -> None:
        answer = whole(self.body(*indexes), asked, mode)
        assert code_of(answer.failure) == BAD

    @pytest.mark.parametrize("mode", Mode)
    def test_as_many_as_were_asked_for(self, mode: Mode) -> None:
        assert whole(self.body(0, 1), 2, mode).failure is None


class TestGemini:
    @pytest.mark.parametrize(("indexes", "code"), [((0,), TRUNCATED), ((0, 1), None), ((0, 1, 2), BAD)])
    def test_streamed(self, indexes: tuple[int, ...], code: str | None) -> None:
        stream = exchange(2, provider="gemini")
        for index in indexes:
            stream.feed(sse({"candidates": [candidate(index)]}))
        stream.finish()
        assert code_of(stream._meter.record.error) == code

    @pytest.mark.parametrize(("indexes", "code"), [((0,), BAD), ((0, 1), None), ((0, 1, 2), BAD)])
    def test_whole(self, indexes: tuple[int, ...], code: str | None) -> None:
        answer = whole({"candidates": [candidate(index) for index in indexes]}, 2, provider="gemini")
        assert code_of(answer.failure) == code

    def test_a_prompt_that_was_blocked_has_no_choice_at_all(self) -> None:
        answer = whole({"promptFeedback": {"blockReason": "SAFETY"}}, 2, provider="gemini")
        assert answer.failure is None
        assert list(answer._meter.record.finishes) == [0, 1]
