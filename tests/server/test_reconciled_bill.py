"""What a real gateway records is what a provider that counts the same puts on its bill: its model, its key, its day."""

import json
from functools import partial
from pathlib import Path

import pytest

from streamweir.policy.billing.exports.base import DAY_MS
from streamweir.policy.billing.exports.read import read_export
from streamweir.policy.billing.reconciliation import compare, period_of
from streamweir.store.db.clock import now_ms
from streamweir.store.ledger.target_sums import list_providers, read_usage_of
from support.accounting_gateway import AccountingSetup, set_clock
from support.answers import error_body, openai_stream
from support.gateway import gateway, nothing_left
from support.script import Seen, Step, stream, whole
from support.scripted_upstream import ScriptedUpstream
from support.stores import migrated_url

KEYS = {"first": "canary4f9a0c7b", "second": "canary83bd51e6"}
REVOKED = whole(error_body("Incorrect API key provided", "invalid_request_error", "invalid_api_key"), 401)


class Provider:
    """Answers with the second key only, and keeps books of its own."""

    def __init__(self) -> None:
        self.billed: list[tuple[str, str]] = []

    def __call__(self, request: Seen) -> list[Step]:
        key = request.headers["authorization"].removeprefix("Bearer ")
        if key == KEYS["first"]:
            return REVOKED
        self.billed.append((request.json["model"], "key_02"))
        return stream(openai_stream(usage=(7, 5)))

    def export(self, day: int) -> bytes:
        """As OpenAI's usage API has it."""
        results = [
            {"model": f"{model}-2024-08-06", "api_key_id": key, "input_tokens": 7, "output_tokens": 5}
            | {"input_cached_tokens": 0, "num_model_requests": 1}
            for model, key in self.billed
        ]
        bucket = {"start_time": day * 86_400, "end_time": (day + 1) * 86_400, "results": results}
        return json.dumps({"object": "page", "data": [bucket], "has_more": False}).encode()


@pytest.mark.usefixtures("no_jitter")
async def test_a_bill_agrees_with_what_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Provider()
    async with nothing_left(), ScriptedUpstream(provider) as up:
        keys = ", ".join(f'{{ name = "{name}", key = "{key}" }}' for name, key in KEYS.items())
        config = f'[[providers]]\nname = "up"\nkind = "openai"\nbase_url = "{up.base_url}"\napi_keys = [{keys}]\n'
        config += f'[store]\nurl = "{await migrated_url("sqlite", tmp_path)}"\n'
        config += '[[models]]\nid = "best"\ntargets = [{ provider = "up", model = "gpt-4o" }]\n'
        async with gateway(config, data_dir=tmp_path) as gate:
            setup = AccountingSetup(gate, up=up)
            set_clock(monkeypatch, now_ms())  # so that no midnight comes between
            secret = await setup.new_key()
            for model in ("best", "best", "up/gpt-4o-mini"):
                assert (await gate.ask(model=model, key=secret)).status == 200
            await gate.settled(3)
            export = read_export(provider.export(now_ms() // DAY_MS))
            since_ms, until_ms = period_of(export)
            usage = await setup.read(partial(read_usage_of, providers=["up"], since_ms=since_ms, until_ms=until_ms))
            assert await setup.read(list_providers) == ["up"]
            rows = await setup.rows()
            await gate.vacated()
            await setup.assert_balanced()
        await up.idle()
    assert {(each.model, each.credential, each.requests) for each in usage} == {
        ("gpt-4o", "second", 2),
        ("gpt-4o-mini", "second", 1),
    }
    assert sum(each.cost for each in usage) == sum(row.cost or 0 for row in rows) > 0
    found = compare(export, usage, models={}, keys={"key_02": "second"}, tolerance_percent=0)
    assert not found.differs
    assert {(line.model, line.key) for line in found.lines} == {("gpt-4o", "second"), ("gpt-4o-mini", "second")}
    assert compare(export, usage[1:], models={}, keys={"key_02": "second"}, tolerance_percent=0).differs
