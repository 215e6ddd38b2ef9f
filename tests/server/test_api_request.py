"""The log of requests, what was said, usage and live requests over the API."""

from pathlib import Path
from typing import Any

from streamweir.server.control.api.requests.request import RequestQuery
from streamweir.store.requests.live import cancelled
from streamweir.store.requests.requests import RequestFilter
from support.api import Api, Role, api_on, bearer
from support.common_entries import hold, settle
from support.key_store import HOUR
from support.stores import one_database


async def fetch(api: Api, path: str, role: Role, **params: Any) -> Any:
    reply = await api.ask("GET", path, params=params, **role)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def audited(api: Api, role: Role) -> list[tuple[str, str, str | None]]:
    rows = (await fetch(api, "/api/audit", role))["data"]
    return [(row["actor"], row["action"], row["object"]) for row in rows]


def test_every_filter_can_be_asked_for() -> None:
    renamed = {
        "workspace_id": "workspace",
        "key_id": "key",
        **{name: f"{name}_usd" for name in ("min_price", "max_price", "min_cost", "max_cost")},
    }
    wanted = {renamed.get(name, name) for name in RequestFilter.__struct_fields__} - {"key_ids", "person_id"}
    assert set(RequestQuery.__struct_fields__) == wanted | {"cursor", "limit", "order"}


