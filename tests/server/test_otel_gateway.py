"""A request's spans and metrics as a collector receives them from a gateway, and the trace as a provider sees it."""

import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from streamweir.server.telemetry.log import close_log, configure_log
from support.accounting_gateway import keeping
from support.answers import error_body, openai_stream, openai_whole
from support.collector import Collector, attributes_of
from support.gateway import KEY, Gate, chat_request, configured, gateway, gateway_to, providers, routed
from support.script import Script, in_turn, stream, whole
from support.scripted_upstream import ScriptedUpstream

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
FAST = '\n[[models]]\nid = "fast"\ntargets = [{ provider = "up", model = "gpt-4o" }]\n'


def telemetry(collector: Collector, more: str = "") -> str:
    return f'\n[telemetry]\nendpoint = "{collector.url}"\n{more}\n'


async def sent(
    script: Script, more: str = "", toml: str = FAST, *, headers: Sequence[tuple[str, str]] = (), **members: Any
) -> tuple[Collector, ScriptedUpstream, Gate]:
    """One request, and all that a gateway has sent when it has ended."""
    async with Collector() as collector:
        async with gateway_to(script, toml + telemetry(collector, more)) as (gate, upstream):
            async with await gate.connect() as client:
                await client.send(chat_request(headers=tuple(headers), **{"model": "fast", **members}))
                await client.response()
            await gate.settled()
        return collector, upstream, gate


def split(spans: Sequence[Span]) -> tuple[Span, list[Span]]:
    """That of the request, and those of its attempts."""
    (request,) = [span for span in spans if span.kind == Span.SPAN_KIND_SERVER]
    attempts = [span for span in spans if span.kind == Span.SPAN_KIND_CLIENT]
    assert len(spans) == 1 + len(attempts)
    return request, sorted(attempts, key=lambda span: span.start_time_unix_nano)


def field(upstream: ScriptedUpstream, name: str, request: int = 0) -> str | None:
    found = [value for each, value in upstream.requests[request].fields if each.lower() == name]
    assert len(found) <= 1
    return found[0] if found else None


async def test_a_stream_has_a_span_and_one_below_it_for_its_attempt() -> None:
    collector, upstream, gate = await sent(stream(openai_stream()), stream=True, temperature=0.5, max_tokens=7)
    request, (attempt,) = split(collector.spans)
    record = gate.records[0]
    assert record.trace is not None
    assert request.trace_id == attempt.trace_id == record.trace.trace_id
    assert (request.parent_span_id, attempt.parent_span_id) == (b"", request.span_id)
    assert (request.name, attempt.name) == ("chat fast", "chat gpt-4o")
    assert field(upstream, "traceparent") == f"00-{request.trace_id.hex()}-{attempt.span_id.hex()}-01"
    assert request.start_time_unix_nano == record.at_ms * 1_000_000
    assert request.start_time_unix_nano <= attempt.start_time_unix_nano
    assert attempt.start_time_unix_nano < attempt.end_time_unix_nano <= request.end_time_unix_nano + 1_000_000
    own, of_attempt = attributes_of(request.attributes), attributes_of(attempt.attributes)
    assert own["streamweir.request.id"] == record.id
    assert (own["http.response.status_code"], own["streamweir.verdict"]) == (200, "completed")
    assert (own["streamweir.key"], own["url.path"]) == ("test", "/v1/chat/completions")
    assert of_attempt["gen_ai.provider.name"] == "openai"
    assert (of_attempt["server.address"], of_attempt["server.port"]) == ("127.0.0.1", upstream.port)
    assert of_attempt["gen_ai.request.temperature"] == 0.5
    assert of_attempt["gen_ai.request.max_tokens"] == 7
    assert of_attempt["gen_ai.response.finish_reasons"] == ["stop"]
    assert record.usage is not None
    assert of_attempt["gen_ai.usage.input_tokens"] == record.usage.prompt_tokens
    assert of_attempt["gen_ai.usage.output_tokens"] == record.usage.completion_tokens
    assert not any(name.startswith("gen_ai.usage") for name in own), "a backend would count them twice"


