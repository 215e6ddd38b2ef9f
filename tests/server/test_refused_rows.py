"""Requests without a valid key: each is found by its id, by operators alone, and of a flood a part is recorded."""

import asyncio
import io
import json
from functools import partial
from pathlib import Path

from click.testing import CliRunner

from streamweir.cli.main import main
from streamweir.policy.refusal_quota import PER_ADDRESS, WINDOW_S
from streamweir.server.telemetry.log import close_log, configure_log
from streamweir.store.requests.requests import find_request
from support.accounting_gateway import AccountingSetup, keeping
from support.answers import openai_frames, token_steps
from support.fleet import metric
from support.gateway import chat_request
from support.raw_client import Reply
from support.script import in_turn

STRANGER = "sk-sw-nobody-has-ever-had-this-one"
PROMPT = "canary of a prompt that nobody may read"


async def send(setup: AccountingSetup, request: bytes) -> Reply:
    async with await setup.gate.connect() as client:
        await client.send(request)
        return await client.response()


async def test_every_refusal_is_found_by_its_id(tmp_path: Path) -> None:
    async with keeping(in_turn(), tmp_path) as setup:
        secret = await setup.new_key(rpm=1)
        requests = {
            "missing_api_key": chat_request(key=None, model="m", messages=[{"role": "user", "content": PROMPT}]),
            "invalid_api_key": chat_request(key=STRANGER, path="/v1/messages", model="m"),
            "unknown_url": b"POST /v1/nothing HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n",
            "method_not_allowed": b"PUT /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n",
            "unsupported_media_type": chat_request(key=secret).replace(b"application/json", b"text/plain"),
            "invalid_json": chat_request(key=secret, body=b"{"),
            "model_not_found": chat_request(key=secret, model="nobody/m"),
        }
        for code, request in requests.items():
            id = (await send(setup, request)).header("x-request-id")
            assert id is not None
            row = await setup.read(partial(find_request, id=id))
            assert row is not None, code
            assert (row.verdict, row.error, row.peer) == ("rejected", code, "127.0.0.1")
            assert (row.key_id is None) == (row.workspace_id is None) == (secret.encode() not in request), code
            of_workspace = await setup.read(partial(find_request, id=id, workspace_id="default"))
            assert (of_workspace is None) == (row.key_id is None), "only an operator sees a row without a key"
            if row.key_id is None:
                assert (row.model, row.bytes_in) == (None, 0), "nothing of the body was read"
        assert await setup.ledger() == []
        for path in ("/api/keys", "/nothing"):
            reply = await send(setup, f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
            assert reply.status in (401, 404)
        assert len(await setup.rows()) == len(requests), "the log has requests of the data plane alone"


async def test_a_refused_request_has_the_model_that_was_asked_for(tmp_path: Path) -> None:
    key_like = "sk-proj-0123456789abcdef"
    async with keeping(token_steps(openai_frames()), tmp_path) as setup:
        limited, no_chat = await setup.new_key(rpm=1), await setup.new_key("other", scopes=("models",))
        assert (await send(setup, chat_request(key=limited, model="up/m"))).status == 200
        requests = {
            "no such value": (chat_request(model="smart", temperature=9), "smart"),
            "no messages": (chat_request(model="smart", messages=[]), "smart"),
            "no such limit": (chat_request(path="/v1/messages", model="smart", max_tokens=0), "smart"),
            "not routed": (chat_request(model="nobody/m"), "nobody/m"),
            "a key in its place": (chat_request(model=key_like, temperature=9), "***"),
            "no JSON": (chat_request(body=b'{"model": "smart"'), None),
            "no name": (chat_request(body=b'{"model": 5}'), None),
            "no object": (chat_request(body=b'["model"]'), None),
            "deep": (chat_request(body=b"[" * 100_000), None),
            "limited by its head": (chat_request(key=limited, model="smart"), "smart"),
            "without the scope": (chat_request(key=no_chat, model="smart"), "smart"),
        }
        reasons = {
            "no such value": "Invalid value for 'temperature': Expected `float` <= 2.0.",
            "no JSON": "The request body is not valid JSON",
            "not routed": 'model "nobody/m" not found',
            "limited by its head": "requests per minute",
            "without the scope": "This key has no scope 'chat'.",
        }
        for name, (request, model) in requests.items():
            reply = await send(setup, request)
            id = reply.header("x-request-id")
            assert id is not None, name
            row = await setup.read(partial(find_request, id=id))
            assert row is not None, name
            assert (row.verdict, row.model) == ("rejected", model), name
            assert row.refusal is not None, name
            assert reasons.get(name, "") in row.refusal["message"], name
            assert name != "no such value" or row.refusal["param"] == "temperature"
            assert (row.parameters is None) == (name != "not routed"), name


async def test_a_body_that_has_not_arrived_is_not_waited_for(tmp_path: Path) -> None:
    async with keeping(in_turn(), tmp_path) as setup:
        request = chat_request(key=await setup.new_key(scopes=("models",)), model="smart")
        async with await setup.gate.connect() as client:
            await client.send(request[:-1])
            assert (await client.response()).status == 403
        (row,) = await setup.rows()
        assert row.model is None


async def test_a_list_of_models_has_no_row(tmp_path: Path) -> None:
    async with keeping(in_turn(), tmp_path) as setup:
        for path in ("/v1/models", "/v1/models/nobody"):
            await send(setup, chat_request(path=path, body=b"").replace(b"POST", b"GET"))
        assert [row.error for row in await setup.rows()] == ["model_not_found"]


async def test_a_flood_from_one_address_fills_neither_the_database_nor_the_log(tmp_path: Path) -> None:
    log, count = io.StringIO(), PER_ADDRESS + 15
    configure_log("json", log)
    async with keeping(in_turn(), tmp_path) as setup:
        for _ in range(count):
            assert (await send(setup, chat_request(key=STRANGER, model="m"))).status == 401
        assert len(await setup.rows()) == PER_ADDRESS
        assert len(setup.gate.records) == PER_ADDRESS
        assert metric(setup.gate, "requests_rejected_total") == count, "all are counted"
        early = setup.gate.gateway._early_responses
        early._quota._began -= WINDOW_S
        early.log_left_out()
        assert (await send(setup, chat_request(key=STRANGER, model="m"))).status == 401
        assert len(await setup.rows()) == PER_ADDRESS + 1, "in the next minute it is recorded again"
        for _ in range(PER_ADDRESS):
            await send(setup, chat_request(key=STRANGER, model="m"))
    close_log()
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    left_out = [line for line in lines if line["event"] == "requests without a valid key not recorded"]
    assert [(line["level"], line["count"], line["most"]) for line in left_out] == [
        ("warning", 15, [f"127.0.0.1: {count}"]),
        ("warning", 1, [f"127.0.0.1: {PER_ADDRESS + 1}"]),
    ], "the last one when the gateway stops"


async def test_the_command_line_finds_it(tmp_path: Path) -> None:
    async with keeping(in_turn(), tmp_path) as setup:
        id = (await setup.gate.ask(key=None, model="m")).header("x-request-id")
        assert id is not None
        assert len(await setup.rows()) == 1
        words, environ = ["logs", id], {"STREAMWEIR_DATA": str(tmp_path)}
        result = await asyncio.to_thread(lambda: CliRunner().invoke(main, words, env=environ))
    assert result.exit_code == 0, result.output
    assert "missing_api_key" in result.output
