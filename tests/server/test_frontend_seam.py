"""An API that the gateway has never seen: one class, put into the table, and everything else works for it.

The frontend below shares nothing with chat completions: another path, another request, frames that are lines of
JSON, errors of another shape. A real gateway serves it on a real socket; no line of the pipeline or of the server
is there for it.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from streamweir.core.completion import Completion
from streamweir.core.errors import CallerError, StreamweirError
from streamweir.core.events import Event, StreamCompleted, StreamFailed, TextDelta
from streamweir.core.request import ChatRequest, read_request
from streamweir.frontends.base import ErrorResponse, Frontend, Reply, WholeBody
from streamweir.frontends.model_list import ListedModel
from streamweir.frontends.table import FRONTENDS
from streamweir.wire.jsonio import encode
from support.accounting_gateway import keeping
from support.answers import TEXTS, anthropic_stream, error_body, openai_stream, openai_whole
from support.gateway import KEY, Gate, chat_request, gateway_to
from support.raw_client import Reply as Response
from support.script import End, Fin, Head, Send, Step, Wait, stream, whole

# The frontend.


class LinesEncoder:
    def __init__(self, completion_id: str) -> None:
        self.completion_id = completion_id

    def begin(self) -> list[bytes]:
        return []

    def feed(self, event: Event, /) -> list[bytes]:
        if isinstance(event, TextDelta):
            return [encode({"text": event.text}) + b"\n"]
        if isinstance(event, StreamCompleted):
            return [encode({"end": self.completion_id}) + b"\n"]
        return [encode({"failed": event.error.code}) + b"\n"] if isinstance(event, StreamFailed) else []


class Lines(Frontend):
    name, paths, keep_alive = "lines", ("/lines",), b"\n"
    prefix, client_header = "lines", "x-lines-version"
    stream_headers = (("content-type", "application/x-ndjson"),)

    def parse(self, document: dict[str, Any], headers: Mapping[str, str], /) -> ChatRequest:
        if "question" not in document:
            raise CallerError("missing_required_parameter", "There is no question.", param="question")
        question = {"role": "user", "content": document["question"]}
        stream = headers.get("accept") == "application/x-ndjson"
        return read_request({"model": document["to"], "messages": [question], "stream": stream})

    def make_id(self, entropy: bytes, /) -> str:
        return f"lines-{entropy.hex()[:16]}"

    def write_models(self, models: Sequence[ListedModel], query: str, /) -> dict[str, Any]:
        if not query:
            raise CallerError("missing_required_parameter", "There is no query.", param="query")
        return {"all": [model.id for model in models], "query": query}

    def write_model(self, model: ListedModel, /) -> dict[str, Any]:
        return {"one": model.id, "reads": model.context_window, "writes": model.max_output_tokens}

    def encoder(self, reply: Reply, /) -> LinesEncoder:
        return LinesEncoder(reply.id)

    def write_whole(self, completion: Completion, reply: Reply, /) -> WholeBody:
        return WholeBody(reply.id, encode({"text": completion.choices[0].text, "end": reply.id}))

    def write_error(self, error: StreamweirError, _: str = "", /) -> ErrorResponse:
        return ErrorResponse(error.spec.status, encode({"failed": error.code, "where": error.param}))


# It is served.


@pytest.fixture(autouse=True)
def lines() -> Iterator[None]:
    frontend = Lines()
    FRONTENDS.add(frontend)
    yield
    FRONTENDS.remove(frontend)


def question(*, streamed: bool = True, key: str | None = KEY, **members: Any) -> bytes:
    accept = "application/x-ndjson" if streamed else "application/json"
    body = json.dumps({"to": "up/m", "question": "Say hello.", **members}).encode()
    return chat_request(path="/lines", key=key, headers=(("accept", accept),), body=body)


async def ask(gate: Gate, request: bytes) -> Response:
    async with await gate.connect() as client:
        await client.send(request)
        return await client.response()


def documents(body: bytes) -> list[Any]:
    assert body.endswith(b"\n")
    return [json.loads(line) for line in body.split(b"\n") if line]


@pytest.mark.parametrize(("kind", "body"), [("openai", openai_stream()), ("anthropic", anthropic_stream())])
async def test_a_stream_is_written_in_its_own_frames(kind: str, body: bytes) -> None:
    async with gateway_to(stream(body), kind=kind) as (gate, up):
        reply = await ask(gate, question())
        assert (reply.status, reply.header("content-type")) == (200, "application/x-ndjson")
        *texts, end = documents(reply.body)
        assert texts == [{"text": text} for text in TEXTS]
        (spec,) = await gate.settled()
        assert end == {"end": spec.completion_id}
        assert (spec.dialect, spec.path, spec.verdict, spec.stream) == ("lines", "/lines", "completed", True)
        (request,) = up.requests
        assert request.json["messages"][0]["content"] in ("Say hello.", [{"type": "text", "text": "Say hello."}])


async def test_an_answer_that_is_not_streamed_is_written_by_it_too() -> None:
    async with gateway_to(whole(openai_whole())) as (gate, _):
        reply = await ask(gate, question(streamed=False))
        document = json.loads(reply.body)
        (spec,) = await gate.settled()
        assert document == {"text": "".join(TEXTS), "end": spec.completion_id}
        assert document["end"].startswith("lines-")
        assert (spec.dialect, spec.verdict, spec.stream) == ("lines", "completed", False)


async def test_an_error_of_the_upstream_before_the_first_byte_has_its_shape() -> None:
    async with gateway_to(whole(error_body("no", "invalid_request_error"), 400)) as (gate, _):
        reply = await ask(gate, question())
        assert (reply.status, reply.header("x-should-retry")) == (400, "false")
        assert json.loads(reply.body).keys() == {"failed", "where"}
        (spec,) = await gate.settled()
        assert (spec.dialect, spec.error) == ("lines", json.loads(reply.body)["failed"])


@pytest.mark.parametrize("end", [End(), Fin()], ids=["ended", "cut"])
async def test_a_stream_that_breaks_off_does_not_look_complete(end: Step) -> None:
    begun = openai_stream(TEXTS[:2], usage=None, finish=None, done=False)
    async with gateway_to([Head(), Send(begun), end]) as (gate, _):
        *texts, last = documents((await ask(gate, question())).body)
        (spec,) = await gate.settled()
        assert texts == [{"text": text} for text in TEXTS[:2]]
        assert last == {"failed": spec.error}
        assert (spec.dialect, spec.verdict) == ("lines", "truncated")


@pytest.mark.parametrize("key", [None, "sk-nobody-0123456789abcdef"])
async def test_a_refusal_at_admission_has_its_shape(key: str | None) -> None:
    async with gateway_to([]) as (gate, _):
        reply = await ask(gate, question(key=key))
        code = "missing_api_key" if key is None else "invalid_api_key"
        assert (reply.status, json.loads(reply.body)) == (401, {"failed": code, "where": None})
        assert reply.header("www-authenticate") == "Bearer"
        (spec,) = await gate.settled()
        assert (spec.dialect, spec.status, spec.verdict, spec.error) == ("lines", 401, "rejected", code)


@pytest.mark.parametrize("padding", [0, 100_000], ids=["on the loop", "in a thread"])
async def test_errors_in_a_body_have_the_format_of_the_api(padding: int) -> None:
    async with gateway_to([]) as (gate, _):
        body = json.dumps({"to": "up/m", "more": "x" * padding}).encode()
        reply = await ask(gate, chat_request(path="/lines", body=body))
        assert reply.status == 400
        assert json.loads(reply.body) == {"failed": "missing_required_parameter", "where": "question"}
        await gate.settled()


async def test_silence_is_filled_with_its_own_bytes() -> None:
    more, begun = asyncio.Event(), openai_stream(TEXTS[:1], usage=None, finish=None, done=False)
    script: list[Step] = [Head(), Send(begun), Wait(more), Send(openai_stream(TEXTS[1:])), End()]
    async with gateway_to(script, "[server.timeouts]\nkeepalive_s = 0.02\n") as (gate, _):
        async with await gate.connect() as client:
            await client.send(question())
            await client.head()
            assert [await client.chunk(), await client.chunk()] == [b'{"text":"Hello"}\n', b"\n"]
            more.set()
            rest = []
            while chunk := await client.chunk():
                rest.append(chunk)
        assert documents(b"".join(rest))[-1].keys() == {"end"}
        await gate.settled()


async def test_silence_is_filled_as_often_as_its_clients_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lines, "max_quiet_s", 0.02)
    more, begun = asyncio.Event(), openai_stream(TEXTS[:1], usage=None, finish=None, done=False)
    script: list[Step] = [Head(), Send(begun), Wait(more), Send(openai_stream(TEXTS[1:])), End()]
    async with gateway_to(script, "[server.timeouts]\nkeepalive_s = 600\n") as (gate, _):
        async with await gate.connect() as client:
            await client.send(question())
            await client.head()
            assert [await client.chunk(), await client.chunk()] == [b'{"text":"Hello"}\n', b"\n"]
            more.set()
            while await client.chunk():
                pass
        await gate.settled()


async def test_its_name_is_in_the_request_log(tmp_path: Path) -> None:
    async with keeping(stream(openai_stream()), tmp_path) as setup:
        secret = await setup.new_key("ci", dialect="aivene")  # what a key says is for paths that dialects share
        reply = await ask(setup.gate, question(key=secret, to="m"))
        row = await setup.row()
        assert (row.dialect, row.status, row.verdict) == ("lines", 200, "completed")
        assert documents(reply.body)[-1] == {"end": row.completion_id}


async def test_the_other_frontends_answer_as_before_beside_it() -> None:
    async with gateway_to(stream(openai_stream())) as (gate, _):
        assert (await gate.ask(model="up/m", stream=True)).body.endswith(b"data: [DONE]\n\n")
        (spec,) = await gate.settled()
        assert spec.dialect == "openai"
    assert "lines" not in FRONTENDS.dialects, "no key can choose an API that has a path of its own"


async def get(gate: Gate, path: str, *headers: str, key: str = KEY) -> Response:
    async with await gate.connect() as client:
        lines = [f"GET {path} HTTP/1.1", "host: gateway", f"authorization: Bearer {key}", *headers, "", ""]
        await client.send("\r\n".join(lines).encode())
        return await client.response()


ALIAS = '[[models]]\nid = "a"\ntargets = [{ provider = "up", model = "gpt-4o" }]\n'
ITS_CLIENT = "x-lines-version: 1"


@pytest.mark.parametrize(("path", "headers"), [("/lines/v1", ()), ("/v1", (ITS_CLIENT,)), ("/lines/v1", (ITS_CLIENT,))])
async def test_it_lists_models_below_its_prefix_and_for_clients_with_its_header(path: str, headers: tuple[str]) -> None:
    async with gateway_to(whole(openai_whole()), ALIAS) as (gate, _):
        assert json.loads((await get(gate, f"{path}/models?x=1", *headers)).body) == {"all": ["a"], "query": "x=1"}
        assert json.loads((await get(gate, f"{path}/models/a", *headers)).body) == {
            "one": "a",
            "reads": 128_000,
            "writes": 16_384,
        }
        refused = await get(gate, f"{path}/models", *headers)
        assert (refused.status, json.loads(refused.body)["where"]) == (400, "query")
        unknown = await get(gate, f"{path}/models/b", *headers)
        assert (unknown.status, json.loads(unknown.body)["failed"]) == (404, "model_not_found")
        assert json.loads((await get(gate, f"{path}/other", *headers)).body)["failed"] == "unknown_url"
        wrong = await get(gate, f"{path}/models", *headers, key="sk-wrong")
        assert (wrong.status, json.loads(wrong.body)["failed"]) == (401, "invalid_api_key")
        assert {record.dialect for record in await gate.settled(6)} == {"lines"}


async def test_its_header_changes_nothing_for_another_api() -> None:
    async with gateway_to(whole(openai_whole()), ALIAS) as (gate, _):
        request = chat_request(model="a", headers=(("x-lines-version", "1"),))
        assert json.loads((await ask(gate, request)).body)["object"] == "chat.completion"
        for path in ("/v1/models", "/opentoken/v1/models"):
            headers = (ITS_CLIENT,) if path.startswith("/opentoken") else ()
            assert json.loads((await get(gate, path, *headers)).body)["object"] == "list"