async def test_the_first_token_and_the_end_are_events_at_their_times() -> None:
    collector, _, gate = await sent(stream(openai_stream()), stream=True)
    request, (attempt,) = split(collector.spans)
    record = gate.records[0]
    assert record.ttft_s is not None
    times = {event.name: event.time_unix_nano for event in request.events}
    assert times == {
        "streamweir.first_token": request.start_time_unix_nano + int(record.ttft_s * 1e9),
        "streamweir.end": request.end_time_unix_nano,
    }
    assert [(event.name, event.time_unix_nano) for event in attempt.events] == [
        ("streamweir.first_token", times["streamweir.first_token"])
    ]


async def test_a_failed_attempt_is_a_span_of_its_own() -> None:
    async with Collector() as collector:
        refusal = whole(error_body("overloaded"), status=503)
        toml = '[[models]]\nid = "fast"\ntargets = [{ provider = "a", model = "x" }, { provider = "b", model = "y" }]\n'
        toml += "[routing]\nmax_attempts = 2\n" + telemetry(collector)
        async with routed(toml, a=refusal, b=whole(openai_whole())) as (gate, ups):
            await gate.ask(model="fast")
            await gate.settled()
        request, (first, second) = split(collector.spans)
    assert field(ups["a"], "traceparent") == f"00-{request.trace_id.hex()}-{first.span_id.hex()}-01"
    assert field(ups["b"], "traceparent") == f"00-{request.trace_id.hex()}-{second.span_id.hex()}-01"
    assert first.status.code == Status.STATUS_CODE_ERROR
    failed, answered = attributes_of(first.attributes), attributes_of(second.attributes)
    assert failed["http.response.status_code"] == 503
    assert failed["error.type"] == first.status.message == gate.records[0].attempts[0].error
    assert "gen_ai.usage.input_tokens" not in failed
    assert (second.status.code, request.status.code) == (Status.STATUS_CODE_UNSET, Status.STATUS_CODE_UNSET)
    assert answered["gen_ai.usage.output_tokens"] > 0


async def test_a_request_that_fails_is_an_error() -> None:
    refusal = whole(error_body("broken"), status=500)
    collector, _, gate = await sent(refusal, toml=FAST + "[routing]\nmax_attempts = 1\n")
    request, attempts = split(collector.spans)
    assert len(attempts) == len(gate.records[0].attempts)
    assert request.status.code == Status.STATUS_CODE_ERROR
    assert attributes_of(request.attributes)["error.type"] == gate.records[0].error


async def test_the_callers_trace_goes_on() -> None:
    headers = (("traceparent", PARENT), ("tracestate", "rojo=00f067aa0ba902b7"), ("baggage", "user=somebody"))
    collector, upstream, _ = await sent(whole(openai_whole()), headers=headers)
    request, (attempt,) = split(collector.spans)
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, SPAN)
    assert request.trace_state == "rojo=00f067aa0ba902b7"
    assert request.flags == 0x301, "sampled, and its parent is in another process"
    assert attempt.flags == 0x101
    assert field(upstream, "traceparent") == f"00-{TRACE}-{attempt.span_id.hex()}-01"
    assert field(upstream, "tracestate") == "rojo=00f067aa0ba902b7"
    assert field(upstream, "baggage") is None


async def test_two_callers_headers_are_no_context() -> None:
    collector, upstream, _ = await sent(whole(openai_whole()), headers=[("traceparent", PARENT)] * 2)
    request, _ = split(collector.spans)
    assert request.trace_id.hex() != TRACE
    assert request.parent_span_id == b""
    assert field(upstream, "tracestate") is None


async def test_a_request_that_is_not_sampled_is_not_exported_but_counted() -> None:
    collector, upstream, gate = await sent(whole(openai_whole()), "sample_ratio = 0", headers=[("traceparent", PARENT)])
    assert collector.spans == []
    sent_on = field(upstream, "traceparent")
    assert sent_on is not None
    assert sent_on.startswith(f"00-{TRACE}-")
    assert sent_on.endswith("-00")
    assert collector.points["gen_ai.server.request.duration"][0].count == len(gate.records)


