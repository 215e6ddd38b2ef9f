"""Vertex AI through the gateway: Google checks the tokens, and every wire of the one provider is asked with them."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from streamweir.config.error import ConfigError
from streamweir.core.errors import GatewayFault
from support.answers import (
    TEXTS,
    anthropic_error_body,
    anthropic_stream,
    anthropic_whole,
    gemini_error_body,
    gemini_stream,
    openai_stream,
)
from support.gateway import Gate, chat_request, configured, gateway, nothing_left, until
from support.google_server import Google, service_account, write_file
from support.messages import ask
from support.script import Hang, Seen, Step, stream, whole
from support.scripted_upstream import ScriptedUpstream

CLAUDE = "up/claude-sonnet-4-5@20250929"
FOLDER = "/v1/projects/acme/locations/us-east5"
PATH = f"{FOLDER}/publishers/anthropic/models/claude-sonnet-4-5@20250929"


def vertex(up: ScriptedUpstream, file: str, more: str = "") -> str:
    return (
        f'[[providers]]\nname = "up"\nkind = "vertex"\nbase_url = "{up.base_url}"\nproject = "acme"\n'
        f'location = "us-east5"\ngoogle = {{ credentials_file = "{file}" }}\n{more}'
    )


@asynccontextmanager
async def vertex_gateway(
    folder: Path, known: Google | None = None, more: str = ""
) -> AsyncIterator[tuple[Gate, Google, ScriptedUpstream, str]]:
    known = known or Google()
    async with nothing_left(), ScriptedUpstream(known.script) as up:
        known.base_url = up.base_url.removesuffix("/v1")
        toml = vertex(up, write_file(folder, service_account(known.base_url)), more)
        async with gateway(toml) as gate:
            yield gate, known, up, toml
            await gate.vacated()


def answers(request: Seen) -> Sequence[Step]:
    if "streamRawPredict" in request.path:
        return stream(anthropic_stream())
    if "count-tokens" in request.path:
        return whole(b'{"input_tokens": 77}')
    if "rawPredict" in request.path:
        return whole(anthropic_whole())
    if "streamGenerateContent" in request.path:
        return stream(gemini_stream())
    if "openapi" in request.path:
        return stream(openai_stream())
    assert "text-embedding-005:predict" in request.path
    values = {"values": [1.0, 2.0], "statistics": {"token_count": 3}}
    return whole(json.dumps({"predictions": [{"embeddings": values}]}).encode())


async def test_every_wire_of_one_provider_with_one_token(tmp_path: Path) -> None:
    async with vertex_gateway(tmp_path, Google(answer=answers)) as (gate, known, up, _):
        headers = (
            ("anthropic-beta", "context-1m-2025-08-07,web-fetch-2025-09-10"),
            ("anthropic-version", "2026-10-21"),
        )
        passed = await ask(gate, model=CLAUDE, headers=headers)
        assert passed.body == anthropic_stream(), "the bytes of the same API are passed on unchanged"
        assert passed.header("x-streamweir-dropped") == "anthropic-beta.web-fetch-2025-09-10"
        counted = await gate.ask(path="/v1/messages/count_tokens", model=CLAUDE)
        assert json.loads(counted.body) == {"input_tokens": 77}
        for model in (CLAUDE, "up/gemini-2.5-pro", "up/meta/llama-4-maverick-maas"):
            reply = await gate.ask(model=model, stream=True)
            assert reply.status == 200, reply.body
            assert "".join(TEXTS) in "".join(_texts(reply.body))
        whole_reply = await gate.ask(model=CLAUDE)
        assert json.loads(whole_reply.body)["choices"][0]["message"]["content"] == "".join(TEXTS)
        vectors = await gate.ask(path="/v1/embeddings", body=b'{"model": "up/text-embedding-005", "input": "x"}')
        assert json.loads(vectors.body)["data"][0]["embedding"] == [1.0, 2.0]
        records = await gate.settled(6)
        assert {record.verdict for record in records} == {"completed"}
        assert all(record.usage_source == "provider" for record in records)
        assert [request.path for request in up.requests] == [
            "/token",
            f"{PATH}:streamRawPredict",
            f"{FOLDER}/publishers/anthropic/models/count-tokens:rawPredict",
            f"{PATH}:streamRawPredict",
            f"{FOLDER}/publishers/google/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
            f"{FOLDER}/endpoints/openapi/chat/completions",
            f"{PATH}:rawPredict",
            f"{FOLDER}/publishers/google/models/text-embedding-005:predict",
        ]
        first = up.requests[1]
        assert first.json["anthropic_version"] == "vertex-2023-10-16"
        assert "model" not in first.json
        assert first.headers["anthropic-beta"] == "context-1m-2025-08-07"
        assert "anthropic-version" not in first.headers
        assert known.tokens == ["ya29.a0-token-0"]


def _texts(body: bytes) -> list[str]:
    lines = [line[6:] for line in body.decode().splitlines() if line.startswith("data: {")]
    return [choice["delta"].get("content") or "" for line in lines for choice in json.loads(line).get("choices", [])]


async def test_a_revoked_token_is_replaced_and_the_request_sent_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A value that was just fetched is not replaced.
    monkeypatch.setattr("streamweir.upstream.credential._RENEWAL_PAUSE_S", 0.0)
    monkeypatch.setattr("streamweir.upstream.credential._RENEWED_S", 0.0)
    go = asyncio.Event()

    async def wait(_: object) -> None:
        await go.wait()

    async with vertex_gateway(tmp_path, Google(answer=answers)) as (gate, known, up, _):
        assert (await ask(gate, model=CLAUDE)).status == 200
        known.revoked.add(known.tokens[0])
        known.steps = lambda _: [wait]
        # All of them are refused, and wait for one new token.
        asking = [asyncio.create_task(ask(gate, model=CLAUDE)) for _ in range(5)]
        await until(lambda: up.served == 7)
        await gate.has_read()
        go.set()
        replies = await asyncio.gather(*asking)
        assert [reply.body for reply in replies] == [anthropic_stream()] * 5
        assert len(known.tokens) == 2
        records = await gate.settled(6)
        assert {len(record.attempts) for record in records} == {1}, "a new token is no new attempt"
        # A project that refuses every token is told so, with what to do.
        known.answer = lambda _: whole(
            gemini_error_body("Request had invalid credentials.", 401, "UNAUTHENTICATED"), 401
        )
        asked = len(up.requests)
        reply = await ask(gate, model=CLAUDE, stream=False)
        assert reply.status == 502
        error = json.loads(reply.body)["error"]
        assert "Google does not accept the gateway's access token" in error["message"]
        assert [request.path == "/token" for request in up.requests[asked:]] == [False, True, False], "once more"
        await gate.settled(7)


async def test_a_token_service_that_refuses_or_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Google(answer=answers, refuses=(400, "invalid_grant"))
    async with vertex_gateway(tmp_path, known) as (gate, _, up, toml):
        reply = await gate.ask(model=CLAUDE)
        error = json.loads(reply.body)["error"]
        assert (reply.status, error["code"]) == (502, "upstream_auth_failed")
        assert "(invalid_grant)" in error["message"]
        assert "check that the account and its key exist" in error["message"]
        assert len(up.requests) == 1, "nothing was sent to the model"
        known.refuses, known.steps = None, lambda _: [Hang()]
        monkeypatch.setattr("streamweir.upstream.cloud.google._TIMEOUT_S", 0.05)
        gate.gateway.reload(configured(toml.replace("us-east5", "global")))
        reply = await gate.ask(model=CLAUDE)
        error = json.loads(reply.body)["error"]
        assert (reply.status, error["code"]) == (504, "upstream_timeout")
        assert error["message"] == "Google's token service gave no credential: it did not answer in time."
        (first, second) = await gate.settled(2)
        assert (first.error, second.error) == ("upstream_auth_failed", "upstream_timeout")
        assert (first.usage, second.usage) == (None, None)


async def test_a_caller_who_leaves_while_the_token_service_hangs(tmp_path: Path) -> None:
    go = asyncio.Event()

    async def wait(_: object) -> None:
        await go.wait()

    known = Google(answer=answers, steps=lambda _: [wait])
    async with vertex_gateway(tmp_path, known) as (gate, _, up, _):
        async with await gate.connect() as client:
            await client.send(chat_request(model=CLAUDE))
            await up.seen(1)
        (record,) = await gate.settled()
        assert (record.verdict, record.usage) == ("client_gone", None)
        staying = asyncio.create_task(ask(gate, model=CLAUDE))
        await gate.has_read()
        go.set()
        assert (await staying).status == 200, "the refresh goes on for others"
        assert [request.path for request in up.requests] == ["/token", f"{PATH}:streamRawPredict"]
        await gate.settled(2)
    async with vertex_gateway(tmp_path, Google(steps=lambda _: [Hang()])) as (gate, _, up, _):
        async with await gate.connect() as client:
            await client.send(chat_request(model=CLAUDE))
            await up.seen(1)
        await gate.settled()  # and the refresh, for which nobody waits, ends with the gateway


async def test_a_reload_keeps_the_token_and_a_key_ends_its_use(tmp_path: Path) -> None:
    async with vertex_gateway(tmp_path, Google(answer=answers)) as (gate, known, up, toml):
        await ask(gate, model=CLAUDE)
        gate.gateway.reload(configured(f'{toml}[[models]]\nid = "m"\ntargets = [{{ provider = "up", model = "x" }}]\n'))
        await ask(gate, model=CLAUDE)
        assert len(known.tokens) == 1
        known.tokens.append("ya29.of-the-file")
        line = next(line for line in toml.splitlines() if line.startswith("google"))
        gate.gateway.reload(configured(toml.replace(line, 'api_key = "ya29.of-the-file"')))
        assert (await ask(gate, model=CLAUDE)).status == 200
        assert up.requests[-1].headers["authorization"] == "Bearer ya29.of-the-file"
        await gate.settled(3)


async def test_a_reload_and_a_stop_while_a_token_is_fetched(tmp_path: Path) -> None:
    """A request keeps the provider with which it began, and gets its token; one that is cut leaves nothing."""
    go = asyncio.Event()

    async def wait(_: object) -> None:
        await go.wait()

    known = Google(answer=answers, steps=lambda _: [wait])
    async with vertex_gateway(tmp_path, known) as (gate, _, up, toml):
        first = asyncio.create_task(ask(gate, model=CLAUDE))
        await up.seen(1)
        gate.gateway.reload(configured(toml.replace("us-east5", "global")))
        second = asyncio.create_task(ask(gate, model=CLAUDE))
        await up.seen(2)
        go.set()
        assert ((await first).status, (await second).status) == (200, 200)
        paths = sorted(request.path.partition("/publishers")[0] for request in up.requests)
        folder = "/v1/projects/acme/locations"
        assert paths == ["/token", "/token", f"{folder}/global", f"{folder}/us-east5"]
        await gate.settled(2)
    async with vertex_gateway(tmp_path, Google(steps=lambda _: [Hang()])) as (gate, _, up, _):
        waiting = asyncio.create_task(ask(gate, model=CLAUDE))
        await up.seen(1)
        gate.gateway.end_streams(GatewayFault("server_shutting_down", "The server is shutting down."))
        assert (await waiting).status == 503
        (record,) = await gate.settled()
        assert (record.error, record.usage) == ("server_shutting_down", None)


async def test_errors_of_claude_are_anthropics_for_callers_of_the_same_api(tmp_path: Path) -> None:
    known = Google(answer=lambda _: whole(anthropic_error_body("prompt is too long", "invalid_request_error"), 400))
    async with vertex_gateway(tmp_path, known) as (gate, _, _, _):
        reply = await ask(gate, model=CLAUDE)
        assert (reply.status, json.loads(reply.body)["error"]) == (
            400,
            {"type": "invalid_request_error", "message": "prompt is too long"},
        )
        known.answer = lambda _: whole(
            json.dumps(
                [{"error": {"code": 404, "status": "NOT_FOUND", "message": "Publisher Model `x` was not found"}}]
            ).encode(),
            404,
        )
        reply = await gate.ask(model=CLAUDE)
        error = json.loads(reply.body)["error"]
        assert error["code"] == "upstream_model_not_found"
        assert "set a location where it is served" in error["message"]
        # What quotes the token is masked.
        known.answer = lambda request: whole(
            gemini_error_body(f"no {request.headers['authorization']} - {known.tokens[0]}!", 400),
            400,
        )
        reply = await gate.ask(model=CLAUDE)
        assert json.loads(reply.body)["error"]["message"] == "no *** - ***!"
        *_, record = await gate.settled(3)
        assert known.tokens[0] not in repr(record)


@pytest.mark.parametrize(
    ("table", "where", "reason"),
    [
        ('source = "file"', "google.credentials_file", 'missing: the source "file" needs it'),
        ('source = "metadata", credentials_file = "x"', "google.credentials_file", "has no effect with the source"),
        ('token_url = "http://example.com/token"', "google.token_url", "must begin with https://"),
        ('token_url = "nowhere"', "google.token_url", "must begin with https:// or http://"),
        ('metadata_url = "ftp://x"', "google.metadata_url", "must begin with http:// or https://"),
    ],
)
def test_settings_that_cannot_be(table: str, where: str, reason: str) -> None:
    with pytest.raises(ConfigError) as raised:
        configured(f'[[providers]]\nname = "up"\nkind = "vertex"\nproject = "p"\ngoogle = {{ {table} }}\n')
    assert f"providers.up.{where}: {reason}" in str(raised.value)


async def test_a_file_that_cannot_be_used_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{}")
    for file, reason in (("missing.json", "cannot be read"), ("broken.json", "of a known kind")):
        toml = '[[providers]]\nname = "up"\nkind = "vertex"\nproject = "p"\n'
        toml += f'google.credentials_file = "{tmp_path}/{file}"\n'
        with pytest.raises(ConfigError, match=reason):
            async with gateway(toml):
                pass


def test_a_key_and_a_table_exclude_each_other() -> None:
    toml = '[[providers]]\nname = "up"\nkind = "vertex"\nproject = "p"\napi_key = "k-0123456789abcdef"\ngoogle = {}\n'
    with pytest.raises(ConfigError, match="has no effect with a key"):
        configured(toml)
    with pytest.raises(ConfigError, match="does not apply to the kind"):
        configured('[[providers]]\nname = "up"\nkind = "openai"\ngoogle = {}\n')
