"""One request over the API: its way in time, the arithmetic of its cost, and what a running one has cost so far."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, update

from streamweir.core.usage import Usage
from streamweir.policy.pricing.prices import Quote, Rates, Service, Tier, cost_of, encode_quote
from streamweir.store.db.tables import requests
from streamweir.store.ledger.posting import apply
from support.api import Api, api_on
from support.common_entries import hold, settle
from support.entries import progress
from support.stores import one_database

USD = 1_000_000_000
RATES = Rates(
    input=2_500_000_000,
    output=10 * USD,
    cache_read=1_250_000_001,
    per_request=5,
    tiers=(Tier(1000, Rates(input=USD, output=USD)),),
    services=(Service("flex", Rates(input=USD, output=USD)),),
)
USAGE = Usage(input_uncached=7, cache_read=3, output=5)
USAGE_TEXT = '{"input_uncached":7,"cache_read":3,"output":5}'


async def detail_of(api: Api, cost: int | None, **members: Any) -> Any:
    id = f"req_{api.clock.at_ms:012x}{'f' * 16}"
    known = {"workspace_id": api.one.workspace.id, "at_ms": api.clock.at_ms, **members}
    await api.storage.store.write(lambda conn: apply(conn, [settle(id, cost, **known)]))
    reply = await api.ask("GET", f"/api/requests/{id}", **api.operator)
    assert reply.status_code == 200, reply.text
    return reply.json()["request"]


def summed(detail: Any) -> Decimal:
    return sum((Decimal(line["amount_usd"]) for line in detail["bill"]), Decimal(0))


@one_database
async def test_images_and_searches_have_lines(database: str, tmp_path: Path) -> None:
    rates = Rates(input=USD, output=2 * USD, image_output=30 * USD, per_search=10_000_000)
    usage = Usage(image_input=1000, image_output=1000, searches=3)
    async with api_on(database, tmp_path) as api:
        text = '{"input_uncached":0,"image_input":1000,"output":0,"image_output":1000,"searches":3}'
        detail = await detail_of(api, cost_of(usage, rates), usage=text, rates=rates.text)
        assert detail["cost_usd"] == "0.061"
        shown = [(line["what"], line["tokens"], line["count"], line["amount_usd"]) for line in detail["bill"]]
        assert shown == [
            ("image_input", 1000, None, "0.001"),
            ("image_output", 1000, None, "0.03"),
            ("per_search", None, 3, "0.03"),
        ]


@one_database
async def test_the_way_and_the_bill(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        attempts = '[{"target":"sim/m","error":null,"start_s":0.004,"duration_s":1.5,"resends":0}]'
        detail = await detail_of(
            api,
            cost_of(USAGE, RATES),
            usage=USAGE_TEXT,
            rates=RATES.text,
            admitted_ms=3,
            settled_ms=1510,
            attempts=attempts,
            strip='{"start_ms":40,"slot_ms":20,"counts":[1,0,4]}',
            parameters='{"messages":2,"temperature":0.2,"tools":["find"]}',
            refusal='{"message":"No.","param":"n"}',
        )
        assert (detail["admitted_ms"], detail["settled_ms"], detail["service_tier"]) == (3, 1510, None)
        assert detail["attempts"][0]["start_s"] == 0.004
        assert detail["strip"] == {"start_ms": 40, "slot_ms": 20, "counts": [1, 0, 4]}
        assert detail["parameters"] == {"messages": 2, "temperature": 0.2, "tools": ["find"]}
        assert detail["refusal"] == {"message": "No.", "param": "n"}
        assert (detail["price_usd"], detail["cost_usd"], detail["margin_usd"]) == ("0.000071255", "0.000071255", "0")
        assert detail["cost_bill"] is None, "they are the same lines"
        assert detail["bill"] == [
            {"what": "input", "tokens": 7, "count": None, "usd_per_million": "2.5", "amount_usd": "0.0000175"},
            {
                "what": "cache_read",
                "tokens": 3,
                "count": None,
                "usd_per_million": "1.250000001",
                "amount_usd": "0.000003750000003",
            },
            {"what": "output", "tokens": 5, "count": None, "usd_per_million": "10", "amount_usd": "0.00005"},
            {
                "what": "per_request",
                "tokens": None,
                "count": None,
                "usd_per_million": None,
                "amount_usd": "0.000000005",
            },
            {
                "what": "rounding",
                "tokens": None,
                "count": None,
                "usd_per_million": None,
                "amount_usd": "-0.000000000000003",
            },
        ]
        assert summed(detail) == Decimal(detail["price_usd"])


async def test_a_cost_of_other_rates_has_its_own_bill(tmp_path: Path) -> None:
    rates = Rates(input=USD, output=USD)
    async with api_on("sqlite", tmp_path) as api:
        members = {"usage": USAGE_TEXT, "rates": RATES.text, "price": cost_of(USAGE, RATES)}
        detail = await detail_of(api, cost_of(USAGE, rates), cost_rates=rates.text, **members)
        assert (detail["price_usd"], detail["cost_usd"]) == ("0.000071255", "0.000015")
        assert detail["margin_usd"] == "0.000056255"
        assert summed(detail) == Decimal("0.000071255")
        lines = [(line["what"], line["usd_per_million"]) for line in detail["cost_bill"]]
        assert lines == [("input", "1"), ("cache_read", "1"), ("output", "1")]


@pytest.mark.parametrize(
    ("cost", "members", "lines"),
    [
        (cost_of(USAGE, RATES, "flex"), {"usage": USAGE_TEXT, "rates": RATES.text, "service_tier": "flex"}, 3),
        (18_000, {"prompt_tokens": 8, "completion_tokens": 1, "rates": Rates(input=USD, output=10 * USD).text}, 2),
        (0, {"usage": USAGE_TEXT, "rates": Rates(input=0, output=0).text}, 3),
        (0, {}, 0),
        (0, {"usage": '{"input_uncached":0,"output":0}', "rates": RATES.text}, 0),
        (None, {"usage": USAGE_TEXT}, None),
        (5, {"usage": USAGE_TEXT}, None),
        (5, {"usage": USAGE_TEXT, "rates": RATES.text}, None),
        (5, {"usage": USAGE_TEXT, "rates": "{}"}, None),
        (5, {"usage": '{"output":"x"}', "rates": RATES.text}, None),
        (5, {"rates": RATES.text}, None),
    ],
    ids=[
        "of a service tier",
        "estimated",
        "free",
        "nothing used",
        "nothing used, as is reported",
        "no price",
        "from before rates were kept",
        "a cost that is none of theirs",
        "rates of somebody else",
        "a usage of somebody else",
        "a cost without a usage",
    ],
)
async def test_a_bill_adds_up_or_is_not_shown(
    cost: int | None, members: dict[str, Any], lines: int | None, tmp_path: Path
) -> None:
    async with api_on("sqlite", tmp_path) as api:
        detail = await detail_of(api, cost, **members)
        if lines is None:
            assert detail["bill"] is None
        else:
            assert len(detail["bill"]) == lines
            assert summed(detail) == Decimal(detail["price_usd"])


async def test_a_damaged_row_is_shown_without_the_value(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        for strip in ("", "[]", '{"start_ms":1}', '{"start_ms":1,"slot_ms":2,"counts":["x"]}'):

            def spoil(conn: Connection, strip: str = strip) -> None:
                conn.execute(update(requests).values(strip=strip))

            id = await api.new_request(api.one)
            await api.storage.store.write(spoil)
            detail = (await api.ask("GET", f"/api/requests/{id}", **api.operator)).json()["request"]
            assert detail["strip"] is None, strip


@one_database
async def test_running_requests_show_the_times_of_pieces_and_the_price_so_far(database: str, tmp_path: Path) -> None:
    sold = Rates(input=0, output=20 * USD)
    quote = encode_quote(Quote("v", {"up/m": RATES, "up/odd": None}, {"up/m": sold, "up/odd": sold}))
    async with api_on(database, tmp_path) as api:
        at_ms = api.clock.at_ms
        ids = [f"req_{number:028x}" for number in range(4)]
        members = {"workspace_id": api.one.workspace.id, "at_ms": at_ms, "prompt_tokens": 9}
        members["instance"] = api.storage.node.instance
        noted = progress(
            (ids[0], "up/m", 4),
            (ids[1], "up/odd", 4),
            (ids[2], "up/m", 4),
            at_ms=at_ms + 900,
            times=[(at_ms + 200, at_ms + 850), (None, None), (None, None)],
        )
        holds = [hold(id, 7, **members, prices="{}" if id == ids[2] else quote) for id in ids]
        await api.storage.store.write(lambda conn: apply(conn, [*holds, noted]))
        found = {}
        for row in (await api.ask("GET", "/api/live", **api.operator)).json()["data"]:
            money = (row["price_usd"], row["cost_usd"], row["margin_usd"])
            found[row["request_id"]] = (row["first_ms"], row["last_ms"], money, row["progress_ms"])
        assert found == {
            ids[0]: (at_ms + 200, at_ms + 850, ("0.00008", "0.000062505", "0.000017495"), at_ms + 900),
            ids[1]: (None, None, ("0.00008", None, None), at_ms + 900),
            ids[2]: (None, None, (None, None, None), at_ms + 900),
            ids[3]: (None, None, (None, None, None), None),
        }
