"""Nothing of a provider's answer is lost: each attempt's status, error, id, address and times, in the record, the log
and the row."""

import json
from io import StringIO
from pathlib import Path

import pytest

from streamweir.server.accounting.request_row import row_of
from streamweir.server.telemetry.log import close_log, configure_log
from streamweir.server.telemetry.record import AttemptRecord
from support.answers import (
    anthropic_error_body,
    anthropic_frames,
    error_body,
    error_frame,
    openai_frames,
    openai_stream,
    openai_whole,
)
from support.certificate import make_certificate
from support.gateway import Gate, gateway, gateway_to, providers
from support.outcome import ALIAS
from support.script import End, Fin, Head, Rst, Script, Seen, Send, Step, in_turn, stream, whole
from support.scripted_upstream import ScriptedUpstream, closed_port

pytestmark = pytest.mark.usefixtures("no_jitter")

BUSY = error_body("Limit of 5 reached for gpt in org-abc123", "requests", code="rate_limit_exceeded")


async def attempts(gate: Gate, count: int = 1) -> list[AttemptRecord]:
    records = await gate.settled(count)
    return records[-1].attempts


async def test_a_refusal_and_the_answer_after_it_are_recorded() -> None:
    refusal = whole(BUSY, 429, (("x-request-id", "req_first"), ("retry-after", "0")))
    answer: list[Step] = [Head(headers=(("x-request-id", "req_second"),)), Send(openai_stream()), End()]
    async with ScriptedUpstream(refusal) as up, ScriptedUpstream(answer) as other:
        async with gateway(providers(first=up.base_url, second=other.base_url) + ALIAS) as gate:
            assert (await gate.ask(model="either", stream=True)).status == 200
            first, second = await attempts(gate)
        assert (first.status, first.error, first.provider_request_id) == (429, "upstream_rate_limited", "req_first")
        assert (first.provider_code, first.provider_type) == ("rate_limit_exceeded", "requests")
        assert first.provider_message == "Limit of 5 reached for gpt in ***"
        assert (second.status, second.error, second.provider_request_id) == (200, None, "req_second")
        assert second.provider_message is None
        for attempt, upstream in ((first, up), (second, other)):
            assert attempt.trace is not None
            assert attempt.trace.address == upstream.base_url.removeprefix("http://").removesuffix("/v1")
            assert attempt.first_byte_s is not None
            assert 0 <= attempt.first_byte_s <= attempt.duration_s


async def test_a_kept_connection_is_known_as_such() -> None:
    async with gateway_to(in_turn(stream(openai_stream()), stream(openai_stream()))) as (gate, up):
        for count, is_reused in ((1, False), (2, True)):
            await gate.ask(model="up/m", stream=True)
            (attempt,) = await attempts(gate, count)
            assert attempt.trace is not None
            assert (attempt.trace.is_reused, attempt.trace.connect_s is None) == (is_reused, is_reused)
            await up.idle()


