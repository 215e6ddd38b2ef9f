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
    UsageDiscarded,
    UsageReported,
)
from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict
from streamweir.pipeline.meter import NOTHING_DELIVERED, Delivered, Meter
from streamweir.pipeline.plausibility import UsageBounds
from streamweir.pipeline.settlement import UsageSource, estimate_tokens

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


def by_words(text: str) -> tuple[int, UsageSource]:
    return len(text.split()), UsageSource.TOKENIZER


def test_a_tokenizer_is_handed_in() -> None:
    meter = metered(TextDelta(0, "one two three"), meter=Meter(7, by_words, prompt_source=UsageSource.TOKENIZER))
    settled = meter.settle(Verdict.CLIENT_GONE)
    assert (settled.usage.prompt_tokens, settled.usage.output) == (7, 3)
    assert (settled.usage_source, settled.verdict) == (UsageSource.TOKENIZER, Verdict.CLIENT_GONE)


def test_a_count_is_called_what_the_poorest_part_of_it_is() -> None:
    settled = metered(TextDelta(0, "one two three"), meter=Meter(7, by_words)).settle()
    assert (settled.usage.output, settled.usage_source) == (3, UsageSource.ESTIMATE)


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


# What is counted, when, and what it is called.


def test_unreported_usage_can_be_counted_later_and_elsewhere() -> None:
    meter = metered(ReasoningDelta(0, "hm hm"), TextDelta(0, "one two three"), meter=Meter(7))
    pending = meter.close(Verdict.CLIENT_GONE)
    assert pending.needs_count
    assert (pending.settlement.verdict, pending.settlement.error) == (Verdict.CLIENT_GONE, None)
    metered(TextDelta(0, " four"), STOP, StreamCompleted(), meter=meter)
    settled = pending.count(by_words, prompt=(2, UsageSource.TOKENIZER))
    assert (settled.usage.prompt_tokens, settled.usage.output, settled.usage.reasoning) == (2, 3, 2)
    assert settled.usage_source is UsageSource.TOKENIZER
    assert not pending.needs_count
    assert pending.count() is settled
    assert meter.close() is pending
    assert meter.settle() is settled


def test_what_was_reported_is_not_counted() -> None:
    usage = Usage(input_uncached=1, output=2)
    pending = metered(TextDelta(0, "a"), STOP, UsageReported(usage), StreamCompleted()).close()
    assert not pending.needs_count
    assert pending.count(by_words).usage is usage
    assert pending.settlement.usage_source is UsageSource.PROVIDER


def test_without_a_tokenizer_a_count_is_an_estimate() -> None:
    settled = metered(TextDelta(0, "12345678")).close().count(None)
    assert (settled.usage.output, settled.usage_source) == (2, UsageSource.ESTIMATE)


def test_what_the_caller_was_shown_is_what_is_settled() -> None:
    meter = metered(
        TextDelta(0, "one two three"),
        STOP,
        StreamCompleted(),
        meter=Meter(7, by_words, count_prompt=lambda: (2, UsageSource.TOKENIZER)),
    )
    shown = meter.count_usage()
    assert (shown.prompt_tokens, shown.completion_tokens) == (2, 3)
    pending = meter.close()
    assert not pending.needs_count
    settled = pending.count(lambda _: (99, UsageSource.TOKENIZER))
    assert (settled.usage, settled.usage_source) == (shown, UsageSource.TOKENIZER)


# Reports that cannot be true.

SCOPE = UsageBounds(request_bytes=100, max_output=10)


@pytest.mark.parametrize("usage", [Usage(input_uncached=100_000, output=1), Usage(output=100_000)])
def test_a_report_beyond_what_the_request_allows_is_flagged_and_billed_as_it_is(usage: Usage) -> None:
    meter = Meter(3, bounds=SCOPE)
    for event in (TextDelta(0, "12345678"), STOP, UsageReported(usage), StreamCompleted()):
        assert meter.feed(event) == (event,)
    settled = meter.settle()
    assert (settled.usage, settled.usage_source) == (usage, UsageSource.PROVIDER)
    assert settled.flags == ("usage_anomaly",)


@pytest.mark.parametrize("is_detached", [False, True])
def test_a_report_beyond_the_bound_is_billed_and_shown_at_the_bound(is_detached: bool) -> None:
    meter = Meter(3, bounds=UsageBounds(request_bytes=100, max_output=10, max_billed_tokens=1000))
    metered(TextDelta(0, "12345678"), UsageReported(Usage(input_uncached=10_000, output=90_000)), STOP, meter=meter)
    less = Usage(input_uncached=100, output=900)
    if is_detached:
        meter.detach()
    shown = () if is_detached else (UsageReported(less),)
    assert meter.feed(StreamCompleted()) == (*shown, StreamCompleted())
    settled = meter.settle()
    assert (settled.usage, settled.usage_source) == (less, UsageSource.PROVIDER)
    assert settled.flags == ("usage_anomaly", "usage_cut")


def test_such_a_report_of_an_answer_that_broke_off_is_billed_too() -> None:
    meter = metered(TextDelta(0, "12345678"), UsageReported(Usage(output=100_000)), meter=Meter(3, bounds=SCOPE))
    settled = meter.settle(Verdict.CLIENT_GONE)
    assert (settled.usage.total_tokens, settled.flags) == (100_000, ("usage_anomaly",))


def test_a_report_that_was_discarded_is_flagged() -> None:
    settled = metered(TextDelta(0, "12345678"), UsageDiscarded(), STOP, StreamCompleted(), meter=Meter(3)).settle()
    assert (settled.usage.total_tokens, settled.usage_source) == (5, UsageSource.ESTIMATE)
    assert settled.flags == ("usage_anomaly",)


