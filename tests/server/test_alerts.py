"""Alerts from end to end: found by a real gateway, sent to a real receiver that fails, hangs and comes back."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from msgspec import structs
from sqlalchemy import update

from streamweir.store.db.engine import open_store
from streamweir.store.db.tables import alerts as alerts_table
from support.accounting_gateway import MILLI, MODEL
from support.alerts import (
    BRISK,
    OK,
    OLD_SECRET,
    SECRET,
    alerting,
    all_delivered,
    deliveries,
    ids,
    make_due,
    put,
    verified,
    webhook,
)
from support.answers import openai_stream
from support.certificate import make_certificate
from support.deadlines import WAIT_TIMEOUT_S
from support.flaky_store import FlakyStore
from support.fleet import fleet
from support.gateway import nothing_left, until
from support.script import Hang, Head, Rst, Send, Wait, in_turn, stream, whole
from support.scripted_upstream import ForbiddenServer, ScriptedUpstream, closed_port
from support.soak import part_of
from support.stores import DATABASES, migrated_url, one_database, store_on


@one_database
async def test_a_receiver_that_fails_hangs_redirects_and_comes_back(database: str, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    await migrated_url(database, tmp_path / "first")  # the server is started once for all tests
    async with nothing_left(), ForbiddenServer() as elsewhere, store_on(database, tmp_path) as store:
        location = ("location", elsewhere.base_url)
        script = in_turn(
            whole(b"no", status=500),
            [Hang()],
            [Rst()],
            whole(b"", status=302, headers=[location]),
            whole(b"", status=307, headers=[location]),
            [Head(404), Send(b"x" * 10_000), Hang()],  # the body of a failure is not read
            whole(b"", status=429, headers=[("retry-after", "1")]),
            [Head(), Send(b"x" * 10_000), Hang()],  # it is delivered by its head, whatever comes after it
            OK,
            OK,
        )
        async with ScriptedUpstream(script) as receiver:
            await put(store, 1, 2, 3)
            async with alerting(store, webhook(receiver, more="timeout_s = 0.5")) as alerts:
                rows = await all_delivered(store, 3)
            assert ids(receiver) == ["alert_1"] * 8 + ["alert_2", "alert_3"]
            assert [row.attempts for row in rows] == [8, 1, 1]
            assert {seen.path for seen in receiver.requests} == {"/hook?team=a"}
            assert [verified(seen)["data"]["number"] for seen in receiver.requests] == [1] * 8 + [2, 3]
            assert len({seen.body for seen in receiver.requests[:8]}) == 1
            assert alerts.counts.attempts == {("ops", "failed"): 7, ("ops", "delivered"): 3}


async def test_each_failure_is_named(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "localhost")
    async with (
        nothing_left(),
        store_on("sqlite", tmp_path) as store,
        ScriptedUpstream(OK, tls=certificate.server_context()) as untrusted,
        ScriptedUpstream(whole(b"my secret answer", status=503)) as failing,
        ScriptedUpstream([Hang()]) as hanging,
    ):
        nobody = ForbiddenServer()
        nobody.port = closed_port()
        toml = [
            webhook(untrusted, "untrusted"),
            webhook(failing, "failing"),
            webhook(hanging, "hanging", "timeout_s = 0.2"),
            webhook(nobody, "nobody"),
        ]
        names = ("untrusted", "failing", "hanging", "nobody")
        await put(store, 1, to=names)
        async with alerting(store, *toml, alert_retry_s=100.0):
            async with asyncio.timeout(WAIT_TIMEOUT_S):
                while not all(row.error for row in await deliveries(store)):
                    await asyncio.sleep(0.005)
        errors = {row.webhook: row.error for row in await deliveries(store)}
        assert errors["failing"] == "answered 503"
        assert errors["hanging"] == "no answer within 0.2 s"
        assert errors["nobody"] == "could not be reached (Connection refused)"
        assert (errors["untrusted"] or "").startswith("no trusted TLS connection")
        assert untrusted.requests == []


async def test_a_trusted_certificate_and_two_secrets_while_one_replaces_the_other(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "127.0.0.1")
    async with (
        nothing_left(),
        store_on("sqlite", tmp_path) as store,
        ScriptedUpstream(OK, tls=certificate.server_context()) as receiver,
    ):
        await put(store, 1)
        more = f'ca_file = "{certificate.cert_file}"\nold_secret = "{OLD_SECRET}"'
        async with alerting(store, webhook(receiver, more=more)):
            await all_delivered(store, 1)
        (seen,) = receiver.requests
        assert verified(seen) == verified(seen, OLD_SECRET)


async def test_a_receiver_that_hangs_delays_no_other(tmp_path: Path) -> None:
    async with (
        nothing_left(),
        store_on("sqlite", tmp_path) as store,
        ScriptedUpstream([Hang()]) as hanging,
        ScriptedUpstream(OK) as receiver,
    ):
        await put(store, 1, 2, 3, to=("slow", "ops"))
        async with alerting(store, webhook(hanging, "slow", "timeout_s = 60"), webhook(receiver)):
            await hanging.seen(1)
            await all_delivered(store, 3)
            assert ids(receiver) == ["alert_1", "alert_2", "alert_3"]
            assert ids(hanging) == ["alert_1"]


async def test_a_webhook_that_a_reload_removes_gets_nothing_more(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    async with (
        nothing_left(),
        store_on("sqlite", tmp_path) as store,
        ScriptedUpstream(in_turn([Wait(go_on), *OK], OK)) as receiver,
    ):
        await put(store, 1, 2)
        async with alerting(store, webhook(receiver)) as alerts:
            await receiver.seen(1)
            config = structs.replace(alerts._config(), webhooks=())
            alerts._config = lambda: config
            go_on.set()
            await until(lambda: not alerts._sender._sending)
        assert ids(receiver) == ["alert_1"]
        assert [row.delivered_ms is not None for row in await deliveries(store)] == [True, False]


CHILD = """
import asyncio, sys
from pathlib import Path
from support.alerts import alerting
from streamweir.store.db.engine import open_store
async def main():
    store = await open_store(sys.argv[1], Path(sys.argv[2]))
    async with alerting(store, sys.argv[3], instance="the other", alert_lease_s=0.5):
        await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.mark.parametrize("database", part_of(DATABASES, 2))
