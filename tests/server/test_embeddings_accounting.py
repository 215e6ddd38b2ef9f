"""Embeddings in keys, limits, ledger, log, metrics and console: as chat completions are, under their own name."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from streamweir.policy.billing.bill import FEMTO
from streamweir.server.request.runtime.config import built_in_prices
from streamweir.store.db.clock import now_ms
from streamweir.store.requests.content import find_content
from support.accounting_gateway import MILLI, AccountingSetup, error_of, keeping
from support.console_session import sign_in
from support.embeddings import VECTORS, embed, openai_vectors, vectors_of
from support.fleet import fleet
from support.gateway import KEY, chat_request, until
from support.messages import ask
from support.script import Seen, whole
from support.stores import one_database

MODEL = """
[[models]]
id = "v"
targets = [{ provider = "up", model = "text-embedding-3-small" }]
price = { input = 1000.0, output = 0.0 }
"""
"""A token costs a thousandth of a dollar."""
ANSWER = whole(openai_vectors())
SMALL = "text-embedding-3-small"


async def test_the_built_in_prices_have_embeddings(tmp_path: Path) -> None:
    """Without a price for output, which there is none of."""
    async with keeping(whole(openai_vectors(tokens=1_000_000)), tmp_path, "") as setup:
        secret = await setup.new_key(budget_nano=10_000 * MILLI)
        text = "word " * 400_000
        assert (await embed(setup.gate, f"up/{SMALL}", key=secret, input=[text, text])).status == 200
        row = await setup.row()
        rates = built_in_prices().table.find("openai", SMALL, now_ms())
        assert rates is not None
        assert (rates.output, row.price) == (0, 1_000_000 * rates.input // FEMTO)
        assert (row.price, row.usage_source, row.flags) == (20 * MILLI, "provider", [])
        assert (row.prompt_tokens, row.completion_tokens, row.finish) == (1_000_000, 0, None)


@pytest.mark.parametrize(("kind", "model"), [("openai", "babbage-002"), ("azure", "davinci-002")])
def test_no_other_model_is_revealed(kind: str, model: str) -> None:
    """A missing price of output is 0 for embeddings alone."""
    rates = built_in_prices().table.find(kind, model, now_ms())
    assert rates is None or rates.output


async def test_hold_and_settlement(tmp_path: Path) -> None:
    async with keeping(ANSWER, tmp_path, MODEL) as setup:
        secret = await setup.new_key(budget_nano=500 * MILLI)
        assert (await embed(setup.gate, "v", key=secret)).status == 200
        row = await setup.row()
        assert (row.dialect, row.model, row.price, row.verdict) == ("embeddings", "v", 6 * MILLI, "completed")
        kinds = await setup.ledger(row.request_id)
        assert [kind for kind, _, _ in kinds] == ["hold", "settle"]
        assert -sum(amount for _, amount, _ in kinds) == row.price == kinds[-1][2]
        assert await setup.spent_and_held() == (row.price, 0)


async def test_a_budget_that_the_bytes_exceed_and_the_tokens_do_not(tmp_path: Path) -> None:
    """The first bound is a byte per token. A count fits."""
    text = "word " * 2000
    async with keeping(whole(openai_vectors(VECTORS[:1], 2001)), tmp_path, MODEL) as setup:
        secret = await setup.new_key(budget_nano=4000 * MILLI)
        reply = await embed(setup.gate, "v", key=secret, input=text)
        assert reply.status == 200, reply.body
        assert (await setup.row()).price == 2001 * MILLI


async def test_a_budget_that_is_too_small(tmp_path: Path) -> None:
    async with keeping(ANSWER, tmp_path, MODEL) as setup:
        secret = await setup.new_key(budget_nano=MILLI)
        reply = await embed(setup.gate, "v", key=secret)
        assert (reply.status, error_of(reply)["code"]) == (429, "budget_exceeded")
        assert setup.up.requests == []
        assert (await setup.row()).verdict == "rejected"


@one_database
async def test_no_race_spends_more_than_the_budget(database: str, tmp_path: Path) -> None:
    async with fleet(whole(openai_vectors(VECTORS, 100)), tmp_path, database=database, toml=MODEL) as nodes:
        (setup,) = nodes.setups
        secret = await nodes.new_key(budget_nano=600 * MILLI)
        replies = await asyncio.gather(*[embed(setup.gate, "v", key=secret) for _ in range(12)])
        done = [reply for reply in replies if reply.status == 200]
        assert {error_of(reply)["code"] for reply in replies if reply.status != 200} == {"budget_exceeded"}
        await setup.gate.vacated()
        spent, held = await nodes.spent_and_held()
        assert (spent, held) == (len(done) * 100 * MILLI, 0)
        assert 0 < spent <= 600 * MILLI


async def test_a_batch_is_one_booking(tmp_path: Path) -> None:
    def chosen(request: Seen) -> Any:
        return whole(openai_vectors([[1.0]] * len(request.json["input"]), 10))

    async with keeping(chosen, tmp_path, MODEL, kind="cohere") as setup:
        assert (await embed(setup.gate, "v", input=["x"] * 100)).status == 200
        row = await setup.row()
        assert (row.prompt_tokens, row.price) == (20, 20 * MILLI)
        assert [kind for kind, _, _ in await setup.ledger()] == ["hold", "settle"]


async def test_a_batch_that_fails_costs_nothing(tmp_path: Path) -> None:
    def chosen(request: Seen) -> Any:
        inputs = request.json["input"]
        return whole(openai_vectors([[1.0]] * 96, 10)) if len(inputs) == 96 else whole(b"{}", 401)

    async with keeping(chosen, tmp_path, MODEL, kind="cohere") as setup:
        assert (await embed(setup.gate, "v", input=["x"] * 100)).status == 502
        assert (await setup.row()).price == 0
        assert await setup.spent_and_held() == (0, 0)


async def test_a_model_without_a_price(tmp_path: Path) -> None:
    async with keeping(ANSWER, tmp_path, "") as setup:
        secret = await setup.new_key(budget_nano=100 * MILLI)
        reply = await embed(setup.gate, "up/nobody-knows", key=secret)
        assert (reply.status, error_of(reply)["code"]) == (403, "model_unpriced")


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"rpm": 1}, "rate_limit_exceeded"),
        ({"tpm": 1}, "rate_limit_exceeded"),
        ({"models": ("other",)}, "model_not_found"),
    ],
)
async def test_limits_of_a_key(tmp_path: Path, spec: dict[str, Any], code: str) -> None:
    async with keeping(ANSWER, tmp_path, MODEL) as setup:
        secret = await setup.new_key(**spec)
        replies = [await embed(setup.gate, "v", key=secret, input=["some words", "b"]) for _ in range(2)]
        assert error_of(replies[-1])["code"] == code


async def test_a_key_without_the_scope(tmp_path: Path) -> None:
    async with keeping(ANSWER, tmp_path, MODEL) as setup:
        secret = await setup.new_key(scopes=("models",))
        reply = await embed(setup.gate, "v", key=secret)
        assert (reply.status, error_of(reply)["code"]) == (403, "insufficient_permissions")


async def test_an_idempotency_key_is_used_once(tmp_path: Path) -> None:
    async with keeping(ANSWER, tmp_path, MODEL) as setup:
        body = json.dumps({"model": "v", "input": ["a", "b"]}).encode()
        fields = (("idempotency-key", "one"),)
        replies = []
        for _ in range(2):
            async with await setup.gate.connect() as client:
                await client.send(chat_request(path="/v1/embeddings", key=KEY, headers=fields, body=body))
                replies.append(await client.response())
        assert replies[0].body == replies[1].body
        assert [reply.header("idempotent-replayed") for reply in replies] == [None, "true"]
        assert len(setup.up.requests) == 1


async def test_the_log_the_metrics_and_the_console_name_the_api(tmp_path: Path) -> None:
    async with keeping(ANSWER, tmp_path, MODEL, kind="cohere") as setup:
        assert len(vectors_of(await embed(setup.gate, "v", user="u"))) == 2
        row = await setup.row()
        assert (row.dialect, row.dropped, row.stream) == ("embeddings", ["user"], False)
        page = await sign_in(setup.gate)
        (found,) = json.loads(await get(setup, "/api/requests?dialect=embeddings", page.safe_fields))["data"]
        detail = json.loads(await get(setup, f"/api/requests/{found['request_id']}", page.safe_fields))["request"]
        assert (found["dialect"], detail["dialect"]) == ("embeddings", "embeddings")
        lines = await get(setup, "/api/requests/export?format=jsonl&dialect=embeddings", page.safe_fields)
        assert [json.loads(line)["dialect"] for line in lines.splitlines()] == ["embeddings"]
        counted = re.findall(r"requests_total\{(.*)\} (.*)", (await get(setup, "/metrics")).decode())
        assert [float(count) for labels, count in counted if 'dialect="embeddings"' in labels] == [1]


async def get(setup: AccountingSetup, path: str, fields: tuple[tuple[str, str], ...] = ()) -> bytes:
    async with await setup.gate.connect() as client:
        head = "".join(f"{name}: {value}\r\n" for name, value in fields)
        await client.send(f"GET {path} HTTP/1.1\r\nhost: gateway\r\n{head}\r\n".encode())
        reply = await client.response()
    assert reply.status == 200, reply.body
    return reply.body


async def test_the_content_is_stored_where_the_key_says_so(tmp_path: Path) -> None:
    async with keeping(ANSWER, tmp_path, MODEL) as setup:
        secret = await setup.new_key(log_content=True)
        assert (await embed(setup.gate, "v", key=secret, input=["remember me", "b"])).status == 200
        row = await setup.row()
        queue = setup.storage.contents
        await until(lambda: not queue._waiting)
        found = await setup.read(lambda conn: find_content(conn, row.request_id))
        assert found is not None
        content = found.unpack()
        assert "remember me" in content.prompt
        assert content.answer == ""


async def test_messages_and_embeddings_share_a_key(tmp_path: Path) -> None:
    """Limits are the key's, whichever API uses them."""
    async with keeping(ANSWER, tmp_path, MODEL) as setup:
        secret = await setup.new_key(rpm=1)
        assert (await embed(setup.gate, "v", key=secret)).status == 200
        assert (await ask(setup.gate, key=secret, model="v")).status == 429
