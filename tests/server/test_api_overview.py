"""The console's first page over the API: whole periods, the one before, groups, steps, and who may see what."""

from pathlib import Path
from typing import Any

from streamweir.server.control.api.requests.overview import MAX_GROUPS, MAX_TOP
from support.api import Api, Role, api_on, bearer
from support.key_store import HOUR
from support.request_rows import insert_rows, request_row
from support.stores import one_database

MINUTE, DAY = HOUR // 60, 24 * HOUR
STEPS = {"hour": MINUTE, "day": 15 * MINUTE, "week": 2 * HOUR, "month": DAY}
LENGTHS = {"hour": HOUR, "day": DAY, "week": 7 * DAY, "month": 30 * DAY}


async def overview(api: Api, role: Role, **params: Any) -> Any:
    reply = await api.ask("GET", "/api/overview", params=params, **role)
    assert reply.status_code == 200, reply.text
    return reply.json()


def requests_of(points: list[Any]) -> int:
    return sum(point["usage"]["requests"] for point in points)


@one_database
async def test_a_period_is_made_of_whole_steps_and_ends_with_the_one_that_runs(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        now = api.clock.at_ms
        for period, step in STEPS.items():
            length = LENGTHS[period]
            empty = await overview(api, api.operator, period=period)
            assert (empty["period"], empty["step_ms"], empty["by"]) == (period, step, "model")
            assert empty["until_ms"] % step == 0
            assert now < empty["until_ms"] <= now + step
            assert empty["until_ms"] - empty["since_ms"] == length
            assert (empty["groups"], empty["series"], empty["group_series"]) == ([], [], [])
            assert empty["total"]["requests"] == empty["before"]["requests"] == 0
            assert (empty["total"]["ttft_p50_ms"], empty["total"]["ttft_p95_ms"]) == (None, None)
            assert (empty["open_streams"], empty["has_requests"]) == (0, False)


@one_database
async def test_all_of_a_period_is_counted_and_no_more(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        for period in STEPS:
            first = await overview(api, api.operator, period=period)
            end, length = first["until_ms"], LENGTHS[period]
            had = (first["total"]["requests"], first["before"]["requests"])
            # The first and the last moment of the period, and of the one before; and one before both.
            for at_ms in (end - 1, end - length, end - length - 1, end - 2 * length, end - 2 * length - 1):
                now, api.clock.at_ms = api.clock.at_ms, at_ms
                await api.new_request(api.one, stream=True, ttft_ms=100)
                api.clock.at_ms = now
            found = await overview(api, api.operator, period=period)
            assert (found["total"]["requests"], found["before"]["requests"]) == (had[0] + 2, had[1] + 2)
            for part in ("groups", "series", "group_series"):
                assert requests_of(found[part]) == found["total"]["requests"]
            moments = [point["at_ms"] for point in found["series"]]
            assert (moments[0], moments[-1]) == (end - length, end - STEPS[period])
            assert 72 <= found["total"]["ttft_p50_ms"] <= found["total"]["ttft_p95_ms"] <= 107
            assert found["has_requests"]


@one_database
async def test_groups_have_names_and_the_smaller_ones_are_one(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        models = [f"model {number:02}" for number in range(MAX_GROUPS + 3)]
        for model in models:
            await api.new_request(api.one, model=model, error="upstream_error" if model == models[0] else None)
        await api.new_request(api.one, model=models[-1])
        by_model = await overview(api, api.operator, by="model")
        names = [each["group"] for each in by_model["groups"]]
        assert names == [models[-1], *models[: MAX_GROUPS - 1], None], "the dearest first, the rest as one"
        assert {each["name"] for each in by_model["groups"]} == {None}
        rest = by_model["groups"][-1]["usage"]
        assert (rest["requests"], rest["price_usd"], by_model["total"]["errors"]) == (3, "4.5", 1)
        assert by_model["total"]["requests"] == requests_of(by_model["groups"]) == MAX_GROUPS + 4
        by_key = await overview(api, api.operator, by="key", model=models[0])
        (group,) = by_key["groups"]
        key = (await api.ask("GET", f"/api/keys/{group['group']}", **api.operator)).json()
        assert group["name"] == key["name"]
        for params in ({"key": key["id"]}, {"provider": "sim", "model": models[0]}):
            assert (await overview(api, api.operator, by="provider", **params))["total"]["requests"] == 1
        assert (await overview(api, api.operator, provider="up"))["total"]["requests"] == 0


async def test_the_share_of_cache_reads_is_known_for_each_model_and_key(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        assert (await overview(api, api.operator))["total"]["cache_read_share"] is None
        await api.new_request(api.one, model="warm", prompt_tokens=1000, cached_tokens=900)
        await api.new_request(api.one, model="warm", prompt_tokens=500, cached_tokens=0)
        await api.new_request(api.one, model="cold", prompt_tokens=300)
        by_model = await overview(api, api.operator, by="model")
        assert {each["group"]: each["usage"]["cache_read_share"] for each in by_model["groups"]} == {
            "warm": 0.6,
            "cold": 0.0,
        }
        assert by_model["total"]["cache_read_share"] == 0.5
        by_key = await overview(api, api.operator, by="key", model="warm")
        assert sorted(each["usage"]["cache_read_share"] for each in by_key["groups"]) == [0.0, 0.9]


@one_database
async def test_an_admin_sees_only_its_own_workspace(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        await api.new_request(api.one, model="a")
        await api.new_open(api.one)
        await api.new_open(api.two)
        one, two = bearer(api.one.admin.secret), bearer(api.two.admin.secret)
        mine, others, everything = [await overview(api, role) for role in (one, two, api.operator)]
        assert (mine["total"]["requests"], mine["open_streams"], mine["has_requests"]) == (1, 1, True)
        assert (others["total"]["requests"], others["open_streams"], others["has_requests"]) == (0, 1, False)
        assert (everything["total"]["requests"], everything["open_streams"]) == (1, 2)
        key = (await overview(api, one, by="key"))["groups"][0]["group"]
        assert (await overview(api, two, key=key, by="key"))["groups"] == []
        seen = await overview(api, api.operator, workspace="one")
        assert (seen["total"]["requests"], seen["open_streams"]) == (1, 1)
        for asked in ("one", api.one.workspace.id, "none"):
            assert (await api.ask("GET", "/api/overview", params={"workspace": asked}, **two)).status_code == 404


async def test_what_is_asked_is_checked(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        for name, value in (("period", "year"), ("by", "total"), ("since_ms", "1")):
            reply = await api.ask("GET", "/api/overview", params={name: value}, **api.operator)
            assert (reply.status_code, reply.json()["error"]["param"]) == (400, name)


@one_database
async def test_refused_requests_are_counted_beside_the_usage(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        await api.new_request(api.one, model="a")
        first = await overview(api, api.operator, period="day")
        assert first["refused"] == {"total": 0, "before": 0, "series": []}
        end = first["until_ms"]
        rows = [
            request_row(number, at_ms=at_ms, verdict=verdict, workspace_id=space, key_id=key, model=model, target=None)
            for number, (at_ms, verdict, space, key, model) in enumerate(
                [
                    (end - 1, "rejected", api.one.workspace.id, "key_1", "a"),
                    (end - DAY, "rejected", api.one.workspace.id, "key_2", "b"),
                    (end - DAY - 1, "rejected", api.two.workspace.id, "key_3", "a"),
                    (end - 2, "rejected", None, None, None),
                    (end - 3, "upstream_error", api.one.workspace.id, "key_1", "a"),
                    (end - 2 * DAY - 1, "rejected", api.one.workspace.id, "key_1", "a"),
                ]
            )
        ]
        # A provider has refused this one: it is in the usage.
        known = {"workspace_id": api.one.workspace.id, "key_id": "key_1", "model": "a"}
        rows.append(request_row(len(rows), at_ms=end - 4, verdict="rejected", held=5, **known))
        await api.storage.store.write(lambda conn: insert_rows(conn, rows))
        found = (await overview(api, api.operator, period="day"))["refused"]
        log = await api.ask("GET", "/api/requests", params={"refused": "true"}, **api.operator)
        assert len(log.json()["data"]) == 5
        assert (found["total"], found["before"]) == (3, 1)
        step = STEPS["day"]
        assert found["series"] == [{"at_ms": end - DAY, "requests": 1}, {"at_ms": end - step, "requests": 2}]
        counts = {
            name: (await overview(api, role, period="day", **params))["refused"]
            for name, role, params in (
                ("admin", bearer(api.one.admin.secret), {}),
                ("key", api.operator, {"key": "key_2"}),
                ("model", api.operator, {"model": "a"}),
                ("provider", api.operator, {"provider": "sim"}),
            )
        }
        assert counts.pop("provider") is None, "none was asked"
        assert {name: (each["total"], each["before"]) for name, each in counts.items()} == {
            "admin": (2, 0),
            "key": (1, 0),
            "model": (1, 1),
        }


@one_database
async def test_the_period_that_holds_the_requests_is_the_default(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        now = api.clock.at_ms
        one, two = bearer(api.one.admin.secret), bearer(api.two.admin.secret)

        async def chosen(role: Role) -> str:
            found: str = (await overview(api, role))["period"]
            return found

        async def asked(space: Any, ago_ms: int) -> None:
            api.clock.at_ms = now - ago_ms
            await api.new_request(space)
            api.clock.at_ms = now

        assert await chosen(api.operator) == "day", "there is nothing yet"
        for ago_ms, period in ((20 * DAY, "month"), (5 * DAY, "week"), (9 * HOUR, "day"), (0, "day")):
            await asked(api.one, ago_ms)
            assert await chosen(one) == period
        await asked(api.two, 0)
        assert await chosen(two) == "hour", "all of it is new"
        assert await chosen(api.operator) == "day"
        await asked(api.two, 30 * HOUR)
        assert await chosen(two) == "day"


async def test_a_gateway_that_has_refused_everything_shows_the_hour(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        rows = [request_row(1, at_ms=api.clock.at_ms, verdict="rejected", workspace_id=None, key_id=None, target=None)]
        await api.storage.store.write(lambda conn: insert_rows(conn, rows))
        found = await overview(api, api.operator)
        assert (found["period"], found["refused"]["total"], found["has_requests"]) == ("hour", 1, True)


@one_database
async def test_the_dearest_keys_are_named_whatever_the_groups_are(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        await api.new_request(api.two)
        for _ in range(MAX_TOP + 1):
            await api.new_request(api.one)
        by_key = await overview(api, api.operator, by="key")
        for by in ("model", "key"):
            found = (await overview(api, api.operator, by=by))["top_keys"]
            assert found == by_key["groups"][:MAX_TOP]
            assert all(each["name"] for each in found)
        mine = await overview(api, bearer(api.two.admin.secret))
        assert [each["usage"]["requests"] for each in mine["top_keys"]] == [1]
        assert all("cost_usd" not in each["usage"] for each in mine["top_keys"])
