"""The outbox and what is found for it, on both databases: order, claims, leases, conditions, and what is read."""

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, delete, insert, select, update

from streamweir.policy.alert import Alert, Change, Condition, Finding, ProviderSigns, changes_of
from streamweir.policy.end_user import digest_of_user
from streamweir.policy.limits.budget import NANO, key_account
from streamweir.policy.limits.limit_rule import LimitRule, Per
from streamweir.store.alerts import rules as alert_rules
from streamweir.store.alerts.conditions import conditions_of, read_conditions, read_signs, save_changes, write_signs
from streamweir.store.alerts.findings import ERRORS, Thresholds, find_errors, find_money
from streamweir.store.alerts.outbox import (
    LEASE,
    Delivery,
    Subscription,
    append,
    backlogs,
    claim,
    deliveries_of,
    list_alerts,
    mark_delivered,
    mark_failed,
)
from streamweir.store.db.base import Store
from streamweir.store.db.counter import has_lease, release_lease, take_lease
from streamweir.store.db.tables import SUMS, accounts, alert_conditions, attribution_days, keys, requests, usage_minutes
from streamweir.store.keys.credit import add_credit
from streamweir.store.keys.keys import change_key
from streamweir.store.keys.spec import KeyChange
from streamweir.store.ledger import rule_accounts
from streamweir.store.ledger.period import HOUR_MS, span_of
from streamweir.store.requests.health_reports import write_report
from streamweir.store.requests.instances import retire, write_heartbeat
from streamweir.store.requests.retention import Purged, purge
from support.key_store import NOW, new_key, new_workspace
from support.request_rows import insert_rows, request_row
from support.stores import each_database, store_on

OPS = Subscription(name="ops")
RULES = Thresholds()


def an_alert(number: int, kind: str = "budget.threshold", workspace_id: str | None = "default") -> Alert:
    return Alert(
        id=f"alert_{number}", kind=kind, at_ms=NOW + number, workspace_id=workspace_id, data={"number": number}
    )


def take(conn: Connection, webhook: str = "ops", at_ms: int = NOW, holder: str = "a") -> Delivery | None:
    return claim(conn, webhook, holder, at_ms, lease_ms=1000, again_ms=500)


async def put(store: Store, *found: Alert, to: tuple[Subscription, ...] = (OPS,)) -> list[Alert]:
    return await store.write(lambda conn: append(conn, found, to))


