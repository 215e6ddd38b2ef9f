"""The content of a request in its spans: each request has its spans once, with the content once, however it went."""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from streamweir.background import BackgroundTasks
from streamweir.policy.redact import Redactor
from streamweir.policy.trace_context import RequestTrace
from streamweir.server.telemetry.metrics import Metrics
from streamweir.server.telemetry.record import AttemptRecord, RequestRecord
from streamweir.server.telemetry.reporting import Reporting
from streamweir.store.requests.content import Content
from support.accounting_gateway import AccountingSetup, keeping
from support.answers import (
    TEXTS,
    anthropic_stream,
    anthropic_whole,
    error_body,
    openai_frames,
    openai_stream,
    openai_whole,
    responses_stream,
)
from support.collector import Collector, attributes_of
from support.gateway import KEY, chat_request, configured
from support.script import End, Hang, Head, Script, Send, stream, whole

QUESTION = [{"role": "user", "content": "What is a weir?"}]
ASKED = [{"role": "user", "parts": [{"type": "text", "content": "What is a weir?"}]}]
ANSWER = "".join(TEXTS)
BEGUN = b"".join(openai_frames()[:3])
"""The head of an answer and its first two texts."""
INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
KEPT = f'\n[[keys]]\nname = "test"\nkey = "{KEY}"\nlog_content = true\n'


def models(*providers: str) -> str:
    targets = ", ".join(f'{{ provider = "{name}", model = "m" }}' for name in providers)
    return f'\n[[models]]\nid = "m"\ntargets = [{targets}]\n'


def telemetry(collector: Collector, more: str = "content = true") -> str:
    return f'\n[telemetry]\nendpoint = "{collector.url}"\nmetrics = false\n{more}\n'


class Case(Struct, kw_only=True):
    """What a provider does, and what is said about it."""

    script: Script
    finish: str | None = "stop"
    """None: there is no answer."""
    said: str = ANSWER
    kind: str = "openai"
    provider: str = ""
    path: str = "/v1/chat/completions"
    members: Mapping[str, Any] = {}
    leaves: bool = False
    """The caller leaves after the first texts."""


STREAM = {"stream": True}
CASES = {
    "passed on": Case(script=stream(openai_stream()), members=STREAM),
    "whole": Case(script=whole(openai_whole())),
    "translated": Case(script=stream(anthropic_stream()), kind="anthropic", members=STREAM),
    "whole and translated": Case(script=whole(anthropic_whole()), kind="anthropic"),
    "translated for Messages": Case(script=stream(openai_stream()), path="/v1/messages", members=STREAM),
    "passed on to Messages": Case(
        script=stream(anthropic_stream()), kind="anthropic", path="/v1/messages", members=STREAM
    ),
    "translated for Responses": Case(script=stream(openai_stream()), path="/v1/responses", members=STREAM),
    "passed on to Responses": Case(
        script=stream(responses_stream()), provider='wire = "responses"', path="/v1/responses", members=STREAM
    ),
    "ended by its limit": Case(script=stream(openai_stream(finish="length")), finish="length", members=STREAM),
    "cut by the provider": Case(
        script=[Head(), Send(BEGUN), End()], finish="error", said="".join(TEXTS[:2]), members=STREAM
    ),
    "left by the caller": Case(
        script=[Head(), Send(BEGUN), Hang()], finish="error", said="".join(TEXTS[:2]), members=STREAM, leaves=True
    ),
    "refused by the provider": Case(script=whole(error_body("No.", "invalid_request_error"), 400), finish=None),
    "refused by the provider, as a stream": Case(
        script=whole(error_body("No.", "invalid_request_error"), 400), finish=None, members=STREAM
    ),
}


async def ask(setup: AccountingSetup, case: Case) -> None:
    async with await setup.gate.connect() as client:
        await client.send(chat_request(path=case.path, **{"model": "m", "messages": QUESTION, **case.members}))
        if case.leaves:
            await client.read_until(TEXTS[1].encode())
            client.reset()
        else:
            await client.response()
        await setup.gate.settled()


def contents_of(spans: Sequence[Span]) -> list[dict[str, Any]]:
    """Of the spans that have some."""
    found = [attributes_of(span.attributes) for span in spans]
    return [
        {name: json.loads(each[name]) for name in (INPUT, OUTPUT) if name in each}
        for each in found
        if INPUT in each or OUTPUT in each
    ]