async def test_without_a_collector_a_provider_gets_no_trace_context() -> None:
    async with gateway_to(whole(openai_whole()), FAST) as (gate, upstream):
        async with await gate.connect() as client:
            await client.send(chat_request(model="fast", headers=(("traceparent", PARENT), ("tracestate", "a=1"))))
            await client.response()
        (record,) = await gate.settled()
    assert record.trace is None
    assert (field(upstream, "traceparent"), field(upstream, "tracestate")) == (None, None)


@pytest.mark.parametrize(
    ("everywhere", "here", "is_sent"),
    [("true", "", True), ("false", "", False), ("true", "false", False), ("false", "true", True)],
)
async def test_the_operator_chooses_who_gets_the_trace_context(everywhere: str, here: str, is_sent: bool) -> None:
    async with Collector() as collector:
        toml = FAST + telemetry(collector, f"send_traceparent = {everywhere}")
        own = f"\nsend_traceparent = {here}\n" if here else ""
        async with gateway_to(whole(openai_whole()), toml, provider=own) as (gate, upstream):
            await gate.ask(model="fast")
            await gate.settled()
    assert (field(upstream, "traceparent") is not None) is is_sent
    assert len(collector.spans) == 2


async def test_an_operators_own_header_replaces_the_gateways() -> None:
    async with Collector() as collector:
        own = f'\nheaders = {{ traceparent = "{PARENT}" }}\n'
        async with gateway_to(whole(openai_whole()), FAST + telemetry(collector), provider=own) as (gate, upstream):
            await gate.ask(model="fast")
            await gate.settled()
    assert field(upstream, "traceparent") == PARENT


async def test_a_caller_without_a_key_makes_no_trace() -> None:
    async with Collector() as collector:
        async with gateway_to(whole(openai_whole()), FAST + telemetry(collector)) as (gate, _):
            for key in (None, "sk-not-the-key-of-anyone-000"):
                async with await gate.connect() as client:
                    await client.send(chat_request(model="fast", key=key, headers=(("traceparent", PARENT),)))
                    assert (await client.response()).status == 401
            await gate.settled(2)
        assert collector.paths == []


async def test_a_refused_request_of_a_key_has_one_span() -> None:
    collector, upstream, gate = await sent(whole(openai_whole()), model="nobody/knows-it")
    assert upstream.requests == []
    request, attempts = split(collector.spans)
    assert attempts == []
    own = attributes_of(request.attributes)
    assert (own["http.response.status_code"], own["error.type"]) == (404, gate.records[0].error)
    assert request.name == "chat", "a name that a caller made up is no name of spans"
    assert request.status.code == Status.STATUS_CODE_UNSET, "the caller's own mistake"


async def test_the_metrics_are_those_of_the_conventions() -> None:
    collector, upstream, gate = await sent(stream(openai_stream()), stream=True)
    usage = gate.records[0].usage
    assert usage is not None
    points = collector.points
    assert set(points) == {
        "gen_ai.server.request.duration",
        "gen_ai.server.time_to_first_token",
        "gen_ai.server.time_per_output_token",
        "gen_ai.client.operation.duration",
        "gen_ai.client.token.usage",
    }
    tokens = {attributes_of(each.attributes)["gen_ai.token.type"]: each for each in points["gen_ai.client.token.usage"]}
    assert {kind: each.sum for kind, each in tokens.items()} == {
        "input": usage.prompt_tokens,
        "output": usage.completion_tokens,
    }
    (duration,) = points["gen_ai.client.operation.duration"]
    assert attributes_of(duration.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o",
        "server.address": "127.0.0.1",
        "server.port": upstream.port,
    }
    (first,) = points["gen_ai.server.time_to_first_token"]
    assert first.sum == pytest.approx(gate.records[0].ttft_s)
    assert attributes_of(first.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "streamweir",
        "gen_ai.request.model": "fast",
    }


async def test_either_signal_can_be_off() -> None:
    collector, _, gate = await sent(whole(openai_whole()), "traces = false")
    assert set(collector.paths) == {"/v1/metrics"}
    assert gate.records[0].trace is None
    collector, _, _ = await sent(whole(openai_whole()), "metrics = false")
    assert set(collector.paths) == {"/v1/traces"}