@each_database
async def test_a_webhook_gets_its_alerts_in_order_and_each_until_it_has_it(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await put(store, an_alert(1), an_alert(2))
        await put(store, an_alert(3))
        assert await put(store, an_alert(2)) == []
        first = await store.write(take)
        assert first is not None
        assert (first.id, first.attempts) == ("alert_1", 1)
        assert await store.write(take) is None, "it is being sent, and the next ones wait behind it"
        late = await store.write(partial(take, at_ms=NOW + 500))
        assert late is not None
        assert (late.id, late.attempts) == ("alert_1", 2), "nothing was heard of the attempt"
        await store.write(lambda conn: mark_failed(conn, late, "answered 500", next_ms=NOW + 900, given_up_ms=None))
        assert await store.write(partial(take, at_ms=NOW + 899)) is None
        again = await store.write(partial(take, at_ms=NOW + 900))
        assert again is not None
        await store.write(lambda conn: mark_delivered(conn, again, NOW + 901))
        await store.write(lambda conn: mark_failed(conn, late, "too late", next_ms=0, given_up_ms=NOW))
        second = await store.write(partial(take, at_ms=NOW + 902))
        assert second is not None
        assert second.id == "alert_2"
        await store.write(lambda conn: mark_failed(conn, second, "answered 404", next_ms=0, given_up_ms=NOW + 903))
        third = await store.write(partial(take, at_ms=NOW + 904))
        assert third is not None
        assert third.id == "alert_3"
        (waiting,) = await store.read(backlogs)
        assert (waiting.webhook, waiting.waiting, waiting.oldest_ms) == ("ops", 1, NOW + 3)
        rows = await store.read(lambda conn: list_alerts(conn, limit=10))
        assert [row.id for row in rows] == ["alert_3", "alert_2", "alert_1"]
        found = await store.read(lambda conn: deliveries_of(conn, [row.seq for row in rows]))
        states = [found[row.seq][0] for row in rows]
        assert [(each.delivered_ms, each.given_up_ms, each.error, each.attempts) for each in states] == [
            (None, None, None, 1),
            (None, NOW + 903, "answered 404", 1),
            (NOW + 901, None, None, 3),
        ]


@each_database
async def test_only_the_holder_of_the_lease_claims_until_it_expires(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await put(store, an_alert(1))
        assert await store.write(take) is not None
        assert await store.write(partial(take, at_ms=NOW + 600, holder="b")) is None
        assert await store.read(lambda conn: has_lease(conn, LEASE, "b", NOW + 600)) is False
        assert await store.read(lambda conn: has_lease(conn, LEASE, "a", NOW + 600)) is True
        assert await store.read(lambda conn: has_lease(conn, LEASE, "a", NOW + 1000)) is None
        taken = await store.write(partial(take, at_ms=NOW + 1000, holder="b"))
        assert taken is not None
        assert taken.attempts == 2
        assert await store.write(partial(take, at_ms=NOW + 1600, holder="a")) is None
        await store.write(lambda conn: release_lease(conn, LEASE, "b"))
        assert await store.write(partial(take, at_ms=NOW + 1600, holder="a")) is not None


@each_database
async def test_who_is_told(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        team = await new_workspace(store, "team")
        every = (
            OPS,
            Subscription(name="by name", workspace="team"),
            Subscription(name="by id", workspace=team.id),
            Subscription(name="nobody", workspace="no such"),
            Subscription(name="money", events=("budget", "credit")),
        )
        await put(
            store,
            an_alert(1, workspace_id=team.id),
            an_alert(2, workspace_id="default"),
            an_alert(3, "provider.down", None),
            to=every,
        )
        found = await store.read(lambda conn: deliveries_of(conn, [1, 2, 3]))
        assert [sorted(each.webhook for each in found[seq]) for seq in (1, 2, 3)] == [
            ["by id", "by name", "money", "ops"],
            ["money", "ops"],
            ["ops"],
        ]
        own = await store.read(lambda conn: list_alerts(conn, workspace_id=team.id))
        assert [row.id for row in own] == ["alert_1"]


@each_database
async def test_two_processes_that_find_the_same_report_it_once(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        finding = Finding(
            subject="provider:x", level=1, kinds=((1, "provider.down"),), basis=NOW, end_kind="provider.back"
        )
        (one,), (other,) = changes_of({}, [finding], NOW), changes_of({}, [finding], NOW + 5)

        def report(holder: str, change: Change, conn: Connection) -> list[Alert]:
            take_lease(conn, LEASE, holder, NOW, 0)
            return append(conn, save_changes(conn, [change]), [OPS])

        told = await asyncio.gather(
            store.write(partial(report, "a", one)), store.write(partial(report, "b", other)), return_exceptions=False
        )
        assert sorted(map(len, told)) == [0, 1]
        known = await store.read(lambda conn: conditions_of(conn, "provider:"))
        (back,) = changes_of(known, [Finding(subject="provider:x", level=0, kinds=(), end_kind="provider.back")], NOW)
        assert [alert.kind for alert in await store.write(partial(report, "a", back))] == ["provider.back"]
        assert await store.read(lambda conn: conn.execute(select(alert_conditions)).all()) == []
        assert await store.read(lambda conn: [row.seq for row in list_alerts(conn)]) == [2, 1]


def charge(account: str, workspace_id: str, key_id: str | None, spent: int, conn: Connection) -> None:
    conn.execute(
        insert(accounts).values(id=account, workspace_id=workspace_id, key_id=key_id, granted=0, spent=spent, held=7)
    )


async def levels(store: Store, since_ms: int = NOW, **more: Any) -> dict[str, int]:
    rules = Thresholds(**more)
    found = await store.read(lambda conn: find_money(conn, rules, NOW, since_ms))
    return {finding.subject: finding.level for finding in found if finding.level}


@each_database
async def test_budgets_of_the_current_period(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        limits: dict[str, tuple[str, str, int]] = {
            "half": ("day", "2025-11-15", 500),
            "much": ("week", "2025-W46", 899),
            "all": ("month", "2025-11", 1000),
            "little": ("total", "total", 499),
            "yesterday": ("day", "2025-11-14", 1000),
        }
        ids = {}
        for name, (period, account, spent) in limits.items():
            key = (await new_key(store, name, budget_nano=1000, budget_period=period)).key
            ids[name] = key_account(key.id, account)
            await store.write(partial(charge, ids[name], "default", key.id, spent))
        assert await levels(store) == {ids["half"]: 50, ids["much"]: 80, ids["all"]: 100}
        assert await levels(store, budget_percent=(100,)) == {ids["all"]: 100}
        assert await levels(store, budget_percent=()) == {}
        (found,) = [
            finding
            for finding in await store.read(lambda conn: find_money(conn, RULES, NOW, NOW))
            if finding.subject == ids["half"]
        ]
        assert found.data | {"key": None} == {
            "workspace": {"id": "default", "name": "default"},
            "key": None,
            "period": "day",
            "limit_usd": "0.000001",
            "spent_usd": "0.0000005",
            "reserved_usd": "0.000000007",
            "resets_at": "2025-11-16T00:00:00Z",
        }

        def refuse(conn: Connection) -> None:
            names = {row.name: row.id for row in conn.execute(select(keys.c.id, keys.c.name))}
            conn.execute(update(accounts).where(accounts.c.id == ids["much"]).values(spent=900))
            rows = [(1, "much", "budget_exceeded"), (2, "half", "budget_exceeded"), (3, "little", "upstream_timeout")]
            insert_rows(conn, [request_row(n, at_ms=NOW, key_id=names[name], error=error) for n, name, error in rows])

        await store.write(refuse)
        assert await levels(store) == {ids["half"]: 50, ids["much"]: 100, ids["all"]: 100}, (
            "refused, and little is left"
        )
        assert (await levels(store, since_ms=NOW + 1))[ids["much"]] == 80


@each_database
async def test_a_budget_is_used_up_by_the_refusals_of_its_own(database: str, tmp_path: Path) -> None:
    """Not by those of another budget that the same requests are charged to."""
    async with store_on(database, tmp_path) as store:
        one, two = [
            (await new_key(store, name, budget_nano=1000, budget_period="total")).key.id for name in ("one", "two")
        ]
        pers: tuple[tuple[str, Per], ...] = (("team", "workspace"), ("each", "key"), ("ours", "user"))
        rules = tuple(
            LimitRule(name=name, per=per, budget_nano=1000, budget_period="day", alert_percent=(80, 100))
            for name, per in pers
        )
        ann = digest_of_user("ann")
        ids = {
            "key": key_account(one, "total"),
            "team": "rule:default:team:workspace:-::2025-11-15",
            "each": f"rule:default:each:key:-:{one}:2025-11-15",
            "ours": f"rule:default:ours:user:{ann}::2025-11-15",
        }

        def fill(conn: Connection) -> None:
            rule_accounts.add_scopes(conn, [id for id in ids.values() if id.startswith("rule:")])
            for id in ids.values():
                rule = {"until_ms": span_of("2025-11-15")[1] * HOUR_MS} if id.startswith("rule:") else {"key_id": one}
                row = {"id": id, "workspace_id": "default", "granted": 0, "spent": 950, "held": 0, **rule}
                conn.execute(insert(accounts).values(row))

        async def used_up(key: str, budget: str, user: str = "ann") -> set[str]:
            def work(conn: Connection) -> dict[str, int]:
                conn.execute(delete(requests))
                refusal = f'{{"message":"too little","budget":"{budget}"}}'
                row = request_row(
                    1,
                    at_ms=NOW,
                    workspace_id="default",
                    key_id=key,
                    error="budget_exceeded",
                    end_user=user,
                    refusal=refusal,
                )
                insert_rows(conn, [row])
                return {each.subject: each.level for each in find_money(conn, Thresholds(rules=rules), NOW, NOW)}

            found = await store.write(work)
            return {name for name, id in ids.items() if found[id] == 100}

        await store.write(fill)
        assert await used_up(one, "key") == {"key"}
        assert await used_up(two, "key") == set()
        assert await used_up(two, "team") == {"team"}
        assert await used_up(two, "each") == set()
        assert await used_up(one, "each") == {"each"}
        assert await used_up(two, "ours") == {"ours"}
        assert await used_up(two, "ours", "bob") == set()


def each_user(budget_nano: int, **more: Any) -> Thresholds:
    rule = LimitRule(name="a_b", per="user", budget_nano=budget_nano, budget_period="day", **more)
    return Thresholds(rules=(rule,))


def spend(users: Mapping[str, int], day: str, conn: Connection) -> None:
    """And as much in accounts that are not of this rule."""
    rule_accounts.add_scopes(conn, ["rule:default:a_b:user:-::total", "rule:default:axb:user:-::total"])
    for user, spent in users.items():
        digest = digest_of_user(user)
        for id in (f"rule:default:{name}:user:{digest}::{day}" for name in ("a_b", "axb")):
            row = {"id": id, "workspace_id": "default", "granted": 0, "spent": spent, "held": 0}
            conn.execute(insert(accounts).values(**row, until_ms=span_of(day)[1] * HOUR_MS))
        values = dict.fromkeys(SUMS, 1) | {"kind": "end_user", "value": user, "digest": digest, "day": 1}
        conn.execute(insert(attribution_days).values(**values, workspace_id="default", key_id="k"))


@each_database
async def test_end_users_are_reported_if_the_rule_says_at_which_percentages(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        await new_key(store, "k")
        users = {"": 500, "ann": 799, "bob": 800, "cid": 1000, "dan": 499, "eve": 950}
        await store.write(partial(spend, users, "2025-11-15"))
        await store.write(partial(spend, dict.fromkeys(("flo",), 1000), "2025-11-14"))
        refused = {"at_ms": NOW, "workspace_id": "default", "error": "budget_exceeded"}
        rows = [request_row(n, **refused, end_user=user) for n, user in enumerate(("ann", "eve", "none"))]
        await store.write(lambda conn: insert_rows(conn, rows))

        async def found(rules: Thresholds) -> dict[str | None, int]:
            """What is reported."""
            news = await store.read(lambda conn: find_money(conn, rules, NOW, NOW))
            known = await store.read(lambda conn: read_conditions(conn, [each.subject for each in news]))
            alerts = await store.write(lambda conn: save_changes(conn, changes_of(known, news, NOW)))
            return {each.data["end_user"]: each.data["percent"] for each in alerts}

        assert await found(each_user(1000)) == {}
        assert await found(each_user(1000, alert_percent=())) == {}
        assert await found(each_user(1000, alert_percent=(80, 50))) == {
            None: 50,
            "ann": 50,
            "bob": 80,
            "cid": 80,
            "eve": 80,
        }
        assert await found(each_user(1000, alert_percent=(80, 50))) == {}, "once"
        assert await found(each_user(1000, alert_percent=(50, 80, 100))) == {"cid": 100, "eve": 100}, (
            "refused, and little is left; not who was refused and has more"
        )
        assert await found(each_user(2000, alert_percent=(50,))) == {}, "the limit was raised"
        assert await found(each_user(1600, alert_percent=(50,))) == {"bob": 50, "eve": 50}
        assert await found(each_user(1598, alert_percent=(50,))) == {"ann": 50}


@each_database
async def test_some_end_users_of_very_many_at_a_time(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_rules, "MAX_USERS", 2)
    async with store_on(database, tmp_path) as store:
        await new_key(store, "k")
        await store.write(partial(spend, {f"user {number}": 1000 for number in range(5)}, "2025-11-15"))
        counts: list[int] = []
        while not counts or counts[-1]:
            news = await store.read(lambda conn: find_money(conn, each_user(1000, alert_percent=(100,)), NOW, NOW))
            changes = changes_of({}, news, NOW)
            counts.append(len(await store.write(partial(save_changes, changes=changes))))
        assert counts == [2, 2, 1, 0]


@each_database
async def test_a_budget_about_which_something_was_reported_is_read_when_its_limit_is_raised(
    database: str, tmp_path: Path
) -> None:
    async with store_on(database, tmp_path) as store:
        key = (await new_key(store, "k", budget_nano=1000, budget_period="total")).key
        account = key_account(key.id, "total")
        await store.write(partial(charge, account, "default", key.id, 800))

        async def told() -> list[Any]:
            def work(conn: Connection) -> list[Alert]:
                found = find_money(conn, RULES, NOW, NOW)
                known = read_conditions(conn, [each.subject for each in found])
                return save_changes(conn, changes_of(known, found, NOW))

            return [alert.data["percent"] for alert in await store.write(work)]

        assert await told() == [50, 80]
        assert await told() == []
        change = KeyChange(budget_nano=10_000)
        await store.write(lambda conn: change_key(conn, key.id, change, actor="cli", at_ms=NOW))
        assert await told() == []
        await store.write(lambda conn: conn.execute(update(accounts).values(spent=5000)))
        assert await told() == [50]


@each_database
async def test_credit_of_prepaid_workspaces(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:
        spent = {"rich": 1, "low": 6, "gone": 10, "refused": 8}
        ids = {}
        for name, dollars in spent.items():
            ids[name] = (await new_workspace(store, name, prepaid=True)).id
            await store.write(
                partial(add_credit, workspace_id=ids[name], amount_nano=10 * NANO, actor="cli", at_ms=NOW)
            )
            where = accounts.c.id == f"ws:{ids[name]}"
            statement = update(accounts).where(where).values(spent=dollars * NANO)
            await store.write(partial(Connection.execute, statement=statement))
        await new_workspace(store, "never had any", prepaid=True)
        postpaid = (await new_workspace(store, "pays later")).id
        await store.write(partial(add_credit, workspace_id=postpaid, amount_nano=1, actor="cli", at_ms=NOW))
        row = request_row(1, at_ms=NOW, workspace_id=ids["refused"], error="insufficient_quota")
        await store.write(lambda conn: insert_rows(conn, [row]))
        assert await levels(store) == {f"ws:{ids['low']}": 1, f"ws:{ids['gone']}": 2, f"ws:{ids['refused']}": 2}
        assert await levels(store, credit_low_nano=0) == {f"ws:{ids['gone']}": 2}


@each_database
async def test_error_rates_of_workspaces_and_of_all(database: str, tmp_path: Path) -> None:
    minute = NOW // 60_000

    def used(conn: Connection, workspace_id: str, requests: int, errors: int, at: int) -> None:
        sums = dict.fromkeys(SUMS, 0) | {"requests": requests, "errors": errors}
        conn.execute(
            insert(usage_minutes).values(
                minute=at, workspace_id=workspace_id, key_id="k", model=str(at), provider="p", **sums
            )
        )

    async def rates(store: Store, *reported: str) -> dict[str, tuple[int, Any]]:
        known = {f"{ERRORS}{each}": Condition(subject=f"{ERRORS}{each}", level=1, basis=1) for each in reported}
        found = await store.read(lambda conn: find_errors(conn, RULES, known, NOW))
        return {each.subject: (each.level, each.data["error_percent"]) for each in found}

    async with store_on(database, tmp_path) as store:
        assert await rates(store) == {}
        await store.write(lambda conn: used(conn, "one", 19, 19, minute))
        await store.write(lambda conn: used(conn, "one", 1000, 1000, minute - 5))
        assert await rates(store) == {}, "too few, and the others are too old"
        await store.write(lambda conn: used(conn, "one", 1, 0, minute - 4))
        assert await rates(store) == {"errors:one": (1, 95.0)}
        assert await rates(store, "", "one") == {}, "all together are bad still, although only one is left"
        await store.write(lambda conn: used(conn, "two", 80, 0, minute - 1))
        assert await rates(store) == {"errors:one": (1, 95.0)}
        assert await rates(store, "", "one", "two", "three") == {"errors:two": (0, 0.0), "errors:three": (0, 0.0)}
        await store.write(lambda conn: used(conn, "two", 100, 0, minute - 2))
        assert await rates(store, "", "one") == {"errors:": (0, 9.5)}


@each_database
async def test_old_alerts_are_deleted_and_what_was_reported_stays(database: str, tmp_path: Path) -> None:
    day = 86_400_000

    def fill(conn: Connection) -> None:
        append(conn, [an_alert(-40 * day), an_alert(-20 * day)], [OPS])
        for subject, until_ms in (("total", None), ("this month", NOW), ("long ago", NOW - 40 * day)):
            conn.execute(insert(alert_conditions).values(subject=subject, level=1, basis=1, until_ms=until_ms))
        write_heartbeat(conn, "alive", "node", NOW)
        for instance in ("alive", "gone"):
            write_signs(conn, instance, {"up": ProviderSigns(1, 1)})
            write_report(conn, instance, "{}", NOW)

    async with store_on(database, tmp_path) as store:
        await store.write(fill)
        purged = await purge(store, "me", lambda: NOW, pause_s=0)
        assert purged == Purged(alerts=1, alert_conditions=1, provider_signs=1, health_reports=1)
        (row,) = await store.read(list_alerts)
        assert row.id == f"alert_{-20 * day}"
        assert len((await store.read(lambda conn: deliveries_of(conn, [1, 2])))[1]) == 0
        known = await store.read(lambda conn: conditions_of(conn, ""))
        assert sorted(known) == ["this month", "total"]
        await put(store, an_alert(1))
        assert (await store.read(list_alerts))[0].seq == 3, "no number is used twice"


@each_database
async def test_signs_of_processes_that_are_alive(database: str, tmp_path: Path) -> None:
    async with store_on(database, tmp_path) as store:

        def write(conn: Connection) -> None:
            for instance, seen_ms in (("a", NOW), ("b", NOW), ("dead", NOW - 10), ("stopped", NOW)):
                write_heartbeat(conn, instance, "node", seen_ms)
                write_signs(conn, instance, {"up": ProviderSigns(1, None)})
            retire(conn, "stopped", NOW)
            write_signs(conn, "a", {"up": ProviderSigns(None, 2)})
            write_signs(conn, "own", {"up": ProviderSigns(3, 4)})

        await store.write(write)
        assert await store.read(lambda conn: read_signs(conn, NOW, "own")) == {
            "up": {"a": ProviderSigns(None, 2), "b": ProviderSigns(1, None), "own": ProviderSigns(3, 4)}
        }
