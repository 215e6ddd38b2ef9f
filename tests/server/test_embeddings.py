"""`POST /v1/embeddings` over real sockets: vectors, batches, failures, failover."""

import asyncio
import json
from typing import Any

import pytest

from streamweir.core.errors import GatewayFault, UpstreamError
from streamweir.policy.routing.health import Candidate, TargetId
from support.accounting_gateway import error_of
from support.embeddings import PATH, VECTORS, embed, openai_vectors, packed, vectors_of
from support.gateway import chat_request, gateway, gateway_to, nothing_left, providers
from support.script import End, Fin, Flood, Hang, Head, Rst, Script, Seen, Send, Step, in_turn, whole
from support.scripted_upstream import ScriptedUpstream

JSON = "application/json"
BOTH = """
[[models]]
id = "either"
targets = [{ provider = "first", model = "m" }, { provider = "second", model = "m" }]
"""
SIM = '[[providers]]\nname = "sim"\nkind = "sim"\n'
VERTEX = 'project = "p"\nlocation = "eu"\n'


def echoing(per_input: int = 3, tokens: int | None = 3) -> Script:
    """Each vector begins with the number that its input is."""

    def chosen(request: Seen) -> list[Step]:
        vectors = [[float(text), *[0.5] * (per_input - 1)] for text in request.json["input"]]
        return whole(openai_vectors(vectors, tokens))

    return chosen


@pytest.mark.parametrize("encoding", ["float", "base64", None])
@pytest.mark.parametrize("sends", ["numbers", "base64"])
async def test_vectors_in_the_form_that_was_asked_for(encoding: str | None, sends: str) -> None:
    vectors: Any = VECTORS if sends == "numbers" else [packed(vector) for vector in VECTORS]
    asked = {"encoding_format": encoding} if encoding else {}
    async with gateway_to(whole(openai_vectors(vectors))) as (gate, up):
        reply = await embed(gate, dimensions=3, user="u", **asked)
        assert vectors_of(reply) == [list(vector) for vector in VECTORS]
        assert isinstance(json.loads(reply.body)["data"][0]["embedding"], str) == (encoding == "base64")
        assert json.loads(reply.body)["usage"] == {"prompt_tokens": 6, "total_tokens": 6}
        (record,) = await gate.settled()
        assert (record.dialect, record.verdict, record.status, record.error) == ("embeddings", "completed", 200, None)
        assert record.usage is not None
        assert (record.usage.prompt_tokens, record.usage.completion_tokens) == (6, 0)
        assert (record.usage_source, record.finish, record.stream) == ("provider", None, False)
        (request,) = up.requests
        assert request.path == "/v1/embeddings"
        wanted = {"encoding_format": "base64"} if encoding == "base64" else {}
        assert request.json == {"model": "m", "input": ["a", "b"], "dimensions": 3, "user": "u", **wanted}


async def test_a_batch_is_split_in_order_and_summed() -> None:
    async with gateway_to(echoing(), kind="cohere") as (gate, up):
        reply = await embed(gate, input=[str(i) for i in range(200)])
        assert [vector[0] for vector in vectors_of(reply)] == list(range(200))
        (record,) = await gate.settled()
        assert record.usage is not None
        assert (record.usage.prompt_tokens, len(record.attempts)) == (9, 1)
        assert [len(request.json["input"]) for request in up.requests] == [96, 96, 8]
        assert up.accepted == 1, "one after the other, on one connection"


async def test_one_input_per_call_goes_four_at_a_time() -> None:
    go = asyncio.Event()

    async def wait(_: object) -> None:
        await go.wait()

    def chosen(request: Seen) -> list[Step]:
        text = request.json["instances"][0]["content"]
        predicted = {"values": [float(text), 1.0], "statistics": {"token_count": 2}}
        return [wait, *whole(json.dumps({"predictions": [{"embeddings": predicted}]}).encode())]

    async with gateway_to(chosen, kind="vertex", provider=VERTEX) as (gate, up):
        asking = asyncio.create_task(embed(gate, "up/gemini-embedding-001", input=[str(i) for i in range(12)]))
        await up.seen(4)
        await gate.has_read()
        assert len(up.requests) == 4
        go.set()
        assert [vector[0] for vector in vectors_of(await asking)] == list(range(12))
        (record,) = await gate.settled()
        assert record.usage is not None
        assert (record.usage.prompt_tokens, record.usage_source) == (24, "provider")
        assert (len(up.requests), len(record.attempts)) == (12, 1)


