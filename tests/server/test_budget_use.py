"""How much of budgets and credits is spent, as the metrics say: for each key and workspace that this process serves."""

from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from streamweir.store.db.clock import now_ms
from support.accounting_gateway import MILLI, AccountingSetup, keeping
from support.answers import openai_whole
from support.script import whole
from support.stores import one_database

TEN = whole(openai_whole("42", usage=(6, 4)))
"""An answer that costs ten thousandths of a dollar."""


async def ratios(setup: AccountingSetup) -> dict[tuple[str, ...], float]:
    assert await setup.writer.flush(10.0)
    await setup.storage.accounting.budget_use.refresh(now_ms())
    families = text_string_to_metric_families(setup.gate.gateway.metrics_text().decode())
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
        if family.name.endswith("_used_ratio")
    }


@one_database
async def test_the_part_of_budgets_and_credits_that_is_spent(database: str, tmp_path: Path) -> None:
    """On PostgreSQL the sums are those of the database, which other nodes have changed, too."""
    async with keeping(TEN, tmp_path, database=database) as setup:
        assert await ratios(setup) == {}
        prepaid = await setup.new_workspace("acme", credit=1000 * MILLI)
        spending: dict[str, Any] = {"budget_nano": 500 * MILLI, "budget_period": "month"}
        secrets = [
            await setup.new_key("free"),
            await setup.new_key("monthly", **spending),
            await setup.new_key("of-acme", prepaid, budget_nano=400 * MILLI),
            await setup.new_key("unused", prepaid, budget_nano=400 * MILLI),
        ]
        for count, secret in zip((1, 2, 1, 0), secrets, strict=True):
            for _ in range(count):
                reply = await setup.gate.ask(key=secret, model="m", max_tokens=10, stream=False)
                assert reply.status == 200
        await setup.gate.settled(4)
        found = await ratios(setup)
        assert found == {("monthly", "month", "default"): 0.04, ("of-acme", "total", "acme"): 0.025, ("acme",): 0.01}
        await setup.change(secrets[1], budget_nano=40 * MILLI)
        await setup.revoke(secrets[2])
        found = await ratios(setup)
        assert found == {("monthly", "month", "default"): 0.5}, "by the present budget, and not of revoked keys"
