"""One settlement per stream, whatever happened to it."""

import pytest

from streamweir.core.errors import CallerError, GatewayFault, StreamweirError, UpstreamError
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    Extra,
    FinishReason,
    ReasoningDelta,
    RefusalDelta,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
    UsageReported,
)
from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict
from streamweir.stages.meter import Meter, UsageSource, estimate_tokens

STOP = ChoiceFinished(0, FinishReason.STOP)


def metered(*events: Event, meter: Meter | None = None) -> Meter:
    meter = meter or Meter()
    for event in events:
        assert meter.feed(event) == (event,)
    assert meter.finish() == ()
    return meter


def test_events_pass_through_and_facts_are_kept() -> None:
    usage = Usage(input_uncached=1, output=2)
    meter = metered(
        StreamStarted("id-1", "m"),
        TextDelta(0, "a"),
        Extra(0, {}),
        STOP,
        UsageReported(Usage()),
        UsageReported(usage),
        StreamCompleted(),
    )
    settled = meter.settle()
    assert (settled.verdict, settled.usage, settled.usage_source) == (
        Verdict.COMPLETED,
        usage,
        UsageSource.PROVIDER,
    )
    assert (settled.model, settled.finishes) == ("m", {0: FinishReason.STOP})


def test_usage_that_was_reported_as_zero_is_zero() -> None:
    settled = metered(TextDelta(0, "abcdefgh"), STOP, UsageReported(Usage()), StreamCompleted()).settle()
    assert (settled.usage.total_tokens, settled.usage_source) == (0, UsageSource.PROVIDER)


def test_what_was_delivered_is_counted_where_no_usage_came() -> None:
    meter = metered(
        ReasoningDelta(0, "think it over"),
        TextDelta(0, "abcd"),
        RefusalDelta(0, "efgh"),
        ToolCallStarted(0, 0, None, "name"),
        ToolCallDelta(0, 0, "{}"),
        StreamFailed(UpstreamError("upstream_stream_reset", "reset")),
        meter=Meter(prompt_tokens=10),
    )
    settled = meter.settle()
    assert settled.usage_source is UsageSource.ESTIMATE
    assert (settled.usage.prompt_tokens, settled.usage.output, settled.usage.reasoning) == (10, 4, 4)


def test_a_report_from_within_an_answer_that_broke_off_is_counted_on() -> None:
    """Anthropic reports the prompt, and `output_tokens: 1`, before it has said a word."""
    start = UsageReported(Usage(input_uncached=25, cache_read=7, output=1))
    settled = metered(start, ReasoningDelta(0, "12345678"), TextDelta(0, "12345678")).settle(Verdict.CLIENT_GONE)
    assert settled.usage_source is UsageSource.ESTIMATE
    assert (settled.usage.input_uncached, settled.usage.cache_read) == (25, 7)
    assert (settled.usage.output, settled.usage.reasoning) == (2, 2)


def test_a_report_after_which_nothing_came_is_the_whole_usage() -> None:
    usage = Usage(input_uncached=25, output=9)
    settled = metered(TextDelta(0, "12345678"), UsageReported(usage)).settle(Verdict.CLIENT_GONE)
    assert (settled.usage, settled.usage_source) == (usage, UsageSource.PROVIDER)


def test_a_tokenizer_is_handed_in() -> None:
    meter = metered(
        TextDelta(0, "one two three"), meter=Meter(0, lambda text: len(text.split()), UsageSource.TOKENIZER)
    )
    settled = meter.settle(Verdict.CLIENT_GONE)
    assert (settled.usage.output, settled.usage_source, settled.verdict) == (
        3,
        UsageSource.TOKENIZER,
        Verdict.CLIENT_GONE,
    )


def test_the_first_settlement_decides() -> None:
    meter = metered(TextDelta(0, "a"))
    first = meter.settle(Verdict.CLIENT_GONE)
    metered(STOP, StreamCompleted(), meter=meter)
    assert meter.settle() is first
    assert meter.settle(Verdict.SHUTDOWN) is first


@pytest.mark.parametrize(
    ("reasons", "verdict"),
    [
        ([FinishReason.STOP], Verdict.COMPLETED),
        ([FinishReason.TOOL_CALLS], Verdict.COMPLETED),
        ([FinishReason.STOP, FinishReason.LENGTH], Verdict.LENGTH),
        ([FinishReason.CONTENT_FILTER], Verdict.FILTERED),
    ],
)
def test_verdict_of_a_whole_answer(reasons: list[FinishReason], verdict: Verdict) -> None:
    finished = [ChoiceFinished(index, reason) for index, reason in enumerate(reasons)]
    assert metered(*finished, StreamCompleted()).settle().verdict is verdict


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (UpstreamError("upstream_stream_truncated", ""), Verdict.TRUNCATED),
        (UpstreamError("upstream_stream_reset", ""), Verdict.TRUNCATED),
        (UpstreamError("upstream_invalid_frame", ""), Verdict.UPSTREAM_ERROR),
        (UpstreamError("stream_idle_timeout", ""), Verdict.IDLE_TIMEOUT),
        (UpstreamError("upstream_timeout", ""), Verdict.FIRST_TOKEN_TIMEOUT),
        (UpstreamError("stream_deadline_exceeded", ""), Verdict.DEADLINE),
        (CallerError("budget_exceeded", ""), Verdict.STOPPED),
        (CallerError("key_revoked", ""), Verdict.STOPPED),
        (CallerError("invalid_value", ""), Verdict.REJECTED),
        (GatewayFault("server_shutting_down", ""), Verdict.SHUTDOWN),
        (GatewayFault("internal_error", ""), Verdict.GATEWAY_FAULT),
    ],
)
def test_verdict_of_a_failure(error: StreamweirError, verdict: Verdict) -> None:
    settled = metered(TextDelta(0, "a"), StreamFailed(error)).settle()
    assert (settled.verdict, settled.error) == (verdict, error)


def test_a_stream_without_an_end_is_truncated() -> None:
    assert metered(TextDelta(0, "a")).settle().verdict is Verdict.TRUNCATED


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("水", 1), ("\ud83d", 1)])
def test_estimate(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens
