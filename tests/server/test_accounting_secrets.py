"""No secret, and no prompt without `log_content`, is stored or shown (S6, S8, S22).

One gateway with a real database goes through everything that can happen to a request: answers, every refusal, an
unavailable database and Valkey, a failing disk, a bug, a row that no database accepts; the admin API and the command
line are used too, correctly and incorrectly. Then everything is searched for every canary: log, answers, metrics, every
row of every table, the files of the database, of the journal and of the quarantine, and the output of the commands.
Requested content is stored, without the secrets in it.
"""

import asyncio
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec import structs

from streamweir.policy.secret import csrf_of
from streamweir.server.accounting.request_row import row_of
from streamweir.server.request.attempt import attempt_builder
from streamweir.server.telemetry.log import close_log, configure_log
from streamweir.store.journal.entries import Refused
from support.api import HOST, bearer
from support.canary import ANSWERS_MAY_HOLD, HEADERS, LOGS_MAY_HOLD, PATH, C, ask, requests, rows_of
from support.canary_gateway import KEPT, B, Drive, driving
from support.deadlines import PROGRAM_TIMEOUT_S, WAIT_TIMEOUT_S
from support.failing_disk import FailingDisk
from support.fleet import shared_of
from support.gateway import chat_request, configured, gateway, until
from support.soak import part_of

NEVER = 2**63
"""What no column takes."""
ONE_AT_A_TIME: dict[str, Any] = {"stream": True, "max_tokens": 5}


async def ask_with_keys_in_headers(drive: Drive) -> None:
    """Wherever a caller may write something that is kept: any key by its shape, its own whatever that is."""
    key, plain, opaque = C["key of a caller"], B["key of a caller without a shape"], C["another form of it"]
    for sent in (key, B["key in a user-agent"], C["key of a provider"]):
        agents = (sent, f"app/1.0 ({sent})", f"app/1.0 key={sent}", f"Bearer {sent}")
        told = [(("user-agent", agent), ("x-request-id", sent)) for agent in (*agents, opaque)]
        assert set(await drive.send(*(ask("openai/m", key, headers) for headers in told))) == {200}
    for own, status in ((plain, 200), (opaque, 429)):
        headers = (("user-agent", f"app/1.0 {own}"), ("x-request-id", own))
        assert await drive.send(ask("openai/m", own, headers)) == [status]
    odd: dict[str, Any] = {f"x-{key}": 1, "logit_bias": {"50256": -100}, key: {"a": 1}}
    statuses = await drive.send(*(ask(f"{kind}/m", key, **odd) for kind in ("openai", "anthropic", "gemini")))
    assert statuses == [200, 200, 200]


async def be_refused(drive: Drive) -> None:
    """For every reason that the books have. Keys of the store: made, rotated, revoked."""
    setup, names = drive.setup, {}
    names["plain"] = await setup.new_key("stored", rpm=1000)
    names["revoked"] = await setup.new_key("revoked")
    names["old"] = await setup.new_key("rotated")
    names["new"] = await setup.rotate(names["old"], grace_ms=0)
    names["reader"] = await setup.new_key("reader", scopes=("models",))
    names["narrow"] = await setup.new_key("narrow", models=("priced",))
    names["single"] = await setup.new_key("single", rpm=1)
    names["slow"] = await setup.new_key("slow", tpm=1)
    names["unpaid"] = await setup.new_key("unpaid", await setup.new_workspace("unpaid", 0))
    drive.canary_set.add(**{f"stored_key_{name}": secret for name, secret in names.items()})
    await setup.revoke(names["revoked"])
    told = {
        "plain": [200],
        "revoked": [401],
        "old": [401],
        "new": [200],
        "reader": [403],
        "narrow": [404],
        "single": [200, 429],
        "slow": [200, 429],
        "unpaid": [403],
    }
    for name, statuses in told.items():
        for status in statuses:
            assert await drive.send(ask("openai/m", names[name], **ONE_AT_A_TIME)) == [status], name
    assert await drive.send(ask("priced", names["unpaid"]), ask("priced", B["key with a budget"])) == [429, 429]
    assert await drive.send(ask(C["key of a provider"], names["plain"])) == [404]
    # Said to its own caller, and nowhere else: it is what was asked for.
    assert C["key of a provider"].encode() in drive.answers.pop().body


async def ask_twice(drive: Drive) -> None:
    """With an Idempotency-Key: again, which gets the answer of the first time, and for something else."""
    key, headers = C["key of a caller"], (*HEADERS, ("idempotency-key", B["Idempotency-Key"]))
    for members, status in ((ONE_AT_A_TIME, 200), (ONE_AT_A_TIME, 200), ({"max_tokens": 6}, 409)):
        assert await drive.send(ask("openai/m", key, headers, **members)) == [status]