async def test_a_process_that_dies_while_it_sends_is_replaced_by_another(database: str, tmp_path: Path) -> None:
    url = await migrated_url(database, tmp_path)
    store = await open_store(url, tmp_path)
    go_on = asyncio.Event()
    try:
        async with ScriptedUpstream(in_turn(OK, [Hang()], [Wait(go_on), *OK], OK)) as receiver:
            toml = webhook(receiver, more="timeout_s = 30")
            await put(store, 1, 2, 3)
            path = os.pathsep.join(filter(None, sys.path))
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", CHILD, url, str(tmp_path), toml, env={**os.environ, "PYTHONPATH": path}
            )
            try:
                await receiver.seen(2)  # the first is delivered; it hangs in the second
                async with alerting(store, toml, instance="this", alert_lease_s=0.5) as alerts:
                    assert not alerts._sender.has_lease
                    child.send_signal(signal.SIGKILL)
                    await child.wait()
                    # Due again when nothing can be heard of the attempt any more: in the test the clock is moved on.
                    await until(lambda: alerts._sender.has_lease)
                    await store.write(make_due)
                    go_on.set()
                    rows = await all_delivered(store, 3)
            finally:
                if child.returncode is None:
                    child.kill()
                    await child.wait()
            assert ids(receiver) == ["alert_1", "alert_2", "alert_2", "alert_3"]
            assert [row.attempts for row in rows] == [1, 2, 1]
    finally:
        await store.close()


async def test_two_nodes_report_and_send_once(tmp_path: Path) -> None:
    """Both look at the same time, a hundred times a second."""
    script = stream(openai_stream(usage=(500, 300)))
    async with ScriptedUpstream(OK) as receiver:
        toml = MODEL + webhook(receiver)
        async with fleet(script, tmp_path, count=2, database="postgres", toml=toml, intervals=BRISK) as nodes:
            secret = await nodes.new_key("agent", budget_nano=1000 * MILLI)
            assert (await nodes.gateways[1].ask(key=secret, model="m", stream=True, max_tokens=64)).status == 200
            rows = await all_delivered(nodes.setups[0].storage.store, 2)
            assert len(rows) == 2
            holders = [setup.gate.gateway._maintenance for setup in nodes.setups]
            assert sum(each is not None and each.alerts._sender.has_lease for each in holders) == 1
        assert [verified(seen)["data"]["percent"] for seen in receiver.requests] == [50, 80]


async def test_the_receiver_of_the_documentation(tmp_path: Path) -> None:
    """A real one, on a port of its own: it takes what is signed, once, and refuses the rest."""
    page = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text()
    (source,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    port = closed_port()
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        source.replace("8090", str(port)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "WEBHOOK_SECRET": SECRET},
    )
    assert child.stdout is not None
    try:
        async with store_on("sqlite", tmp_path) as store:
            place = ForbiddenServer()
            place.port = port
            wrong = webhook(place, "wrong").replace(SECRET, OLD_SECRET)
            async with alerting(store, webhook(place), wrong, alert_retry_s=0.01):
                await put(store, 1, to=("ops", "wrong"))
                await all_delivered(store, 1)
                async with asyncio.timeout(WAIT_TIMEOUT_S):
                    while {row.webhook: row.error for row in await deliveries(store)}["wrong"] != "answered 401":
                        await asyncio.sleep(0.005)
                assert await child.stdout.readline() == b"provider.down {'number': 1}\n"
    finally:
        child.kill()
        await child.wait()