async def test_an_answer_before_its_turn_is_not_read_without_limit() -> None:
    """Three large answers wait for the first: their readers stop."""
    go = asyncio.Event()

    async def wait(_: object) -> None:
        await go.wait()

    def chosen(request: Seen) -> list[Step]:
        text = request.json["instances"][0]["content"]
        body = json.dumps({"predictions": [{"embeddings": {"values": [float(text), 1.0]}}]}).encode()
        large: list[Step] = [Head(200, JSON), Flood(b" " * 65_536, 80), Send(body), End()]
        return [wait, *whole(body)] if text == "0" else large

    async with gateway_to(chosen, kind="vertex", provider=VERTEX, send_buffer=65_536) as (gate, up):
        asking = asyncio.create_task(embed(gate, "up/gemini-embedding-001", input=["0", "1", "2", "3"]))
        await up.stalled(3)
        sent = max(request.body_sent for request in up.requests)
        assert sent < 5 * 1024 * 1024, "the rest is still with the provider"
        go.set()
        assert [vector[0] for vector in vectors_of(await asking)] == [0, 1, 2, 3]


FAILURES: dict[str, tuple[list[Step], str, int]] = {
    "400": (
        whole(b'{"error":{"message":"too long","code":"context_length_exceeded"}}', 400),
        "context_length_exceeded",
        400,
    ),
    "401": (whole(b"{}", 401), "upstream_auth_failed", 502),
    "404": (whole(b"{}", 404), "upstream_model_not_found", 502),
    "429": (whole(b"{}", 429), "upstream_rate_limited", 429),
    "500": (whole(b"{}", 500), "upstream_server_error", 502),
    "redirect": ([Head(307, None, [("location", "/x")], framing=0), End()], "upstream_redirect_blocked", 502),
    "page": ([Head(200, "text/html"), Send(b"<p>"), End()], "upstream_bad_response", 502),
    "stream": ([Head(), Send(b"data: {}\n\n"), End()], "upstream_bad_response", 502),
    "array": (whole(b'[{"embedding":[1.0]}]'), "upstream_bad_response", 502),
    "empty": (whole(b""), "upstream_empty_response", 502),
    "cut": ([Head(200, JSON), Send(openai_vectors()[:50]), Fin()], "upstream_stream_truncated", 502),
    "half a body": (whole(openai_vectors()[:50]), "upstream_bad_response", 502),
    "reset": ([Head(200, JSON), Send(openai_vectors()[:50]), Rst()], "upstream_stream_reset", 502),
    "count": (whole(openai_vectors(VECTORS[:1])), "upstream_bad_response", 502),
    "length": (whole(openai_vectors([[1.0], [1.0]])), "upstream_bad_response", 502),
    "error with 200": (whole(b'{"error":{"message":"x","type":"server_error"}}'), "upstream_server_error", 502),
}


@pytest.mark.parametrize(("steps", "code", "status"), FAILURES.values(), ids=FAILURES.keys())
async def test_a_failure_is_an_error_and_costs_nothing(steps: list[Step], code: str, status: int) -> None:
    async with gateway_to(steps) as (gate, _):
        reply = await embed(gate, dimensions=3)
        assert (reply.status, error_of(reply)["code"]) == (status, code)
        (record,) = await gate.settled()
        assert (record.error, record.usage) == (code, None)


@pytest.mark.parametrize("name", ["401", "429", "500", "cut", "reset", "count", "length", "half a body", "empty"])
async def test_another_target_answers_instead(name: str) -> None:
    async with ScriptedUpstream(FAILURES[name][0]) as sick, ScriptedUpstream(whole(openai_vectors())) as well:
        toml = providers(first=sick.base_url, second=well.base_url) + BOTH
        async with gateway(toml) as gate:
            assert vectors_of(await embed(gate, "either", dimensions=3)) == [list(vector) for vector in VECTORS]
            (record,) = await gate.settled()
            assert [attempt.error for attempt in record.attempts] == [FAILURES[name][1], None]
            assert record.usage is not None
            assert record.usage.prompt_tokens == 6, "of one attempt"


LATER = {name: FAILURES[name] for name in ("400", "429", "500", "reset", "redirect")}


@pytest.mark.parametrize(("steps", "code", "status"), LATER.values(), ids=LATER.keys())
async def test_one_call_of_many_that_fails_fails_all(steps: list[Step], code: str, status: int) -> None:
    vectors = whole(openai_vectors([[1.0]] * 96))
    async with gateway_to(in_turn(vectors, steps, *[steps] * 2), kind="cohere") as (gate, up):
        reply = await embed(gate, input=["x"] * 200)
        assert (reply.status, error_of(reply)["code"]) == (status, code)
        (record,) = await gate.settled()
        assert (record.error, record.usage) == (code, None)
        assert len(up.requests) >= 2