async def be_watched(drive: Drive) -> None:
    """By a key whose content is kept. Secrets stand in the prompt, in the answer and in an error of the upstream."""
    said = f"{B['kept prompt']} {C['key of a caller']} {drive.api.secret} {B['key of a caller without a shape']}"
    messages = [{"role": "user", "content": said}]
    for model, status in (("plain/m", 200), ("plain/401", 502), ("openai/m", 200)):
        request = chat_request(path=PATH, key=B["key that is watched"], model=model, messages=messages, stream=True)
        assert await drive.send(request) == [status]
    for reply in drive.answers[-3::2]:  # what the model says is the caller's
        assert C["key of a provider"][20:].encode() in reply.body
    del drive.answers[-3], drive.answers[-1]


async def lose_the_database(drive: Drive) -> None:
    key = C["key of a caller"]
    async with drive.database_away():
        assert await drive.send(ask("openai/m", key, stream=True), ask("openai/400", key, stream=True)) == [200, 400]
        headers = (*HEADERS, ("idempotency-key", B["Idempotency-Key"] + "2"))
        assert await drive.send(ask("openai/m", key, headers)) == [503]
        await until(lambda: drive.setup.writer.is_unavailable)
        journals = [name for name in drive.search_files() if name.endswith(".journal")]
        assert journals
        assert drive.setup.storage.journal.unapplied_bytes > 0, "what is searched is there"
        await drive.call("GET", "/api/keys", **drive.api.operator)
    assert await drive.setup.writer.flush(PROGRAM_TIMEOUT_S)


