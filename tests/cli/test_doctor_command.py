"""`streamweir doctor`: providers and stores on real sockets and files, and what is wrong with a machine."""

import asyncio
import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from email.utils import formatdate
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from streamweir.cli.commands.doctor.command import _masked
from streamweir.cli.commands.doctor.finding import fail
from streamweir.cli.commands.doctor.machine import check_machine
from streamweir.cli.find import LocalGateway
from streamweir.cli.main import main
from streamweir.config.load import parse_config
from streamweir.config.model import Config
from support.collector import HANG, Collector
from support.oidc_server import OidcServer
from support.oidc_server import toml as oidc_table
from support.old_databases import VERSIONS, restore
from support.script import Hang, Head, Seen, Step, whole
from support.scripted_upstream import ScriptedUpstream
from support.stores import migrated_url
from support.valkey import ValkeyServer

CANARY = "canary-4f9a0c7be2d85163"
LIST = b'{"object": "list", "data": []}'


async def diagnose(folder: Path, toml: str, *words: str, status: int) -> dict[str, dict[str, Any]]:
    """By their subjects."""
    file = folder / "streamweir.toml"
    file.write_text(toml)
    file.chmod(0o600)
    command = ["doctor", "--json", "--config", str(file), "--data-dir", str(folder / "data"), *words]
    done = await asyncio.to_thread(partial(CliRunner().invoke, main, command))
    assert isinstance(done.exception, SystemExit | None), "nothing unforeseen"
    assert CANARY not in done.output
    assert done.exit_code == status, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert all(each["advice"] for each in found if each["outcome"] != "ok"), "what to do"
    return {each["subject"]: each for each in found}


def provider(name: str, base_url: str, kind: str = "openai", key: str = f'api_key = "{CANARY}"') -> str:
    return f'[[providers]]\nname = "{name}"\nkind = "{kind}"\nbase_url = "{base_url}/{name}"\n{key}\n'