async def test_the_log_line_has_the_id_of_the_trace() -> None:
    lines = StringIO()
    configure_log("json", lines)
    try:
        collector, _, _ = await sent(whole(openai_whole()), headers=[("traceparent", PARENT)])
    finally:
        close_log()
    (line,) = [each for each in map(json.loads, lines.getvalue().splitlines()) if each["event"] == "request"]
    assert line["trace_id"] == TRACE == collector.spans[0].trace_id.hex()


async def test_the_resource_says_which_process_it_is() -> None:
    more = 'service_name = "gateway-eu"\nresource = { "deployment.environment.name" = "staging" }'
    collector, _, _ = await sent(whole(openai_whole()), more)
    resource = collector.resource
    assert resource["service.name"] == "gateway-eu"
    assert resource["deployment.environment.name"] == "staging"
    assert resource["service.instance.id"]
    assert resource["service.version"]


async def test_a_reload_changes_the_collector_and_loses_nothing() -> None:
    async with Collector() as before, Collector() as after, ScriptedUpstream(whole(openai_whole())) as upstream:
        basis = providers(up=upstream.base_url) + FAST
        async with gateway(basis + telemetry(before)) as gate:
            await gate.ask(model="fast")
            await gate.settled()
            gate.gateway.reload(configured(basis + telemetry(after)))
            await before.received(2)
            await gate.ask(model="fast")
            await gate.settled(2)
            gate.gateway.reload(configured(basis))
            await after.received(2)
            await gate.ask(model="fast")
            assert (await gate.settled(3))[2].trace is None
        assert (len(before.spans), len(after.spans)) == (2, 2)


async def test_costs_are_exported_only_if_the_operator_wants_that(tmp_path: Path) -> None:
    toml = FAST + "price = { input = 1000.0, output = 1000.0 }\n"
    for more, names in (("", set()), ("costs = true", {"streamweir.price_usd", "streamweir.cost_usd"})):
        async with Collector() as collector:
            folder = tmp_path / (more[:5] or "none")
            folder.mkdir()
            async with keeping(whole(openai_whole()), folder, toml + telemetry(collector, more)) as setup:
                await setup.gate.ask(model="fast")
                await setup.gate.settled()
            request, _ = split(collector.spans)
            assert {name for name in attributes_of(request.attributes) if name.endswith("_usd")} == names


CANARY = "xylophone-quartet"


@pytest.mark.parametrize(("content", "log_content"), [(False, True), (True, False), (True, True)])
async def test_content_is_exported_only_for_keys_that_store_it(
    tmp_path: Path, content: bool, log_content: bool
) -> None:
    key = f'\n[[keys]]\nname = "test"\nkey = "{KEY}"\nlog_content = {str(log_content).lower()}\n'
    question = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": f"What is a {CANARY}? My key is sk-live-8d1f0a93c57b28e4aa."},
    ]
    async with Collector() as collector:
        toml = FAST + key + telemetry(collector, f"content = {str(content).lower()}")
        script = in_turn(stream(openai_stream()), whole(openai_whole()))
        async with keeping(script, tmp_path, toml) as setup:
            for is_stream in (True, False):
                await setup.gate.ask(model="fast", stream=is_stream, messages=question)
            await setup.gate.settled(2)
            await setup.gate.gateway._settlements.wait_settled()
        everything = b"".join(message.SerializeToString() for message in collector.traces)
        spans = [span for span in collector.spans if span.kind == Span.SPAN_KIND_CLIENT]
    assert len(spans) == 2
    assert b"sk-live-8d1f0a93c57b28e4aa" not in everything
    assert (CANARY.encode() in everything) is (content and log_content)
    if not (content and log_content):
        return
    for span in spans:
        found = attributes_of(span.attributes)
        assert json.loads(found["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be short."}]
        assert json.loads(found["gen_ai.input.messages"]) == [
            {
                "role": "user",
                "parts": [{"type": "text", "content": f"What is a {CANARY}? My key is ***."}],
            }
        ]
        (message,) = json.loads(found["gen_ai.output.messages"])
        (part,) = message["parts"]
        assert (message["role"], message["finish_reason"], part["type"]) == ("assistant", "stop", "text")
        assert part["content"]