FAILING = """
[[models]]
id = "m"
targets = [{ provider = "up", model = "gpt-4o", retries = 0, max_failures = 1, ejection_s = 0 }]
price = { input = 1000.0, output = 1000.0 }
[alerts]
provider_down_s = 0.001
error_percent = 50
error_requests = 2
"""


@one_database
async def test_thresholds_of_a_budget_reach_the_receiver_in_order(database: str, tmp_path: Path) -> None:
    """And the last of them when a request is refused, although a little is left."""
    script = stream(openai_stream(usage=(200, 100)))
    async with ScriptedUpstream(OK) as receiver:
        toml = MODEL + webhook(receiver, more='events = ["budget"]')
        async with fleet(script, tmp_path, database=database, toml=toml, intervals=BRISK) as nodes:
            (gate,) = nodes.gateways
            secret = await nodes.new_key("agent", budget_nano=1000 * MILLI, budget_period="month")
            for count in (0, 1, 2):
                assert (await gate.ask(key=secret, model="m", stream=True, max_tokens=64)).status == 200
                await receiver.seen(count) if count else None
            assert (await gate.ask(key=secret, model="m", stream=True, max_tokens=64)).status == 429
            await receiver.seen(3)
            rows = await all_delivered(nodes.setups[0].storage.store, 3)
            assert [row.attempts for row in rows] == [1, 1, 1]
        found = [verified(seen) for seen in receiver.requests]
        assert [each["data"]["percent"] for each in found] == [50, 80, 100]
        assert {each["type"] for each in found} == {"budget.threshold"}
        data = found[-1]["data"]
        assert (data["limit_usd"], data["spent_usd"], data["period"]) == ("1", "0.9", "month")
        assert (data["key"]["name"], data["workspace"]["name"]) == ("agent", "default")


@one_database
async def test_the_budgets_of_rules(database: str, tmp_path: Path) -> None:
    """Those per end user are reported if the rule says so."""
    script = stream(openai_stream(usage=(500, 300)))
    rules = """
[[limits]]
name = "team-budget"
per = "workspace"
budget_usd = 1
budget_period = "day"
[[limits]]
name = "each-user"
per = "user"
budget_usd = 1
[[limits]]
name = "reported-user"
per = "user"
budget_usd = 2
budget_period = "month"
alert_percent = [40]
"""
    async with ScriptedUpstream(OK) as receiver:
        toml = MODEL + rules + webhook(receiver)
        async with fleet(script, tmp_path, database=database, toml=toml, intervals=BRISK) as nodes:
            (gate,) = nodes.gateways
            assert (await gate.ask(model="m", stream=True, max_tokens=64, user="ann")).status == 200
            await receiver.seen(3)
            await all_delivered(nodes.setups[0].storage.store, 3)
        found = [verified(seen)["data"] for seen in receiver.requests]
        assert [(each["percent"], each["rule"], each["key"], each.get("end_user", "-")) for each in found] == [
            (50, "team-budget", None, "-"),
            (80, "team-budget", None, "-"),
            (40, "reported-user", None, "ann"),
        ]
        assert (found[0]["limit_usd"], found[0]["spent_usd"], found[0]["period"]) == ("1", "0.8", "day")
        assert (found[2]["limit_usd"], found[2]["spent_usd"], found[2]["period"]) == ("2", "0.8", "month")


@one_database
async def test_a_provider_that_fails_and_answers_again(database: str, tmp_path: Path) -> None:
    script = in_turn(*[whole(b"{}", status=500)] * 2, *[stream(openai_stream())] * 7)
    async with ScriptedUpstream(OK) as receiver:
        toml = FAILING + webhook(receiver)
        async with fleet(script, tmp_path, database=database, toml=toml, intervals=BRISK) as nodes:
            (gate,) = nodes.gateways
            assert (await gate.ask(model="m", stream=True)).status == 502
            first = verified(await receiver.seen(1))
            assert (first["type"], first["data"]["provider"]) == ("provider.down", "up")
            assert (await gate.ask(model="m", stream=True)).status == 502
            second = verified(await receiver.seen(2))
            assert (second["type"], second["data"]["errors"]) == ("error_rate.high", 2)
            assert second["data"]["workspace"]["name"] == "default"
            for _ in range(7):
                assert (await gate.ask(model="m", stream=True)).status == 200
            await receiver.seen(4)
            kinds = [verified(seen)["type"] for seen in receiver.requests[2:]]
            assert sorted(kinds) == ["error_rate.normal", "provider.back"]
            text = gate.gateway.metrics_text().decode()
            assert 'streamweir_alerts_total{kind="provider.down"} 1.0' in text
            assert 'streamweir_alert_deliveries_total{outcome="delivered",webhook="ops"}' in text


