"""A pattern alias: every name that it matches is answered by its targets, recorded and billed under that name."""

from pathlib import Path

from support.accounting_gateway import MILLI, keeping
from support.answers import openai_whole
from support.gateway import KEY, gateway_to
from support.script import whole

TOML = """
[[models]]
id = "claude-*"
targets = [{ provider = "up", model = "gpt-4o" }]
price = { input = 1000.0, output = 2000.0 }

[[models]]
id = "claude-*haiku*"
targets = [{ provider = "up", model = "gpt-4o-mini" }]
price = { input = 10.0, output = 20.0 }
"""
SMALL = "sk-Sm4llM0dels7vLmZ2pKd9Rt"
KEYS = f"""
[[keys]]
name = "all"
key = "{KEY}"

[[keys]]
name = "small"
key = "{SMALL}"
models = ["claude-haiku-*"]
"""
ANSWER = whole(openai_whole(usage=(7, 5)))


async def test_each_name_goes_to_the_target_of_its_pattern_at_that_price(tmp_path: Path) -> None:
    async with keeping(ANSWER, tmp_path, TOML) as setup:
        names = ("claude-opus-5-5", "claude-haiku-5-5", "claude-of-tomorrow")
        for name in names:
            assert (await setup.gate.ask(model=name)).status == 200
        assert [seen.json["model"] for seen in setup.up.requests] == ["gpt-4o", "gpt-4o-mini", "gpt-4o"]
        rows = await setup.rows()
        assert {row.model: row.price for row in rows} == dict(
            zip(names, (17 * MILLI, 17 * MILLI // 100, 17 * MILLI), strict=True)
        )


async def test_a_key_may_use_the_names_that_it_was_given() -> None:
    async with gateway_to(ANSWER, TOML + KEYS) as (gate, _):
        assert (await gate.ask(key=SMALL, model="claude-haiku-5-5")).status == 200
        assert (await gate.ask(key=SMALL, model="claude-opus-5-5")).status == 404


async def test_a_name_that_no_pattern_matches_is_unknown() -> None:
    async with gateway_to(ANSWER, TOML) as (gate, up):
        assert (await gate.ask(model="claude")).status == 404
        assert (await gate.ask(model="up/claude-x")).status == 200
        assert up.requests[0].json["model"] == "claude-x"