async def test_each_key_of_each_provider_is_tried_at_its_own_list_of_models(tmp_path: Path) -> None:
    ahead = ("date", formatdate(time.time() + 600, usegmt=True))
    seen: dict[str, Seen] = {}

    def answer(request: Seen) -> Sequence[Step]:
        seen[request.path.split("/")[-2]] = request
        refusal = json.dumps({"error": {"message": f"Incorrect API key provided: {CANARY}"}}).encode()
        if "/invalid/" in request.path:  # how Google says it
            message = "API key not valid. Please pass a valid API key."
            details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
            body = {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT", "details": details}}
            return whole(json.dumps(body).encode(), status=400, headers=(ahead,))
        status = {"refused": 401, "bare": 404, "down": 503, "busy": 429}.get(request.path.split("/")[-2], 200)
        if request.headers.get("authorization", "").endswith("-2"):
            status = 401
        return whole(LIST if status == 200 else refusal, status=status, headers=(ahead,))

    async with ScriptedUpstream(answer) as up:
        toml = "".join(
            [
                provider("good", up.base_url, key=f'api_keys = ["{CANARY}", {{ name = "old", key = "{CANARY}-2" }}]'),
                provider("claude", up.base_url, "anthropic"),
                provider("google", up.base_url, "gemini"),
                provider("invalid", up.base_url, "gemini"),
                *(provider(name, up.base_url) for name in ("refused", "bare", "down", "busy")),
                provider("gone", "http://127.0.0.1:1"),
                '[[providers]]\nname = "sim"\nkind = "sim"\n',
            ]
        )
        found = await diagnose(tmp_path, toml, status=1)
    outcomes = {name.removeprefix("provider "): each["outcome"] for name, each in found.items()}
    expected = {
        "good, key 1": "ok",
        "good, key old": "fail",
        "claude": "ok",
        "google": "ok",
        "invalid": "fail",
        "refused": "fail",
        "bare": "warn",
        "down": "fail",
        "busy": "warn",
        "gone": "fail",
        "sim": "ok",
        "clock": "fail",
    }
    assert {name: outcomes.get(name) for name in expected} == expected
    assert {each.method for each in seen.values()} == {"GET"}
    assert {each.path for each in seen.values()} == {f"/v1/{name}/models" for name in seen}
    assert seen["claude"].headers["x-api-key"] == CANARY
    assert "anthropic-version" in seen["claude"].headers
    assert seen["google"].headers["x-goog-api-key"] == CANARY
    assert found["provider refused"]["advice"] == "check the key, and where it comes from"
    assert "the firewall" in found["provider gone"]["advice"]
    assert "s behind the providers' time" in found["clock"]["message"]


async def test_a_provider_that_does_not_answer_does_not_hold_it(tmp_path: Path) -> None:
    async with ScriptedUpstream([Hang()]) as up:
        found = await diagnose(tmp_path, provider("slow", up.base_url), "--timeout", "0.1", status=1)
        await up.aborted(1)
    assert found["provider slow"]["outcome"] == "fail"


async def test_a_database_of_an_older_version_is_not_a_database_that_is_away(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    restore(VERSIONS[0], "sqlite", tmp_path / "data")
    found = (await diagnose(tmp_path, "[server]\n", status=1))["database"]
    assert "has the schema 0001" in found["message"]
    assert found["advice"].startswith("make a backup, and start the gateway")


async def test_the_stores(tmp_path: Path) -> None:
    absent = await diagnose(tmp_path, "[server]\n", status=0)
    assert (absent["database"]["outcome"], absent["journal"]["outcome"]) == ("warn", "warn")
    assert not (tmp_path / "data").exists(), "nothing is created"
    (tmp_path / "data").mkdir(mode=0o700)
    await migrated_url("sqlite", tmp_path / "data")
    found = await diagnose(tmp_path, '[shared]\nurl = "redis://:' + CANARY + '@127.0.0.1:1"\n', status=1)
    assert found["database"]["message"].startswith(f"{tmp_path}/data/streamweir.db: the schema is that of this version")
    assert found["journal"]["outcome"] in ("ok", "warn"), "by how fast the disk is"
    assert found["valkey"]["message"] == "cannot connect to Valkey"
    assert not list((tmp_path / "data").glob(".doctor-*"))
    database = await migrated_url("postgres", tmp_path)
    with ValkeyServer() as valkey:
        toml = f'[store]\nurl = "{database}"\n[shared]\nurl = "{valkey.url}"\n'
        found = await diagnose(tmp_path, toml, status=0)
    assert (found["database"]["outcome"], found["valkey"]["outcome"]) == ("ok", "ok")
    away = await diagnose(tmp_path, f'[store]\nurl = "postgresql://u:{CANARY}@127.0.0.1:1/x"\n', status=1)
    assert away["database"]["outcome"] == "fail"


async def test_a_configuration_with_a_mistake_ends_it(tmp_path: Path) -> None:
    found = await diagnose(tmp_path, f'[[keys]]\nname = "a"\nkey = "{CANARY}"\nrmp = 1\n', status=1)
    assert list(found) == ["configuration"]
    assert "keys.a.rmp: unknown key" in found["configuration"]["message"]


def test_what_other_users_can_read(tmp_path: Path) -> None:
    data, file, variables = tmp_path / "data", tmp_path / "c.toml", tmp_path / "env"
    data.mkdir(mode=0o700)
    file.write_text(f'[server]\nlisten = "127.0.0.1:0"\n[[keys]]\nname = "a"\nkey = "{CANARY}"\n')
    variables.write_text("A=b\n")
    place = LocalGateway(data_dir=data, config_file=file, env_file=variables)

    def outcomes() -> list[str]:
        config = parse_config(file.read_text(), file, {"KEY": CANARY})
        found = check_machine(config, place)
        return [each.outcome for each in found if each.subject in ("data directory", "permissions")]

    for each in (file, variables):
        each.chmod(0o600)
    assert outcomes() == ["ok", "ok", "ok"]
    data.chmod(0o750)
    file.chmod(0o640)
    variables.chmod(0o604)
    assert outcomes() == ["warn", "fail", "fail"]
    file.write_text(file.read_text().replace(CANARY, "${KEY}"))
    assert outcomes() == ["warn", "ok", "fail"]


@pytest.mark.parametrize(
    "toml",
    [
        '[store]\nurl = "postgresql://gateway:{}@db.example/gateway"\n',
        '[shared]\nurl = "redis://:{}@valkey.example:6379/0"\n',
        '[telemetry]\nendpoint = "https://otel.example"\nproxy = "http://me:{}@proxy.example:3128"\n',
        '[[providers]]\nname = "up"\nkind = "openai"\napi_key = "${{KEY}}"\nproxy = "http://me:{}@proxy.example:3128"\n',
    ],
    ids=["store", "shared", "collector's proxy", "provider's proxy"],
)
def test_a_password_in_a_url_is_a_secret_that_other_users_can_read(tmp_path: Path, toml: str) -> None:
    file, place = tmp_path / "c.toml", LocalGateway(data_dir=tmp_path / "data", config_file=tmp_path / "c.toml")

    def outcome() -> str:
        config = parse_config(file.read_text(), file, {"KEY": CANARY, "PASSWORD": "p%40ss"})
        found = check_machine(config, place)
        return next(each.outcome for each in found if each.subject == "permissions")

    listen = '[server]\nlisten = "127.0.0.1:0"\n'
    file.write_text(listen + toml.format("p%40ss"))
    file.chmod(0o644)
    assert outcome() == "fail"
    file.chmod(0o600)
    assert outcome() == "ok"
    file.write_text(listen + toml.format("${PASSWORD}"))
    file.chmod(0o644)
    assert outcome() == "ok"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_that_root_has_left_in_the_data_directory(tmp_path: Path) -> None:
    (tmp_path / "prices.json").touch()
    tmp_path.chmod(0o700)
    os.chown(tmp_path, 54_321, -1)
    config = parse_config('[server]\nlisten = "127.0.0.1:0"\n', tmp_path / "x", {})
    (found,) = [
        each for each in check_machine(config, LocalGateway(data_dir=tmp_path)) if each.subject == "data directory"
    ]
    assert found.outcome == "fail"
    assert found.advice == f"chown -R 54321 {tmp_path}, and run commands as that user"


@pytest.mark.parametrize(
    ("knowledge", "outcome", "message"),
    [
        ({}, "ok", "reached, 1 keys; the redirect URI to register is http://127.0.0.1:1/api/oidc/callback"),
        ({"keys": []}, "fail", "it publishes no key that a token can be verified with"),
        ({"metadata": {"issuer": "https://other.example"}}, "fail", "the discovery document is of another issuer"),
        (
            {"instead": {"/keys": whole(b"[]")}},
            "fail",
            "keys: the answer of the identity provider is not a JSON object",
        ),
        ({"instead": {"/keys": [Hang()]}}, "fail", "the identity provider cannot be reached"),
    ],
)
async def test_the_identity_provider(tmp_path: Path, knowledge: dict[str, Any], outcome: str, message: str) -> None:
    server = OidcServer(**knowledge)
    async with ScriptedUpstream(server.script) as up:
        server.port = up.port
        hangs = message.endswith("cannot be reached")
        timeout = ("--timeout", "1" if hangs else "60")
        found = await diagnose(tmp_path, oidc_table(server), *timeout, status=1 if outcome == "fail" else 0)
    assert found["identity provider"]["outcome"] == outcome
    assert found["identity provider"]["message"].startswith(message)


async def test_the_clock_of_the_identity_provider(tmp_path: Path) -> None:
    server = OidcServer()

    def late(request: Seen) -> Sequence[Step]:
        (head, *rest) = server.script(request)
        assert isinstance(head, Head)
        date = ("date", formatdate(time.time() - 600, usegmt=True))
        return [replace(head, headers=[*head.headers, date]), *rest]

    async with ScriptedUpstream(late) as up:
        server.port = up.port
        found = await diagnose(tmp_path, oidc_table(server), status=1)
    assert "its clock is 600 s behind ours" in found["identity provider"]["message"]


async def test_the_collector(tmp_path: Path) -> None:
    """Its failure is none of the gateway's."""
    async with Collector([200, 200, 404, HANG]) as collector:
        toml = f'[telemetry]\nendpoint = "{collector.url}"\nheaders = {{ x-token = "{CANARY}" }}\n'
        takes_all = await diagnose(tmp_path, toml, status=0)
        takes_none = await diagnose(tmp_path, toml, "--timeout", "0.2", status=0)
        assert sorted(collector.paths) == sorted(["/v1/traces", "/v1/metrics"] * 2)
        assert {head["x-token"] for head in collector.heads} == {CANARY}
        assert collector.spans == []
    assert takes_all["collector"]["outcome"] == "ok"
    assert takes_none["collector"]["outcome"] == "warn"
    said = takes_none["collector"]["message"]
    assert ("answered 404" in said, "no answer in time" in said) == (True, True)


def test_an_address_in_a_finding_has_no_user_and_no_password() -> None:
    finding = fail("store", f"postgresql://someone:{CANARY}@db.example/books does not answer", "Start it.")
    assert _masked(finding, Config()).message == "postgresql://****@db.example/books does not answer"