async def test_a_long_refusal_of_a_later_call_is_not_collected() -> None:
    refusal: list[Step] = [Head(500, JSON), Flood(b"x" * 4096)]
    script = in_turn(whole(openai_vectors([[1.0]] * 96)), refusal, refusal, refusal)
    async with gateway_to(script, kind="cohere") as (gate, _):
        assert error_of(await embed(gate, input=["x"] * 97))["code"] == "upstream_server_error"


async def test_a_caller_that_leaves_ends_every_call() -> None:
    async with gateway_to([Hang()], kind="vertex", provider=VERTEX) as (gate, up):
        client = await gate.connect()
        body = json.dumps({"model": "up/gemini-embedding-001", "input": ["x"] * 9}).encode()
        await client.send(chat_request(path=PATH, body=body))
        await up.seen(4)
        client.close()
        await up.aborted(4)
        (record,) = await gate.settled()
        assert (record.verdict, record.status) == ("client_gone", 499)


async def test_a_timeout_counts_the_prompt() -> None:
    async with gateway_to([Hang()], "[server.timeouts]\ntotal_s = 0.2\n") as (gate, _):
        reply = await embed(gate, input=["x" * 400])
        assert (reply.status, error_of(reply)["code"]) == (504, "stream_deadline_exceeded")
        (record,) = await gate.settled()
        assert record.usage is not None
        assert record.usage.prompt_tokens == 100, "it was sent: the provider may bill it"


async def test_calls_that_were_not_made_are_not_billed() -> None:
    """The caller leaves during the second of three calls. No other provider could stop billing by it, so nothing is
    read on: no further call is made."""
    script = in_turn(whole(openai_vectors([[1.0]] * 10, 10)), [Hang()])
    async with gateway_to(script, kind="alibaba") as (gate, up):
        client = await gate.connect()
        body = json.dumps({"model": "up/m", "input": ["x" * 400] * 30}).encode()
        await client.send(chat_request(path=PATH, body=body))
        await up.seen(2)
        client.close()
        await up.aborted(1)
        (record,) = await gate.settled()
        assert (record.verdict, len(up.requests)) == ("client_gone", 2)
        assert record.usage is not None
        assert record.usage.prompt_tokens == pytest.approx(2000, abs=2)
        assert record.usage_source == "estimate"


async def test_unreported_usage_is_counted() -> None:
    body = {"embeddings": [{"values": [1.0, 2.0]}, {"values": [3.0, 4.0]}]}
    async with gateway_to(whole(json.dumps(body).encode()), kind="gemini") as (gate, _):
        reply = await embed(gate, "up/gemini-embedding-001", input=["word " * 20, "x"])
        assert len(vectors_of(reply)) == 2
        (record,) = await gate.settled()
        assert record.usage is not None
        assert json.loads(reply.body)["usage"]["prompt_tokens"] == record.usage.prompt_tokens == 26
        assert record.usage_source == "estimate"


async def test_an_answer_makes_a_target_healthy_again() -> None:
    async with gateway_to(in_turn(FAILURES["500"][0], whole(openai_vectors()))) as (gate, _):
        assert len(vectors_of(await embed(gate))) == 2
        (record,) = await gate.settled()
        assert [attempt.error for attempt in record.attempts] == ["upstream_server_error", None]
        health = gate.gateway.runtime.router.health_of(Candidate(TargetId("up", "m")))
        assert health is not None
        assert health._failures == 0


async def test_the_end_of_the_process_ends_every_call() -> None:
    async with gateway_to([Hang()], kind="vertex", provider=VERTEX) as (gate, up):
        asking = asyncio.create_task(embed(gate, "up/gemini-embedding-001", input=["x"] * 9))
        await up.seen(4)
        gate.gateway.end_streams(GatewayFault("server_shutting_down", "The gateway is shutting down."))
        reply = await asking
        assert (reply.status, error_of(reply)["code"]) == (503, "server_shutting_down")
        await up.aborted(4)


async def test_an_own_vocabulary_counts_exactly() -> None:
    async with gateway_to(whole(openai_vectors(tokens=None))) as (gate, _):
        await embed(gate, "up/text-embedding-3-small", input=["hello world", "x"])
        (record,) = await gate.settled()
        assert record.usage_source in ("tokenizer", "estimate"), "the first is counted before the vocabulary is loaded"


