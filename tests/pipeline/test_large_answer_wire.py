"""What the process that reads a large answer says comes out as it went in, and nothing else does."""

import pytest

from streamweir.core.errors import CallerError, GatewayFault, StreamweirError, UpstreamError
from streamweir.core.events import (
    ChoiceFinished,
    FinishReason,
    ReasoningDelta,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    StreamTagged,
    TextDelta,
    UsageDiscarded,
    UsageReported,
)
from streamweir.core.usage import Usage
from streamweir.pipeline.large_answer import MeteredEvent
from streamweir.pipeline.large_answer_wire import ANSWER_SOURCE, EVENTS, AnswerSource
from streamweir.providers.base import framing_of
from streamweir.providers.registry import name_on, provider_named, provider_names, wires_of

USAGE = Usage(input_uncached=2**53, reasoning=0, openai_style=True, prompt_details={"cached_tokens": 1, "x": [None]})
SAID: list[MeteredEvent] = [
    StreamStarted("id", "m", 5, None),
    StreamTagged(service_tier="flex"),
    TextDelta(0, "w\u00f6rt"),
    ReasoningDelta(3, "so", ({"type": "text"},)),
    UsageReported(USAGE),
    UsageDiscarded(is_final=True),
    ChoiceFinished(0, FinishReason.OTHER, "odd"),
    StreamCompleted(),
    StreamFailed(UpstreamError("upstream_timeout", "slow", param="p", retry_after_s=1.5, event_id="e")),
    StreamFailed(CallerError("content_filter", "no")),
    StreamFailed(GatewayFault("internal_error", "ours")),
]


@pytest.mark.parametrize("more", ["", "\ud83d"], ids=["text", "half of a surrogate pair"])
def test_events_come_out_as_they_went_in(more: str) -> None:
    events = [*SAID, TextDelta(1, more)]
    assert EVENTS.decode(EVENTS.encode(events)) == events


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x04N.",
        b"{}",
        b'[{"type":"Extra","choice":0,"fields":{}}]',
        b'[{"type":"TextDelta","choice":0,"text":1}]',
        b'[{"type":"StreamFailed","error":{"kind":"SystemExit","code":"x","message":""}}]',
        b'[{"type":"StreamFailed","error":"boom"}]',
    ],
)
def test_nothing_else_comes_out(data: bytes) -> None:
    with pytest.raises(Exception, match=r"Expecting|utf-8|Expected|Invalid|Object"):
        EVENTS.decode(data)


def test_an_error_has_one_of_our_codes() -> None:
    error: StreamweirError = UpstreamError("upstream_timeout", "slow")
    data = EVENTS.encode([StreamFailed(error)]).replace(b"upstream_timeout", b"nobody_knows_it_")
    with pytest.raises(Exception, match="has no code"):
        EVENTS.decode(data)


WIRES = [name_on(kind, wire) for kind in provider_names() for wire in wires_of(kind)]


@pytest.mark.parametrize("name", WIRES)
def test_the_name_of_a_provider_leads_to_one_that_reads_the_same(name: str) -> None:
    provider = provider_named(name)
    reported = ANSWER_SOURCE.decode(ANSWER_SOURCE.encode(AnswerSource(provider.name, 2)))
    found = provider_named(reported.provider)
    assert type(found.decoder()) is type(provider.decoder())
    assert framing_of(found) is framing_of(provider)
    assert vars(provider_named(reported.provider)) == vars(provider)
    assert reported.choices == 2