async def test_credit_that_is_low_and_used_up_and_added(tmp_path: Path) -> None:
    script = stream(openai_stream(usage=(3000, 2000)))
    async with ScriptedUpstream(OK) as receiver:
        toml = MODEL + webhook(receiver, more='workspace = "team"')
        async with fleet(script, tmp_path, toml=toml, intervals=BRISK) as nodes:
            (gate,) = nodes.gateways
            team = await nodes.new_workspace("team", 6000 * MILLI)
            secret = await nodes.new_key("bot", team)
            assert (await gate.ask(key=secret, model="m", stream=True, max_tokens=64)).status == 200
            low = verified(await receiver.seen(1))
            assert (low["type"], low["data"]["left_usd"], low["data"]["workspace"]["name"]) == (
                "credit.low",
                "1",
                "team",
            )
            assert (await gate.ask(key=secret, model="m", stream=True, max_tokens=64)).status == 200
            assert verified(await receiver.seen(2))["type"] == "credit.used_up"


async def test_a_ledger_that_is_behind_is_reported_without_the_database(tmp_path: Path) -> None:
    """Directly, with the id that it has in the outbox later; and it is not sent again from there."""
    lag = [0.0]
    async with nothing_left(), store_on("sqlite", tmp_path) as store, ScriptedUpstream(OK) as receiver:
        flaky = FlakyStore(store)
        toml = webhook(receiver), webhook(receiver, "team", 'workspace = "team"')
        async with alerting(flaky, *toml, run=False, lag=lag) as alerts:
            await alerts.check()
            flaky.lost_before = 10**9
            lag[0] = 40.0
            await alerts.check()
            await alerts.check()
            behind = verified(receiver.requests[0])
            assert (behind["type"], behind["data"]) == (
                "ledger.behind",
                {"node": "node", "behind_s": 40.0, "entries": 3},
            )
            assert await deliveries(store) == []
            flaky.lost_before = 0
            lag[0] = 0.1
            alerts.start()
            rows = await all_delivered(store, 2)
            assert [(row.webhook, row.attempts) for row in rows] == [("ops", 1), ("ops", 1)]
        assert [verified(seen)["type"] for seen in receiver.requests] == ["ledger.behind", "ledger.current"]
        assert alerts.counts.found == {"ledger.behind": 1, "ledger.current": 1}


async def test_what_the_database_did_not_confirm_is_sent_again_with_the_same_id(tmp_path: Path) -> None:
    async with nothing_left(), store_on("sqlite", tmp_path) as store, ScriptedUpstream(OK) as receiver:
        flaky = FlakyStore(store)
        await put(store, 1, 2)

        async def lose(_: object) -> None:
            if len(receiver.requests) == 1:
                flaky.lost_before = 1

        receiver.script = [lose, *OK]
        async with alerting(flaky, webhook(receiver)):
            await receiver.seen(1)
            async with asyncio.timeout(WAIT_TIMEOUT_S):
                while len(receiver.requests) < 3:
                    await store.write(make_due)
                    await asyncio.sleep(0.005)
            await all_delivered(store, 2)
        assert ids(receiver)[:1] == ["alert_1"]
        assert ids(receiver)[-1] == "alert_2"
        assert set(ids(receiver)[:-1]) == {"alert_1"}


async def test_an_alert_that_is_too_old_is_given_up_and_the_next_one_sent(tmp_path: Path) -> None:
    async with nothing_left(), store_on("sqlite", tmp_path) as store:
        async with ScriptedUpstream(in_turn(whole(b"", status=400), OK)) as receiver:
            await put(store, 1, 2)
            await store.write(
                lambda conn: conn.execute(update(alerts_table).where(alerts_table.c.id == "alert_1").values(at_ms=1))
            )
            async with alerting(store, webhook(receiver)) as alerts:
                rows = await all_delivered(store, 1)
        assert [(row.given_up_ms is not None, row.error) for row in rows] == [(True, "answered 400"), (False, None)]
        assert alerts.counts.attempts == {("ops", "given_up"): 1, ("ops", "delivered"): 1}