@pytest.mark.parametrize(("kind", "status"), [("anthropic", 400), ("groq", 400), ("xai", 400)])
async def test_a_provider_without_embeddings_is_not_called(kind: str, status: int) -> None:
    async with gateway_to([Hang()], kind=kind) as (gate, up):
        reply = await embed(gate)
        assert (reply.status, error_of(reply)["code"], error_of(reply)["param"]) == (status, "invalid_value", "model")
        assert up.requests == []


async def test_a_target_without_embeddings_is_left_out() -> None:
    async with ScriptedUpstream([Hang()]) as first, ScriptedUpstream(whole(openai_vectors())) as second:
        toml = providers("groq", first=first.base_url) + providers(second=second.base_url) + BOTH
        async with gateway(toml) as gate:
            assert len(vectors_of(await embed(gate, "either"))) == 2
            assert (len(first.requests), len(second.requests)) == (0, 1)


async def test_the_embedded_model_has_none() -> None:
    class Nobody:
        async def open(self, *_: object) -> Any:
            raise UpstreamError("upstream_connect_failed", "never called")

        async def close(self) -> None: ...

    async with gateway('[[providers]]\nname = "local"\nkind = "local"\n', open_local=lambda _: Nobody()) as gate:
        reply = await embed(gate, "local/smollm2")
        assert (reply.status, error_of(reply)["code"]) == (404, "model_not_found")
        assert "has no embeddings" in error_of(reply)["message"]


async def test_tokens_are_refused_before_the_provider_is_asked() -> None:
    async with gateway_to([Hang()], kind="gemini") as (gate, up):
        reply = await embed(gate, input=[[1], [2]])
        assert (reply.status, error_of(reply)["param"]) == (400, "input[0]")
        assert up.requests == []


@pytest.mark.parametrize("members", [{"input": ""}, {"input": ["x"] * 2049}, {"stream": True}])
async def test_a_bad_request_is_refused(members: dict[str, Any]) -> None:
    async with gateway_to([Hang()]) as (gate, up):
        reply = await embed(gate, **members)
        assert (reply.status, error_of(reply)["type"]) == (400, "invalid_request_error")
        assert up.requests == []


async def test_the_simulator_makes_vectors_of_a_fixed_hash() -> None:
    async with nothing_left(), gateway(SIM) as gate:
        first = vectors_of(await embed(gate, "sim/embed", input=["a", "b", "a"]))
        assert first[0] == first[2] != first[1]
        assert [round(sum(number * number for number in vector), 5) for vector in first] == [1, 1, 1]
        assert first[0][:2] == pytest.approx([0.0, 0.0], abs=0.5)
        again = vectors_of(await embed(gate, "sim/embed", input="a", encoding_format="base64"))
        assert again == first[:1]
        short = vectors_of(await embed(gate, "sim/embed", input=[[1, 2], [3]], dimensions=4))
        assert [len(vector) for vector in short] == [4, 4]
        reply = await embed(gate, "sim/embed?usage=none", input="some words here")
        assert json.loads(reply.body)["usage"]["prompt_tokens"] == 4, "counted by the rule of thumb"
        for model, dimensions in (("sim/echo", 4), ("sim/embed", 4097), ("sim/embed?x=1", 4)):
            assert (await embed(gate, model, dimensions=dimensions)).status == 400
        assert (await gate.ask(model="sim/embed")).status == 400, "it does not talk"


async def test_a_large_answer_is_read_elsewhere_and_is_the_same() -> None:
    vectors = [[float(i), *[0.123456789] * 255] for i in range(500)]
    async with gateway_to(whole(openai_vectors(vectors, 500))) as (gate, _):
        for encoding in ("float", "base64"):
            reply = await embed(gate, input=["x"] * 500, encoding_format=encoding, dimensions=256)
            found = vectors_of(reply)
            assert [vector[0] for vector in found] == list(range(500))
            assert found[0][1] == pytest.approx(0.123456789)
        records = await gate.settled(2)
        assert [record.usage.prompt_tokens for record in records if record.usage is not None] == [500, 500]


async def test_a_large_answer_that_is_wrong() -> None:
    vectors = [[float(i), *[0.123456789] * 255] for i in range(499)]
    async with gateway_to(whole(openai_vectors(vectors, 500))) as (gate, _):
        reply = await embed(gate, input=["x"] * 500)
        assert (reply.status, error_of(reply)["code"]) == (502, "upstream_bad_response")


async def test_an_answer_beyond_the_limit_is_not_collected() -> None:
    limit = "[server.limits]\nresponse_bytes = 100000\n"
    async with gateway_to([Head(200, JSON), Send(b"{"), Flood(b" " * 4096)], limit) as (gate, _):
        reply = await embed(gate)
        assert (reply.status, error_of(reply)["code"]) == (502, "response_too_large")