async def test_a_whole_answer_over_tls_has_the_time_of_tls(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    answer = whole(openai_whole(), headers=(("request-id", "req_1"),))
    async with ScriptedUpstream(answer, tls=certificate.server_context()) as up:
        toml = providers(up=up.base_url) + f'ca_file = "{certificate.cert_file}"\n'
        async with gateway(toml) as gate:
            assert (await gate.ask(model="up/m")).status == 200
            (attempt,) = await attempts(gate)
    assert (attempt.status, attempt.provider_request_id) == (200, "req_1")
    assert attempt.trace is not None
    assert attempt.trace.tls_s is not None


async def test_a_connection_that_cannot_be_made() -> None:
    port = closed_port()
    async with gateway(providers(dead=f"http://127.0.0.1:{port}/v1")) as gate:
        assert (await gate.ask(model="dead/m")).status == 502
        for attempt in await attempts(gate):
            assert (attempt.status, attempt.error) == (0, "upstream_connect_failed")
            assert attempt.provider_message == "Connection refused"
            assert attempt.trace is not None
            assert attempt.trace.address == f"127.0.0.1:{port}"
            assert attempt.first_byte_s is None


async def test_an_error_in_the_middle_of_an_answer() -> None:
    frames = openai_frames()[:3]
    failing: list[Step] = [
        Head(),
        Send(b"".join([*frames, error_frame(error_body("out of memory", code="gpu_oom"))])),
        End(),
    ]
    async with gateway_to(failing) as (gate, _):
        reply = await gate.ask(model="up/m", stream=True)
        assert b"out of memory" not in reply.body
        (attempt,) = await attempts(gate)
    assert (attempt.status, attempt.error) == (200, "upstream_server_error")
    assert (attempt.provider_code, attempt.provider_type) == ("gpu_oom", "server_error")
    assert attempt.provider_message == "out of memory"


@pytest.mark.parametrize("cut", [Fin(), Rst()])
async def test_a_cut_in_the_middle_of_an_answer(cut: Step) -> None:
    async with gateway_to([Head(), Send(b"".join(openai_frames()[:3])), cut]) as (gate, _):
        await gate.ask(model="up/m", stream=True)
        (attempt,) = await attempts(gate)
    code = "upstream_stream_truncated" if isinstance(cut, Fin) else "upstream_stream_reset"
    assert (attempt.status, attempt.error) == (200, code)
    assert attempt.provider_message == (None if isinstance(cut, Fin) else "Connection reset by peer")


async def test_an_error_frame_of_anthropic_that_is_passed_on() -> None:
    error = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    script: Script = [Head(), Send(b"".join(anthropic_frames()[:4]) + error), End()]
    async with ScriptedUpstream(script) as up, gateway(providers("anthropic", up=up.base_url)) as gate:
        await gate.ask(path="/v1/messages", model="up/m", stream=True, max_tokens=9)
        (attempt,) = await attempts(gate)
    assert (attempt.error, attempt.provider_type, attempt.provider_message) == (
        "upstream_overloaded",
        "overloaded_error",
        "Overloaded",
    )


async def test_a_page_of_a_load_balancer() -> None:
    async with gateway_to(whole(b"<html><title>502 Bad Gateway</title></html>", 502)) as (gate, _):
        assert (await gate.ask(model="up/m")).status == 502
        for attempt in await attempts(gate):
            assert (attempt.status, attempt.provider_message) == (502, "502 Bad Gateway")


async def test_a_content_type_that_cannot_be_read() -> None:
    answer: list[Step] = [Head(content_type="text/html"), Send(b"<p>"), End()]
    async with gateway_to(answer) as (gate, _):
        await gate.ask(model="up/m")
        attempt = (await attempts(gate))[0]
    assert (attempt.error, attempt.provider_message) == ("upstream_bad_response", "content-type: text/html")


async def test_of_several_calls_the_one_that_failed_is_recorded() -> None:
    first = whole(b'{"embeddings":{"float":[[0.5]]}}', headers=(("x-request-id", "req_of_first"),))
    second = whole(b'{"message":"no more","code":"engine_gone"}', 500, (("x-request-id", "req_of_second"),))

    def chosen(request: Seen) -> list[Step]:
        return second if len(request.json["input"]) < 96 else first

    async with gateway_to(chosen, kind="cohere") as (gate, up):
        body = json.dumps({"model": "up/m", "input": [str(number) for number in range(100)]}).encode()
        reply = await gate.ask(path="/v1/embeddings", body=body)
        attempt = (await attempts(gate))[0]
        assert [len(request.json["input"]) for request in up.requests[:2]] == [96, 4]
    assert reply.status == 502
    assert (attempt.status, attempt.provider_request_id) == (500, "req_of_second")
    assert (attempt.provider_code, attempt.provider_message) == ("engine_gone", "no more")
    assert attempt.trace is not None


async def test_the_log_and_the_row_have_all_that_is_known_of_an_attempt() -> None:
    out = StringIO()
    configure_log("json", out)
    refusal = whole(BUSY, 429, (("x-request-id", "req_first"),))
    async with gateway_to(refusal) as (gate, up):
        assert (await gate.ask(model="up/m")).status == 429
        (record,) = await gate.settled()
        address = up.base_url.removeprefix("http://").removesuffix("/v1")
    assert close_log()
    line = next(line for line in map(json.loads, out.getvalue().splitlines()) if line["event"] == "request")
    logged, stored = line["attempts"][0], json.loads(row_of(record, "here").attempts)[0]
    for found in (logged, stored):
        times = {name: found.pop(name) for name in ("duration_s", "dns_s", "connect_s", "first_byte_s")}
        assert all(isinstance(seconds, float) for seconds in times.values())
    assert logged == {
        "target": "up/m",
        "error": "upstream_rate_limited",
        "status": 429,
        "provider_code": "rate_limit_exceeded",
        "provider_type": "requests",
        "provider_message": "Limit of 5 reached for gpt in ***",
        "provider_request_id": "req_first",
        "address": address,
    }
    assert stored.pop("start_s") >= 0
    assert stored == {**logged, "resends": 0, "reused": False}


async def test_a_prompt_that_a_provider_quotes_is_in_no_log_of_a_key_without_content() -> None:
    quoted = "the badger who lived in the bank told nobody about its gold"
    out = StringIO()
    configure_log("json", out)
    quoting = error_body(f"Invalid 'messages[0].content': '{quoted}'", "invalid_request_error", param="messages")
    async with gateway_to(in_turn(whole(quoting, 400), *[whole(quoting, 500)] * 3)) as (gate, _):
        for _ in range(2):
            await gate.ask(model="up/m", messages=[{"role": "user", "content": quoted}])
        records = await gate.settled(2)
        rows = [row_of(record, "here").attempts for record in records]
    assert close_log()
    assert "badger" not in out.getvalue() + "".join(rows)
    assert [(each.provider_param, each.provider_message) for each in records[0].attempts] == [("messages", None)]
    assert records[1].attempts[0].provider_message == "Invalid 'messages[0].content': '...'"


async def test_a_caller_does_not_see_a_header_of_the_gateway_that_a_provider_quotes() -> None:
    refusal = whole(error_body("Bad value plain.team.header", param="plain.team.header"), 400)
    async with ScriptedUpstream(refusal) as up:
        toml = providers(up=up.base_url) + 'headers = { x-team = "plain.team.header" }\n'
        async with gateway(toml) as gate:
            reply = await gate.ask(model="up/m")
    assert reply.status == 400
    assert json.loads(reply.body)["error"]["message"] == "Bad value ***"
    assert b"plain" not in reply.body


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
async def test_so_it_is_in_an_answer_that_has_begun(path: str) -> None:
    body = anthropic_error_body("Bad plain.team.header", "invalid_request_error")
    error = b"event: error\ndata: %b" % body
    script: Script = [Head(), Send(b"".join(anthropic_frames()[:4]) + error + b"\n\n"), End()]
    async with ScriptedUpstream(script) as up:
        toml = providers("anthropic", up=up.base_url) + 'headers = { x-team = "plain.team.header" }\n'
        async with gateway(toml) as gate:
            reply = await gate.ask(path=path, model="up/m", stream=True)
    assert reply.status == 200
    assert b"Bad ***" in reply.body
    assert b"plain.team" not in reply.body