def kinds_of(spans: Sequence[Span]) -> list[int]:
    return sorted(span.kind for span in spans)


@pytest.mark.parametrize("name", CASES)
async def test_however_a_request_goes_its_content_is_sent_once(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    async with Collector() as collector:
        toml = models("up") + KEPT + telemetry(collector)
        async with keeping(case.script, tmp_path, toml, kind=case.kind, provider=case.provider) as setup:
            await ask(setup, case)
    assert kinds_of(collector.spans) == [Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CLIENT]
    assert len({span.span_id for span in collector.spans}) == 2
    parts = [{"type": "text", "content": case.said}]
    answer = {"role": "assistant", "parts": parts, "finish_reason": case.finish}
    assert contents_of(collector.spans) == [{INPUT: ASKED, **({OUTPUT: [answer]} if case.finish else {})}]


async def test_of_several_attempts_the_last_one_has_it(tmp_path: Path) -> None:
    down = {"first": whole(error_body("down for repairs"), 500)}
    async with Collector() as collector:
        toml = models("first", "up") + KEPT + telemetry(collector)
        async with keeping(stream(openai_stream()), tmp_path, toml, others=down) as setup:
            await ask(setup, CASES["passed on"])
    first, last = sorted(
        (span for span in collector.spans if span.kind == Span.SPAN_KIND_CLIENT),
        key=lambda span: span.start_time_unix_nano,
    )
    assert len(collector.spans) == 3
    assert contents_of([first]) == []
    assert [each[OUTPUT][0]["parts"][0]["content"] for each in contents_of([last])] == [ANSWER]


async def test_a_request_that_the_gateway_refuses_has_one_span_without_content(tmp_path: Path) -> None:
    refused = Case(script=whole(openai_whole()), members={"model": "nobody/knows-it"})
    async with Collector() as collector:
        toml = models("up") + KEPT + telemetry(collector)
        async with keeping(refused.script, tmp_path, toml) as setup:
            await ask(setup, refused)
    assert kinds_of(collector.spans) == [Span.SPAN_KIND_SERVER]
    assert contents_of(collector.spans) == []


async def reported(first: str, second: str | None, content: Content | None) -> Collector:
    """One request that is over under the first settings, and whose content is read under the second ones."""
    attempts = [AttemptRecord(target="up/m")]
    trace = RequestTrace(bytes(range(16)), 5, is_sampled=True)
    record = RequestRecord(id="req_1", method="POST", path="/v1/chat/completions", attempts=attempts, trace=trace)
    record.dialect, record.has_content = "openai", True
    async with Collector() as collector:
        with ThreadPoolExecutor(1) as executor:
            reporting = Reporting(lambda _: None, Metrics(), BackgroundTasks(), executor, Redactor)
            settings = [telemetry(collector, each) if each is not None else "" for each in (first, second)]
            reporting.use(configured(models("sim") + SIM + settings[0]), (), ())
            reporting.start()
            reporting.request_ended(record)
            reporting.use(configured(models("sim") + SIM + settings[1]), (), ())
            await reporting.content_ready(record, content)
            await reporting.close()
            assert not reporting._awaited
    return collector


SIM = '\n[[providers]]\nname = "sim"\nkind = "sim"\n'
CONTENT = Content(
    request_id="req_1",
    workspace_id="w",
    key_id="k",
    at_ms=1,
    prompt=json.dumps({"model": "m", "messages": QUESTION}),
    answer=ANSWER,
    upstream_frames=(),
    caller_frames=(),
)
OTHER = 'service_name = "other"'


@pytest.mark.parametrize("first", ["content = true", "content = false"])
@pytest.mark.parametrize("second", ["content = true", "content = false", f"content = true\n{OTHER}", None])
async def test_a_reload_before_content_is_read_neither_loses_nor_doubles_it(first: str, second: str | None) -> None:
    """Whoever was told that the request is over sends all of it, by its own settings."""
    collector = await reported(first, second, CONTENT)
    assert kinds_of(collector.spans) == [Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CLIENT]
    assert len(contents_of(collector.spans)) == (first == "content = true")


async def test_a_request_whose_content_cannot_be_read_has_its_spans_without_it() -> None:
    collector = await reported("content = true", "content = true", None)
    assert kinds_of(collector.spans) == [Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CLIENT]
    assert contents_of(collector.spans) == []
