"""Callers whose key allows it are told how they were served: target, attempts, and what it cost."""

from decimal import Decimal
from pathlib import Path

import pytest

from support.accounting_gateway import keeping
from support.answers import error_body, openai_stream, openai_whole
from support.gateway import KEY, gateway, gateway_to, providers
from support.outcome import ALIAS, DIALECTS, path_of
from support.script import stream, whole
from support.scripted_upstream import ScriptedUpstream

pytestmark = pytest.mark.usefixtures("no_jitter")

SHOWN = f'\n[[keys]]\nname = "test"\nkey = "{KEY}"\nshow_routing = true\n'
PRICED = (
    '[[models]]\nid = "priced"\ntargets = [{ provider = "up", model = "m" }]\nprice = { input = 1.0, output = 2.0 }\n'
)
NAMES = ("x-streamweir-target", "x-streamweir-attempts", "x-streamweir-cost")
FAILED = whole(error_body("boom"), 500)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_stream_tells_its_target_and_attempts_but_no_cost(dialect: str) -> None:
    async with ScriptedUpstream(FAILED) as first, ScriptedUpstream(stream(openai_stream())) as second:
        toml = providers(first=first.base_url, second=second.base_url) + ALIAS + SHOWN
        async with gateway(toml) as gate:
            reply = await gate.ask(path=path_of(dialect), model="either", stream=True)
    assert reply.status == 200
    assert [reply.header(name) for name in NAMES] == ["second/n", "2", None]


@pytest.mark.parametrize("setting", ["", "log_content = true\n"])
@pytest.mark.parametrize("usage", [(1000, 500), None])
async def test_a_whole_answer_tells_its_cost_as_it_is_booked(usage: tuple[int, int] | None, setting: str) -> None:
    """Without a report the cost is that of the tokens that the answer has, which the gateway has counted."""
    toml = PRICED + SHOWN + setting
    async with (
        ScriptedUpstream(whole(openai_whole(usage=usage))) as up,
        gateway(providers(up=up.base_url) + toml) as gate,
    ):
        reply = await gate.ask(model="priced")
        (record,) = await gate.settled()
    assert [reply.header(name) for name in NAMES[:2]] == ["up/m", "1"]
    cost = str(reply.header(NAMES[2]))
    assert usage is None or cost == "0.002"
    assert record.price is not None
    assert Decimal(cost) * 10**9 == record.price > 0


async def test_a_model_without_a_price_has_no_cost() -> None:
    async with ScriptedUpstream(whole(openai_whole())) as up, gateway(providers(up=up.base_url) + SHOWN) as gate:
        reply = await gate.ask(model="up/unpriced")
    assert (reply.status, reply.header(NAMES[2])) == (200, None)


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_an_error_tells_what_was_tried(is_streamed: bool) -> None:
    async with ScriptedUpstream(FAILED) as up, gateway(providers(up=up.base_url) + SHOWN) as gate:
        reply = await gate.ask(model="up/m", stream=is_streamed)
        assert reply.status == 502
        assert [reply.header(name) for name in NAMES] == ["up/m", "3", None]
        reply = await gate.ask(model="nothing/like-it", stream=is_streamed)
        assert reply.status == 404
        assert [reply.header(name) for name in NAMES] == [None, "0", None]


async def test_other_keys_are_told_nothing() -> None:
    async with gateway_to(whole(openai_whole())) as (gate, _):
        reply = await gate.ask(model="up/m")
        assert [reply.header(name) for name in NAMES] == [None, None, None]
        reply = await gate.ask(model="nothing")
        assert [reply.header(name) for name in NAMES] == [None, None, None]


async def test_a_name_that_no_header_can_hold_is_quoted() -> None:
    async with ScriptedUpstream(whole(openai_whole())) as up, gateway(providers(up=up.base_url) + SHOWN) as gate:
        reply = await gate.ask(model="up/\u00e9 50%")
        assert reply.header(NAMES[0]) == "up/%C3%A9 50%25"


async def test_a_key_of_the_database_can_show_routing(tmp_path: Path) -> None:
    async with keeping(whole(openai_whole()), tmp_path) as setup:
        secret = await setup.new_key(show_routing=True)
        reply = await setup.gate.ask(key=secret, model="m")
        assert reply.status == 200
        assert (reply.header(NAMES[0]), reply.header(NAMES[1])) == ("up/gpt-4o", "1")
        await setup.change(secret, show_routing=False)
        reply = await setup.gate.ask(key=secret, model="m")
        assert reply.header(NAMES[0]) is None