def test_a_good_report_counts_though_another_was_discarded() -> None:
    usage = Usage(input_uncached=3, output=9)
    settled = metered(
        UsageDiscarded(), TextDelta(0, "12345678"), UsageReported(usage), UsageDiscarded(), STOP, StreamCompleted()
    ).settle()
    assert (settled.usage, settled.usage_source) == (usage, UsageSource.PROVIDER)
    assert settled.flags == ("usage_anomaly",)


def test_a_report_from_before_the_answer_is_not_of_all_of_it() -> None:
    """The last one never came: the prompt is known, the rest is counted, and that is what the caller is shown."""
    meter = metered(
        StreamStarted("id-1", "m"),
        UsageReported(Usage(input_uncached=25, output=1)),
        TextDelta(0, "12345678"),
        UsageDiscarded(is_final=True),
        STOP,
    )
    counted = Usage(input_uncached=25, output=2)
    assert meter.feed(StreamCompleted()) == (UsageReported(counted), StreamCompleted())
    settled = meter.settle()
    assert (settled.usage, settled.usage_source) == (counted, UsageSource.ESTIMATE)


# An answer without its caller.

BUDGET = CallerError("budget_exceeded", "No more.")


@pytest.mark.parametrize(("error", "verdict"), [(BUDGET, None), (None, Verdict.CLIENT_GONE)])
def test_what_comes_after_the_caller_is_not_counted_but_its_usage_is(
    error: StreamweirError | None, verdict: Verdict | None
) -> None:
    meter = metered(ReasoningDelta(0, "1234"), TextDelta(0, "12345678"), meter=Meter(3))
    meter.detach(error)
    metered(TextDelta(0, "x" * 4000), ReasoningDelta(0, "y" * 4000), meter=meter)
    assert meter.record.delivered.getvalue() == "12345678"
    assert meter.tokens_so_far() == 3
    meter.record.delivered.write("more")
    settled = meter.settle(verdict)
    assert (settled.usage.output, settled.usage.reasoning) == (2, 1)
    assert (settled.verdict, settled.error) == (verdict or Verdict.STOPPED, error)

    usage = Usage(input_uncached=3, output=2000)
    meter = metered(TextDelta(0, "12345678"), meter=Meter(3))
    meter.detach(error)
    metered(TextDelta(0, "x" * 4000), STOP, UsageReported(usage), StreamCompleted(), meter=meter)
    settled = meter.settle(verdict)
    assert (settled.usage, settled.usage_source) == (usage, UsageSource.PROVIDER)
    assert (settled.verdict, settled.error) == (verdict or Verdict.STOPPED, error)


def test_a_failure_after_the_cut_does_not_change_why_it_was_cut() -> None:
    meter = metered(TextDelta(0, "a"))
    meter.detach(BUDGET)
    metered(StreamFailed(UpstreamError("upstream_stream_reset", "reset")), meter=meter)
    assert (meter.settle().verdict, meter.settle().error) == (Verdict.STOPPED, BUDGET)


def test_a_report_from_within_what_was_drained_is_at_least_that() -> None:
    meter = metered(TextDelta(0, "12345678"))
    meter.detach()
    metered(TextDelta(0, "x" * 400), UsageReported(Usage(input_uncached=3, output=50)), TextDelta(0, "x"), meter=meter)
    settled = meter.settle(Verdict.CLIENT_GONE)
    assert (settled.usage.output, settled.usage_source) == (50, UsageSource.ESTIMATE)


def test_of_what_was_held_back_only_so_much_was_delivered() -> None:
    meter = metered(ReasoningDelta(0, "1234abcd"), TextDelta(0, "12345678abcd"), meter=Meter(3))
    meter.detach(None, Delivered(8, 4))
    assert (meter.record.delivered.getvalue(), meter.record.reasoning_text.getvalue()) == ("12345678", "1234")
    assert meter.settle(Verdict.CLIENT_GONE).usage == Usage(input_uncached=3, output=2, reasoning=1)


def test_usage_that_was_counted_for_an_answer_that_never_went_out_was_not_shown() -> None:
    meter = metered(TextDelta(0, "12345678"), STOP, StreamCompleted(), meter=Meter(3))
    assert meter.count_usage().output == 2
    meter.detach(BUDGET, NOTHING_DELIVERED)
    assert meter.settle().usage == Usage(input_uncached=3)


# How much it is so far.


def test_the_tokens_so_far_are_those_of_the_text() -> None:
    meter = Meter()
    assert meter.tokens_so_far() == 0
    for size in (4, 40, 400, 404):
        metered(TextDelta(0, "abcd" * (size // 4)), meter=meter)
    assert meter.tokens_so_far() == (4 + 40 + 400 + 404) // 4
    metered(ReasoningDelta(0, "abcd" * 1000), meter=meter)
    assert meter.tokens_so_far() == (4 + 40 + 400 + 404 + 4000) // 4


def test_the_tokens_so_far_of_other_scripts_go_by_their_bytes() -> None:
    meter = metered(TextDelta(0, "水" * 100))
    assert meter.tokens_so_far() == 75
    metered(TextDelta(0, "水" * 60), meter=meter)
    assert meter.tokens_so_far() == 120


def test_the_tokens_so_far_are_the_providers_if_it_says_more() -> None:
    meter = metered(TextDelta(0, "abcd"), UsageReported(Usage(output=5, reasoning=70)))
    assert meter.tokens_so_far() == 75