@one_database
async def test_one_request_by_either_id(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        admin = bearer(api.one.admin.secret)
        id = await api.new_request(api.one, prompt_tokens=3, flags='["usage_anomaly"]', usage='{"output":4}')
        found = await fetch(api, f"/api/requests/{id}", admin)
        assert (found["state"], found["live"]) == ("over", None)
        row = found["request"]
        assert (row["request_id"], row["workspace"], row["verdict"]) == (id, api.one.workspace.id, "completed")
        assert (row["held_usd"], row["price_usd"], row["prompt_tokens"]) == ("2", "1.5", 3)
        assert (row["flags"], row["usage"], row["attempts"]) == (["usage_anomaly"], {"output": 4}, [])
        assert await fetch(api, f"/api/requests/{row['completion_id']}", admin) == found
        for role, wanted in ((bearer(api.two.admin.secret), id), (admin, "req_none"), (api.operator, "x")):
            assert (await api.ask("GET", f"/api/requests/{wanted}", **role)).status_code == 404


async def test_a_query_right_after_an_answer_finds_it(tmp_path: Path) -> None:
    """What this process has written down is in the database before it is read."""
    async with api_on("sqlite", tmp_path) as api:
        writer = api.storage.accounting.writer
        assert writer is not None
        members: dict[str, Any] = {"workspace_id": api.one.workspace.id, "at_ms": api.clock.at_ms}
        members["instance"] = api.storage.node.instance
        for number in range(3):
            id = f"req_{number:028x}"
            writer.put(hold(id, 5, **members))
            running = await fetch(api, f"/api/requests/{id}", api.operator)
            assert (running["state"], running["request"], running["live"]["held_usd"]) == (
                "running",
                None,
                "0.000000005",
            )
            assert (await fetch(api, "/api/live", api.operator))["data"] == [running["live"]]
            writer.put(settle(id, 3, **members), required=True)
            assert (await fetch(api, f"/api/requests/{id}", api.operator))["state"] == "over"
            assert (await fetch(api, "/api/live", api.operator))["data"] == []
            assert len((await fetch(api, "/api/requests", api.operator))["data"]) == number + 1
            assert (await fetch(api, "/api/usage", api.operator))["total"]["requests"] == number + 1
        balance = (await fetch(api, "/api/credits", api.operator, workspace="one"))["data"][0]
        assert balance["spent_usd"] == "0.000000009"


async def test_pages_and_filters(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        ids = []
        for number in range(5):
            api.clock.at_ms += 1000
            ids.append(await api.new_request(api.one, error="upstream_timeout" if number % 2 else None, stream=False))
        foreign = await api.new_request(api.two)
        admin, found = bearer(api.one.admin.secret), []
        params: dict[str, Any] = {"limit": 2}
        while True:
            page = await fetch(api, "/api/requests", admin, **params)
            found += [row["request_id"] for row in page["data"]]
            if page["next"] is None:
                break
            params["cursor"] = page["next"]
        assert found == ids[::-1]
        middle = (await fetch(api, f"/api/requests/{ids[2]}", admin))["request"]["cursor"]
        for order, beside in (("newest", ids[1]), ("oldest", ids[3])):
            page = await fetch(api, "/api/requests", admin, cursor=middle, order=order, limit=1)
            assert [row["request_id"] for row in page["data"]] == [beside]
        assert len((await fetch(api, "/api/requests", api.operator))["data"]) == 6
        key = (await fetch(api, f"/api/requests/{ids[0]}", admin))["request"]["key_id"]
        for params, wanted in (
            ({"workspace": "two"}, [foreign]),
            ({"key": key}, [ids[0]]),
            ({"key": "nobody's"}, []),
            ({"key": "*nobody*"}, []),
            ({"model": "*", "target": "S*/*", "provider": "?*"}, []),
            ({"target": "S*/*", "provider": "si*", "limit": 1}, [foreign]),
            ({"id": ids[2][-8:]}, [ids[2]]),
            ({"failed": "true"}, [ids[3], ids[1]]),
            ({"error": "upstream_timeout"}, [ids[3], ids[1]]),
            ({"refused": "true"}, []),
            ({"refused": "false", "workspace": "two"}, [foreign]),
            ({"stream": "true"}, [foreign]),
            ({"id": ids[2]}, [ids[2]]),
            ({"since_ms": api.clock.at_ms - 1000, "workspace": "one"}, [ids[4], ids[3]]),
            ({"until_ms": api.clock.at_ms - 3000}, [ids[0]]),
            ({"verdict": "truncated"}, []),
            ({"status_class": 2, "model": "m", "target": "sim", "limit": 1}, [foreign]),
            ({"status_class": 5}, []),
            ({"provider": "sim", "dialect": "openai", "limit": 1}, [foreign]),
            ({"provider": "up"}, []),
            ({"dialect": "bitseek"}, []),
            ({"min_cost_usd": "1.5", "max_cost_usd": "1.500000000", "limit": 1}, [foreign]),
            ({"min_cost_usd": "1.500000001"}, []),
            ({"max_cost_usd": "1.499999999"}, []),
            ({"min_price_usd": "1.5", "max_price_usd": "1.500000000", "limit": 1}, [foreign]),
            ({"min_price_usd": "1.500000001"}, []),
            ({"max_price_usd": "1.499999999"}, []),
        ):
            page = await fetch(api, "/api/requests", api.operator, **params)
            assert [row["request_id"] for row in page["data"]] == wanted, params
        for params in (
            {"limit": 0},
            {"limit": 1001},
            {"cursor": "x"},
            {"status_class": 10},
            {"since_ms": -1},
            {"min_cost_usd": "x"},
            {"max_price_usd": "x"},
            {"verdict": "foo"},
            {"dialect": "foo"},
        ):
            reply = await api.ask("GET", "/api/requests", params=params, **api.operator)
            assert (reply.status_code, reply.json()["error"]["param"]) == (400, next(iter(params)))
        for sent in ("limit=1&limit=2", "limit=x", "failed=perhaps", "offset=1", "workspace_id=one", "%00=1", "=1"):
            reply = await api.ask("GET", f"/api/requests?{sent}", **api.operator)
            assert reply.status_code == 400, sent


@one_database
async def test_a_key_is_found_by_its_name_or_a_part_of_it(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        one, two = await api.new_request(api.one), await api.new_request(api.two)
        ids = {row["request_id"]: row["key_id"] for row in (await fetch(api, "/api/requests", api.operator))["data"]}
        names = {key["id"]: key["name"] for key in (await fetch(api, "/api/keys", api.operator))["data"]}
        name, every = names[ids[one]], "*'S KEY*"
        assert name.startswith("one's key ")
        for key, wanted in ((ids[one], [one]), (name, [one]), (name.upper(), []), (every, [two, one]), ("*_*", [])):
            found = [row["request_id"] for row in (await fetch(api, "/api/requests", api.operator, key=key))["data"]]
            assert found == wanted, key
        own = await fetch(api, "/api/requests", bearer(api.one.admin.secret), key=every)
        assert [row["request_id"] for row in own["data"]] == [one], "names of other workspaces are not known here"
        reply = await api.ask("GET", "/api/requests", params={"key": "*" + "a*" * 9}, **api.operator)
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "invalid_value")
        reply = await api.ask("GET", "/api/requests", params={"verdict": "foo"}, **api.operator)
        assert "'foo'" in reply.json()["error"]["message"]
        assert "completed" in reply.json()["error"]["message"]


@one_database
async def test_content_is_shown_and_deleted_and_both_are_recorded(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        id, admin = await api.new_request(api.one), bearer(api.one.admin.secret)
        completion_id = (await fetch(api, f"/api/requests/{id}", admin))["request"]["completion_id"]
        for name in (id, completion_id):
            content = await fetch(api, f"/api/requests/{name}/content", admin)
            assert content == {
                "request_id": id,
                "at_ms": api.clock.at_ms,
                "prompt": '{"messages":[{"role":"user","content":"a question"}]}',
                "answer": "an answer",
                "upstream_frames": [
                    {"after_ms": 12, "text": 'data: {"choices":[{"index":0,"delta":{"content":"an answer"}}]}'}
                ],
                "caller_frames": [{"after_ms": 13, "text": "data: [DONE]"}],
                "is_cut": False,
            }
        path = f"/api/requests/{completion_id}/content"
        assert (await api.ask("DELETE", path, **admin)).json() == {"deleted": True}
        for method in ("GET", "DELETE"):
            assert (await api.ask(method, path, **admin)).status_code == 404
        assert not (await fetch(api, f"/api/requests/{id}", admin))["request"]["has_content"]
        actor = f"key:{api.one.admin.key.id}"
        assert (await audited(api, admin))[:3] == [
            (actor, "content.delete", id),
            (actor, "content.read", id),
            (actor, "content.read", id),
        ]


async def test_usage(tmp_path: Path) -> None:
    async with api_on("sqlite", tmp_path) as api:
        start = api.clock.at_ms // HOUR * HOUR
        for hours in (0, 1, 1, 30):
            api.clock.at_ms = start + hours * HOUR + 1
            await api.new_request(api.one, prompt_tokens=10, completion_tokens=2, model="a" if hours else "b")
        await api.new_request(api.two, model="a")
        admin = bearer(api.one.admin.secret)
        usage = await fetch(api, "/api/usage", admin)
        assert (usage["step"], usage["by"], usage["until_ms"]) == ("hour", "total", api.clock.at_ms)
        assert usage["since_ms"] == api.clock.at_ms - 24 * HOUR
        assert (usage["total"]["requests"], usage["total"]["price_usd"]) == (1, "1.5")
        usage = await fetch(api, "/api/usage", admin, since_ms=start, by="model")
        assert [(point["at_ms"], point["group"], point["usage"]["requests"]) for point in usage["series"]] == [
            (start, "b", 1),
            (start + HOUR, "a", 2),
            (start + 30 * HOUR, "a", 1),
        ]
        assert [(each["group"], each["usage"]["price_usd"]) for each in usage["groups"]] == [("a", "4.5"), ("b", "1.5")]
        midnight = start // (24 * HOUR) * 24 * HOUR
        by_day = await fetch(api, "/api/usage", api.operator, since_ms=midnight, step="day", by="provider", groups=1)
        assert sum(point["usage"]["requests"] for point in by_day["series"]) == 5
        assert by_day["total"]["prompt_tokens"] == 40
        for step in ("minute", "quarter"):
            fine = await fetch(api, "/api/usage", admin, step=step)
            assert [point["usage"]["requests"] for point in fine["series"]] == [1]
        key = await fetch(api, "/api/usage", admin, since_ms=start, by="key", model="b", provider="sim")
        assert len(key["groups"]) == 1
        assert (await fetch(api, "/api/usage", admin, since_ms=start, key=key["groups"][0]["group"]))["total"] == (
            key["total"]
        )
        for params in ({"workspace": "one"}, {"workspace": api.one.workspace.id}):
            reply = await api.ask("GET", "/api/usage", params=params, **bearer(api.two.admin.secret))
            assert reply.status_code == 404
        for name, value in (("step", "week"), ("by", "peer"), ("since_ms", "0"), ("groups", "51")):
            reply = await api.ask("GET", "/api/usage", params={name: value}, **admin)
            assert (reply.status_code, reply.json()["error"]["param"]) == (400, name)


@one_database
async def test_a_request_that_runs_is_stopped(database: str, tmp_path: Path) -> None:
    async with api_on(database, tmp_path) as api:
        id, other = await api.new_open(api.one, end_user="ann", session="s"), await api.new_open(api.two)
        admin = bearer(api.one.admin.secret)
        (live,) = (await fetch(api, "/api/live", admin))["data"]
        assert (live["end_user"], live["session"]) == ("ann", "s")
        assert (live["request_id"], live["held_usd"], live["is_being_stopped"]) == (id, "0.000000007", False)
        assert [each["request_id"] for each in (await fetch(api, "/api/live", api.operator))["data"]] == [other, id]
        assert len((await fetch(api, "/api/live", api.operator, limit=1))["data"]) == 1
        for _ in range(2):
            stopped = await api.ask("POST", f"/api/live/{id}/cancel", **admin)
            assert stopped.json() == {**live, "is_being_stopped": True}
        assert id in api.stopped, "by this process at once"
        assert await api.storage.store.read(lambda conn: cancelled(conn, api.storage.node.instance)) == [id]
        assert [row[1:] for row in await audited(api, admin)].count(("request.cancel", id)) == 1
        for wanted in (other, "req_none", await api.new_request(api.one)):
            assert (await api.ask("POST", f"/api/live/{wanted}/cancel", **admin)).status_code == 404
