"""An answer whose caller got an error, or has disconnected: it is read on, and nothing more is written."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from streamweir.core.errors import CallerError, UpstreamError
from streamweir.core.events import FinishReason
from streamweir.core.verdict import Verdict
from streamweir.frontends.base import Reply
from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline.exchange import Exchange, WholeExchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.plan import Mode, plan
from streamweir.pipeline.plausibility import UsageBounds
from streamweir.pipeline.settlement import UsageSource
from streamweir.providers.registry import native_wire, provider_named
from support.answers import TEXTS, USAGE, anthropic_frames, openai_frames, openai_whole
from support.messages import documents_of
from support.outcome import BUFFERING
from support.outcome import DIALECTS as NAMES
from support.responses import documents_of as responses_of
from support.responses import read_stream as read_response
from support.wire_samples import OPENAI, VOICES, Voice

BUDGET = CallerError("budget_exceeded", "The budget is spent.")
COUNTED = (3, 3)
"""The prompt, and the eleven characters of the first two texts."""

each_voice = pytest.mark.parametrize("voice", VOICES, ids=lambda voice: voice.kind)
each_dialect = pytest.mark.parametrize("dialect", NAMES)
each_mode = pytest.mark.parametrize("mode", list(Mode))


class Run:
    def __init__(
        self,
        kind: str = "openai",
        dialect: str = "openai",
        *,
        mode: Mode | None = None,
        bounds: UsageBounds | None = None,
    ) -> None:
        frontend, provider = FRONTENDS.by_name[dialect], provider_named(kind)
        reply = Reply(id=frontend.make_id(b"x" * 24), now=lambda: 7, model="m", include_usage=True)
        self.meter = Meter(3, bounds=bounds)
        chosen = mode or plan(native_wire(kind), frontend, reply)
        self.exchange = Exchange(provider, frontend, reply, chosen, self.meter)
        self.out = b""

    def feed(self, pieces: Sequence[bytes]) -> "Run":
        for piece in pieces:
            self.out += self.exchange.feed(piece)
        return self

    @property
    def documents(self) -> list[Any]:
        texts = [block.removeprefix("data: ") for block in self.out.decode().split("\n\n") if block]
        return [text if text == "[DONE]" else json.loads(text) for text in texts]

    @property
    def counted(self) -> tuple[int, int, UsageSource]:
        settled = self.meter.settle()
        return settled.usage.prompt_tokens, settled.usage.completion_tokens, settled.usage_source


def halves(voice: Voice) -> tuple[bytes, bytes]:
    """Two texts, and the rest."""
    frames, count = voice.frames, {"openai": 3, "anthropic": 4, "gemini": 2}[voice.kind]
    return b"".join(frames[:count]), b"".join(frames[count:])


def reported(run: Run, dialect: str) -> list[Any]:
    """The documents before the error, when the error and the terminator are off."""
    if dialect == "messages":
        documents = documents_of(run.out)
        assert documents.pop()["type"] == "error"
        assert not {"message_delta", "message_stop"} & {each["type"] for each in documents}
        return documents
    if dialect == "responses":
        assert read_response(run.out)["status"] == "failed"
        *documents, _ = [each for each in responses_of(run.out) if "response" not in each]
        return documents
    documents = run.documents
    if dialect != "bitseek":
        assert documents.pop() == "[DONE]"
    assert "error" in documents.pop()
    return documents


@each_voice
@each_dialect
def test_the_error_goes_out_and_the_usage_comes_in(voice: Voice, dialect: str) -> None:
    first, second = halves(voice)
    run = Run(voice.kind, dialect).feed([first])
    run.out += run.exchange.detach(BUDGET)
    before = run.out
    assert not run.exchange.ended
    run.feed([second])
    run.out += run.exchange.finish()
    assert run.exchange.ended
    assert run.out == before
    assert "error" not in json.dumps(reported(run, dialect))
    settled = run.meter.settle()
    assert (settled.verdict, settled.error) == (Verdict.STOPPED, BUDGET)
    assert run.counted == (*USAGE, UsageSource.PROVIDER)
    assert run.meter.record.delivered.getvalue() == "".join(TEXTS[:2])


@each_voice
@each_dialect
def test_without_usage_only_what_was_delivered_counts(voice: Voice, dialect: str) -> None:
    first, second = halves(voice)
    run = Run(voice.kind, dialect).feed([first])
    run.out += run.exchange.detach(BUDGET)
    run.feed([second[:-40]])
    run.exchange.fail(UpstreamError("upstream_stream_reset", "reset"))
    settled = run.meter.settle()
    assert (settled.verdict, settled.error) == (Verdict.STOPPED, BUDGET)
    if voice is OPENAI:  # the others have reported on the way
        assert run.counted == (*COUNTED, UsageSource.ESTIMATE)


@each_mode
def test_in_every_mode_and_at_every_byte(mode: Mode) -> None:
    frames = openai_frames()
    body, start = b"".join(frames), len(b"".join(frames[:2]))
    for at in range(start, len(body) - len(frames[-1]) + 1, 7):
        run = Run(mode=mode).feed([body[:at]])
        run.out += run.exchange.detach(BUDGET)
        before = run.out
        run.feed([body[at:]])
        run.out += run.exchange.finish()
        assert run.out == before
        assert all(choice["finish_reason"] is None for each in reported(run, "openai") for choice in each["choices"])
        assert run.counted == (*USAGE, UsageSource.PROVIDER)
        assert run.meter.settle().verdict is Verdict.STOPPED


@pytest.mark.parametrize("mode", [Mode.PASS, Mode.TRANSLATE])
def test_so_it_is_in_the_messages_api(mode: Mode) -> None:
    frames = anthropic_frames()
    body, start = b"".join(frames), len(b"".join(frames[:3]))
    for at in range(start, len(body) - len(frames[-1]) + 1, 7):
        run = Run("anthropic", "messages", mode=mode).feed([body[:at]])
        run.out += run.exchange.detach(BUDGET)
        before = run.out
        run.feed([body[at:]])
        run.out += run.exchange.finish()
        assert run.out == before
        reported(run, "messages")
        assert run.counted == (*USAGE, UsageSource.PROVIDER)
        assert run.meter.record.finishes == {0: FinishReason.STOP}
        assert run.meter.settle().verdict is Verdict.STOPPED


@each_mode
def test_nothing_is_sent_to_a_caller_that_has_disconnected(mode: Mode) -> None:
    frames = openai_frames()
    run = Run(mode=mode).feed(frames[:3])
    assert run.exchange.detach(None) == b""
    before = run.out
    run.feed(frames[3:])
    assert run.exchange.ended
    assert run.out == before
    assert run.meter.record.completed
    assert run.meter.record.error is None
    assert run.counted == (*USAGE, UsageSource.PROVIDER)


@each_mode
def test_before_the_commit_an_error_is_a_failure(mode: Mode) -> None:
    run = Run(mode=mode).feed(openai_frames()[:1])
    assert run.exchange.detach(BUDGET) == b""
    assert (run.exchange.failure, run.exchange.ended) == (BUDGET, True)
    assert run.feed(openai_frames()[1:]).out == b""


@each_mode
def test_before_the_commit_a_caller_may_leave(mode: Mode) -> None:
    run = Run(mode=mode).feed(openai_frames()[:1])
    assert run.exchange.detach(None) == b""
    assert run.feed(openai_frames()[1:]).out == b""
    assert run.exchange.ended
    assert run.counted == (*USAGE, UsageSource.PROVIDER)


@each_mode
def test_after_the_end_there_is_nothing_to_be_detached_from(mode: Mode) -> None:
    run = Run(mode=mode).feed(openai_frames())
    before = run.out
    assert run.exchange.detach(BUDGET) == b""
    assert run.out == before
    assert run.meter.settle().verdict is Verdict.COMPLETED


def test_no_usage_is_counted_without_a_request_for_it() -> None:
    run = Run(mode=Mode.TRANSLATE).feed(openai_frames(usage=None)[:3])
    run.exchange.detach(BUDGET)
    run.feed(openai_frames(usage=None)[3:])
    pending = run.meter.close()
    assert pending.needs_count
    assert pending.count().usage.output == 3


@pytest.mark.parametrize("dialect", BUFFERING)
@pytest.mark.parametrize("error", [BUDGET, None], ids=["cut", "gone"])
def test_a_whole_answer(dialect: str, error: CallerError | None) -> None:
    frontend, meter, body = FRONTENDS.by_name[dialect], Meter(3), openai_whole()
    reply = Reply(id=frontend.make_id(b"x" * 24), now=lambda: 7, model="m")
    mode = plan(native_wire("openai"), frontend, reply)
    exchange = WholeExchange(provider_named("openai"), frontend, reply, mode, meter)
    assert exchange.feed(body[:50]) == b""
    assert exchange.detach(error) == b""
    assert (exchange.failure, exchange.ended) == (error, False)
    assert exchange.feed(body[50:]) + exchange.finish() == b""
    assert exchange.ended
    assert exchange.failure is error
    settled = meter.settle()
    assert (settled.usage.prompt_tokens, settled.usage.completion_tokens) == USAGE
    assert (settled.usage_source, settled.error) == (UsageSource.PROVIDER, error)
    assert meter.record.delivered.getvalue() == ""
    assert exchange.detach(BUDGET) == b""
    assert exchange.failure is error


@each_mode
@pytest.mark.parametrize(("limit", "billed"), [(10**6, (7, 100_000)), (1000, (0, 999))])
def test_of_a_report_that_cannot_be_true_is_shown_what_is_billed(
    mode: Mode, limit: int, billed: tuple[int, int]
) -> None:
    bounds = UsageBounds(request_bytes=100, max_output=10, max_billed_tokens=limit)
    run = Run(mode=mode, bounds=bounds).feed(openai_frames(usage=(7, 100_000)))
    shown = run.documents[-2]["usage"]
    assert (shown["prompt_tokens"], shown["completion_tokens"]) == billed
    assert run.counted == (*billed, UsageSource.PROVIDER)
    assert "usage_anomaly" in run.meter.settle().flags


def test_of_a_report_that_cannot_be_true_a_whole_answer_shows_what_is_billed() -> None:
    frontend, meter = (
        FRONTENDS.by_name["openai"],
        Meter(3, bounds=UsageBounds(request_bytes=100, max_output=10, max_billed_tokens=1000)),
    )
    exchange = WholeExchange(
        provider_named("openai"), frontend, Reply(id="chatcmpl-x", now=lambda: 7), Mode.FILTER, meter
    )
    out = exchange.feed(openai_whole(usage=(7, 100_000))) + exchange.finish()
    assert json.loads(out)["usage"]["completion_tokens"] == 999
    assert meter.settle().usage.completion_tokens == 999


@each_mode
def test_an_end_without_its_terminator_is_flagged(mode: Mode) -> None:
    run = Run(mode=mode).feed(openai_frames(done=False))
    run.out += run.exchange.finish()
    assert run.documents[-1] == "[DONE]"
    assert run.meter.settle().flags == ("missing_done",)
    assert Run(mode=mode).feed(openai_frames()).meter.settle().flags == ()


@each_voice
def test_an_end_as_the_wire_has_it_is_not(voice: Voice) -> None:
    run = Run(voice.kind).feed([voice.stream])
    run.out += run.exchange.finish()
    assert run.meter.settle().flags == ()