async def lose_the_rest(drive: Drive, disk: FailingDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Valkey; the disk of the journal; what no database takes; and a bug."""
    key, setup = C["key of a caller"], drive.setup
    if drive.valkey is not None:
        valkey = shared_of(setup)._valkey
        valkey._timeout_s = 0.5
        drive.valkey.pause()
        assert await drive.send(ask("openai/m", key)) == [200]
        drive.valkey.resume()
        valkey._timeout_s = PROGRAM_TIMEOUT_S
    disk.failures["fdatasync"] = 1
    assert set(await drive.send(ask("openai/m", key), ask("openai/m", key))) <= {200, 503}
    row = structs.replace(row_of(setup.gate.records[0], "here"), request_id="req_poison", bytes_in=NEVER)
    setup.writer.put(Refused(row=row), required=True)
    assert await setup.writer.flush(PROGRAM_TIMEOUT_S)
    assert "journal/quarantine.jsonl" in drive.search_files()
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        while await drive.send(ask("openai/m", key)) == [503]:  # until the disk is tried again
            continue

    def broken(*_: object) -> None:
        raise RuntimeError(f"a bug that knows {key}, {drive.api.secret} and {B['key in a user-agent']}")

    with monkeypatch.context() as patched:
        patched.setattr(attempt_builder, "make_exchange", broken)
        assert await drive.send(ask("openai/m", key), ask("openai/m", B["key that is watched"])) == [500, 500]


async def administer(drive: Drive) -> None:
    """Rightly and wrongly."""
    api, canary_set = drive.api, drive.canary_set
    login = await drive.call("POST", "/api/session", body={"secret": api.secret})
    token = login.headers["set-cookie"].partition("=")[2].partition(";")[0]
    assert login.json()["csrf"] == csrf_of(token)
    canary_set.add(session_cookie=token, csrf_token=csrf_of(token))
    page = {"cookie": f"streamweir={token}", "x-csrf-token": csrf_of(token), "origin": f"http://{HOST}"}
    await drive.call("GET", "/api/session", "csrf token", headers=page)
    made = await drive.call("POST", "/api/keys", headers=page, body={"name": "made", "workspace": "default"})
    canary_set.add(key_of_the_api=made.json()["secret"])
    secret, id = made.json()["secret"], made.json()["id"]
    wrong = [
        {"body": {"secret": secret}},
        {"body": {"secret": [secret]}},
        {"body": {"secrets": secret}},
        {"body": {"secret": secret * 100}},
        {"raw": secret.encode(), "headers": {"content-type": "application/json"}},
        {"raw": json.dumps({"secret": secret}).encode(), "headers": {"content-type": secret}},
    ]
    for number, more in enumerate(wrong):
        assert (await drive.call("POST", "/api/session", peer=f"192.0.2.{number}", **more)).status_code >= 400
    for role in ({"headers": page}, {"headers": {**page, "x-csrf-token": secret}}, bearer(secret), bearer(token)):
        for path in ("/api/keys", "/api/requests", "/api/audit", "/api/ledger", "/api/live", "/api/usage", "/api/nope"):
            await drive.call("GET", f"{path}?x={C['query string']}", "query string", **role)
            await drive.call("GET", path, **role)
        await drive.call("POST", f"/api/keys/{id}/rotate", "key of the api", body={"grace_s": secret}, **role)
    for path in ("workspaces", "keys", f"keys/{id}", "credits", "ledger", "requests", "usage", "live", "providers"):
        assert (await drive.call("GET", f"/api/{path}", **api.operator)).status_code == 200, path
    for path in ("prices?provider=openai", "audit", "audit/verify", "check", "openapi.json"):
        assert (await drive.call("GET", f"/api/{path}", **api.operator)).status_code == 200, path
    assert (await drive.call("GET", f"/api/keys/{secret}", **api.operator)).status_code == 404
    await drive.send(ask("openai/m", token), ask("openai/m", api.secret), ask("openai/m", secret, tuple(page.items())))
    heads = [f"authorization: Bearer {sent}" for sent in (api.secret, secret, token, "wrong")]
    for head in (*heads, f"cookie: streamweir={token}"):  # on the gateway's own port
        paths = [f"/api/{path}?token={C['query string']}" for path in ("keys", "audit", "nope")]
        statuses = await drive.send(*(f"GET {path} HTTP/1.1\r\nhost: x\r\n{head}\r\n\r\n".encode() for path in paths))
        assert set(statuses) <= {200, 400, 401, 403, 404}


async def look_at_contents(drive: Drive) -> None:
    """What was asked for is kept, and told to those who may see it; no secret in it."""
    await until(lambda: not drive.setup.storage.contents._waiting)
    operator = drive.api.operator
    rows = (await drive.call("GET", "/api/requests?limit=1000", **operator)).json()["data"]
    kept = [row["request_id"] for row in rows if row["has_content"]]
    assert len(kept) == 3
    for id in kept:
        reply = await drive.call("GET", f"/api/requests/{id}/content", *KEPT, "host of a provider", **operator)
        assert B["kept prompt"] in reply.json()["prompt"]


async def use_the_command_line(drive: Drive) -> None:
    """All that only looks, and what makes secrets: they are told once, on the output."""
    made = json.loads(await drive.run("keys", "create", "typed", "--json"))
    drive.commands.pop()
    drive.canary_set.add(key_of_the_command_line=made["secret"])
    for words in (
        ("keys", "list", "--all"),
        ("keys", "list", "--json"),
        ("keys", "show", "typed"),
        ("credits", "show"),
        ("credits", "show", "default", "--json"),
        ("credits", "check"),
        ("workspaces", "list", "--json"),
        ("admin", "audit", "--limit", "1000", "--json"),
        ("admin", "audit"),
        ("logs", "-n", "1000"),
        ("logs", "-n", "1000", "--json"),
    ):
        await drive.run(*words)
    await drive.run("logs", made["secret"], status=1)
    await drive.run("keys", "show", made["secret"], status=1)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    written = io.StringIO()
    yield written
    close_log()


@pytest.mark.parametrize(("database", "form"), part_of([("sqlite", "json"), ("postgres", "text")], 2))
async def test_no_canary_is_stored_or_shown(
    database: str, form: Literal["json", "text"], log: io.StringIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_log(form, log, level="debug")
    disk = FailingDisk(monkeypatch)
    async with driving(database, tmp_path) as drive:
        up, setup = drive.setup.up, drive.setup
        assert set(await drive.send(*requests())) >= {200, 400, 401, 404, 405, 415, 429, 502}
        await ask_with_keys_in_headers(drive)
        await be_refused(drive)
        await ask_twice(drive)
        await be_watched(drive)
        await lose_the_database(drive)
        await administer(drive)
        await lose_the_rest(drive, disk, monkeypatch)
        await look_at_contents(drive)
        await use_the_command_line(drive)
        await drive.send(b"GET /metrics HTTP/1.1\r\nhost: gateway\r\n\r\n")
        assert b"streamweir_requests_total" in drive.answers[-1].body
        await setup.gate.gateway.drained()
        assert await setup.writer.flush(PROGRAM_TIMEOUT_S)
        tables = await rows_of(setup.storage.store)
        drive.search_files()
        assert any(C["prompt"] in request.body.decode() for request in up.requests), "they do arrive where they belong"
    close_log()

    lines = log.getvalue()
    assert "internal error" in lines
    assert "accounting: database away" in lines
    assert "accounting: entry quarantined" in lines
    assert drive.hits(lines, *LOGS_MAY_HOLD) == []
    assert lines.replace("\n", "").isprintable()
    for table, rows in tables.items():
        assert drive.hits(rows, *((*KEPT, "host of a provider") if table == "contents" else ())) == [], table
    assert all(drive.canary_set.canaries[name] in tables["contents"] for name in KEPT)
    assert tables["requests"].count("req_") > 80
    for reply in drive.answers:
        text = reply.head + reply.body
        assert drive.hits(text, *ANSWERS_MAY_HOLD) == [], text[:300]
        assert b"Traceback" not in text
    for output in drive.commands:
        assert drive.hits(output) == [], output[:300]
    drive.search_files()


async def test_a_reload_brings_new_secrets(tmp_path: Path) -> None:
    """They are taken out of content from then on, whatever their shape."""
    toml = '[[providers]]\nname = "up"\nkind = "openai"\napi_key = "{key}"\n[store]\nurl = "sqlite:///b.db"\n'
    async with gateway(toml.format(key="canary.provider.key"), data_dir=tmp_path) as gate:
        storage = gate.gateway.storage
        assert storage is not None
        said = "canary.provider.key, canary.another.key"
        assert storage.contents.redactor.text(said) == "***, canary.another.key"
        gate.gateway.reload(configured(toml.format(key="canary.another.key")))
        assert storage.contents.redactor.text(said) == "***, ***", "streams may still go by the old one"
        gate.gateway.reload(configured(toml.format(key="canary.another.key")))
        assert storage.contents.redactor.text(said) == "canary.provider.key, ***"
