"""`streamweir serve`, as a person meets it: what it prints, what it refuses to start with, and how it says so.

docs/spec/failures.md G25, as far as it needs no database. What it serves is in `tests/server/test_gateway_*`.
"""

import asyncio
import json
import re
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streamweir.cli.main import main
from streamweir.upstream.local import why_unavailable
from support.certificate import make_certificate
from support.gateway import KEY, chat_request, frames_of, text_of
from support.raw_client import RawClient
from support.serve_process import PROGRAM, Program, get, served

SIM = '[[providers]]\nname = "sim"\nkind = "sim"\n'


async def run_as_typed(program: Program, line: str) -> bytes:
    """The body that the line brings: by a shell, or by hand where there is no curl."""
    if shutil.which("curl"):
        shell = await asyncio.create_subprocess_shell(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        out, _ = await shell.communicate()
        assert shell.returncode == 0
        return out
    words = shlex.split(line)
    assert words[:2] == ["curl", "-N"]
    headers = [words[at + 1] for at, word in enumerate(words) if word == "-H"]
    body = words[words.index("-d") + 1].encode()
    path = words[2].removeprefix(program.base_url)
    head = [f"POST {path} HTTP/1.1", "host: gateway", f"content-length: {len(body)}", *headers, "", ""]
    return (await program.answer("\r\n".join(head).encode() + body)).body


def as_claude_code(variable: dict[str, str]) -> bytes:
    """A request as it sends it, with what its environment says."""
    members = {"file_path": {"type": "string"}, "content": {"type": "string"}}
    schema = {"type": "object", "properties": members, "required": [*members]}
    document = {
        "model": variable["ANTHROPIC_MODEL"],
        "max_tokens": 32000,
        "messages": [{"role": "user", "content": "Write a file."}],
        "tools": [{"name": "Write", "input_schema": schema}],
    }
    body = json.dumps(document).encode()
    head = [
        "POST /v1/messages?beta=true HTTP/1.1",
        "host: gateway",
        "content-type: application/json",
        "anthropic-version: 2023-06-01",
        f"authorization: Bearer {variable['ANTHROPIC_AUTH_TOKEN']}",
        f"content-length: {len(body)}",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


async def test_a_newcomer_gets_an_answer_from_what_is_printed(tmp_path: Path) -> None:
    async with served(tmp_path) as program:
        key = (await program.tells(r"^  key +(sk-\S{16,})$"))[1]
        said = "\n".join(program.said)
        apis = ("/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/v1/messages")
        for path in ("/console", *apis, "/v1/models", "/health", "/ready", "/metrics"):
            assert f"{program.base_url}{path}" in said
        assert "/metrics   (with the admin secret or a key with the scope 'metrics' or 'admin')" in said
        assert (await program.answer(get("/metrics"))).status == 401
        assert (await program.answer(get("/metrics", key))).status == 200
        assert (await program.answer(get("/"))).header("location") == "/console"
        admin = (await program.tells(r"^  admin +(sw-admin-\S+)$"))[1]
        settings = json.loads((await program.answer(get("/api/settings", admin))).body)
        assert (settings["file"], settings["store"]) == (None, "sqlite:///streamweir.db")
        line = (await program.tells(r"^  (curl .+)$"))[1]
        body = await run_as_typed(program, line)
        assert frames_of(body)[-1] == "[DONE]"
        assert text_of(body)
        asked = json.loads(shlex.split(line)[-1])["model"]
        assert asked == ("local/smollm2" if why_unavailable() is None else "sim/hello")
        if why_unavailable() is not None:
            assert str(why_unavailable()) in said, "why there is no model"

        variables = (await program.tells(r"^  (ANTHROPIC_\S+ .+) claude$"))[1].split()
        variable = dict(each.split("=", 1) for each in variables)
        assert variable["ANTHROPIC_BASE_URL"] == program.base_url
        assert variable["ANTHROPIC_DEFAULT_HAIKU_MODEL"] == variable["ANTHROPIC_MODEL"]
        written = json.loads((await program.answer(as_claude_code(variable))).body)
        assert [block["name"] for block in written["content"] if block["type"] == "tool_use"] == ["Write"]

        models = json.loads((await program.answer(get("/v1/models", key))).body)
        assert {asked, variable["ANTHROPIC_MODEL"]} <= {each["id"] for each in models["data"]}
        for wrong in (None, "sk-wrong-0123456789abcdef"):
            assert (await program.answer(get("/v1/models", wrong))).status == 401
        program.signal(signal.SIGHUP)  # the terminal was closed; there is no file that could be read again
        assert await program.status() == 0
        logged = [each["event"] for each in program.events]
        assert "text" not in logged, "nothing but events on the error output"
        assert key not in str(program.events)
    kept = tmp_path / "data" / "development.key"
    assert (kept.parent.stat().st_mode & 0o777, kept.stat().st_mode & 0o777) == (0o700, 0o600)

    async with served(tmp_path, SIM.replace("sim", "other", 1)) as program:
        # With a file that names a key of its own the development key is of no use, and no secret is printed.
        assert (await program.answer(get("/v1/models", key))).status == 401
        assert (await program.tells(r"^  key +(.+)$"))[1] == "test"
        settings = json.loads((await program.answer(get("/api/settings", admin))).body)
        assert Path(settings["file"]).read_text().startswith('[[providers]]\nname = "other"')
        assert KEY not in "\n".join(program.said)
        assert "Bearer $KEY" in "\n".join(program.said)
    async with served(tmp_path, "[server]\n", keyed=False) as program:
        assert (await program.tells(r"^  key +(.+)$"))[1] == key, "made once"
        assert (await program.answer(get("/v1/models", key))).status == 200


async def test_tls(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    tls = f'[server.tls]\ncert_file = "{certificate.cert_file}"\nkey_file = "{certificate.key_file}"\n'
    async with served(tmp_path, tls + SIM) as program:
        assert program.scheme == "https"
        trusting = ssl.create_default_context(cafile=str(certificate.cert_file))
        reader, writer = await asyncio.open_connection(*program.address, ssl=trusting)
        writer.write(chat_request(model="sim/hello", stream=True, headers=(("connection", "close"),)))
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"data: [DONE]\n\n" in answer
        assert answer.endswith(b"\r\n0\r\n\r\n")
        async with await RawClient.open(program.address) as plain:
            await plain.send(get("/health"))
            assert await plain.is_closed()


def test_a_mistake_in_the_file_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "streamweir.toml"
    file.write_text("[server.timeouts]\nidle_z = 5\n")
    command = [*PROGRAM, "--config", str(file), "--data-dir", str(tmp_path)]
    environ = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)  # noqa: S603 (our own)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == f"Error: {file}:2:1: server.timeouts.idle_z: unknown key, did you mean idle_s?\n"


def start(folder: Path, *arguments: object, toml: str | None = None) -> Result:
    """A start that fails, in this process."""
    config = []
    if toml is not None:
        (folder / "streamweir.toml").write_text(toml)
        config = ["--config", str(folder / "streamweir.toml")]
    options = ["--data-dir", str(folder / "data"), "--listen", "127.0.0.1:0", *config, *map(str, arguments)]
    result = CliRunner().invoke(main, ["serve", *options], env={"UNSET_FOR_SURE": None})
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit), "nothing unforeseen"
    assert result.stdout == ""
    assert re.fullmatch(r"(Note: [^\n]+\n)?Error: ([^\n]+\n)+", result.stderr), "a clear line for each complaint"
    return result


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "192.0.2.1:8080"])
def test_without_a_key_only_this_machine_is_served(tmp_path: Path, listen: str) -> None:
    result = start(tmp_path, "--listen", listen)
    assert "server.listen: without [[keys]] it must be a loopback address" in result.stderr
    result = start(tmp_path, "--listen", listen, toml=SIM)
    assert "server.listen: without [[keys]] it must be a loopback address" in result.stderr


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ("[server", "streamweir.toml:1:8: not TOML"),
        ('[server]\ndialect = "openia"\n', "server.dialect: unknown dialect"),
        ('[server.timeouts]\nidle_s = "abc"\n', 'server.timeouts.idle_s: expected a number, got "abc"'),
        ('[[providers]]\nname = "a"\nkind = "opnai"\n', "providers.a.kind: unknown kind"),
        ('[[keys]]\nname = "a"\nkey = "sk-1234"\n', "keys.a.key: must have 16"),
        ('[[keys]]\nname = "a"\nkey = "changeme-changeme"\n', "keys.a.key: is too easy to guess"),
        ('[[keys]]\nname = "a"\nkey = "${UNSET_FOR_SURE}"\n', "UNSET_FOR_SURE is not set"),
        (
            '[server.tls]\ncert_file = "/nowhere"\nkey_file = "/nowhere"\n',
            "server.tls.cert_file: file not found",
        ),
        (
            '[server.tls]\ncert_file = "FILE"\nkey_file = "FILE"\n',
            "server.tls: cert_file and key_file must be a certificate",
        ),
        (
            '[[providers]]\nname = "a"\nkind = "vertex"\nproject = "p"\ngoogle = { credentials_file = "/nowhere" }\n',
            "streamweir.toml:1:1: providers.a: the file of credentials_file: it cannot be read: No such file",
        ),
    ],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_g25_a_configuration_that_cannot_be_used(tmp_path: Path, toml: str, told: str, workers: int) -> None:
    result = start(tmp_path, "--workers", workers, toml=toml.replace("FILE", str(tmp_path / "streamweir.toml")))
    assert told in result.stderr
    assert "sk-1234" not in result.stderr
    assert "background task" not in result.stderr, "nothing was started"


def test_g25_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in start(tmp_path, "--config", tmp_path / "nowhere.toml").stderr


def test_g25_variables_that_cannot_be_read(tmp_path: Path) -> None:
    key = '[[keys]]\nname = "a"\nkey = "${UNSET_FOR_SURE}"\n'
    assert f"{tmp_path}/env: file not found" in start(tmp_path, "--env-file", tmp_path / "env", toml=key).stderr
    (tmp_path / "env").write_text("UNSET_FOR_SURE=changeme-changeme\n")
    assert "keys.a.key: is too easy to guess" in start(tmp_path, "--env-file", tmp_path / "env", toml=key).stderr
    alone = CliRunner().invoke(main, ["serve", "--env-file", str(tmp_path / "env")])
    assert (alone.exit_code, "--env-file has no effect without --config" in alone.stderr) == (2, True)


def test_g25_an_address_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        result = start(tmp_path, "--listen", listen)
    assert f"{listen}: cannot listen there: Address already in use" in result.stderr
    assert "--listen" in result.stderr, "what to do about it"


def test_a_file_of_this_folder_that_is_not_used_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").write_text("a file: nothing is started")
    note = "Note: streamweir.toml of this folder is not used: `streamweir serve --config streamweir.toml` uses it."
    assert note not in start(tmp_path).stderr
    (tmp_path / "streamweir.toml").write_text(SIM)
    assert note in start(tmp_path).stderr
    assert note not in start(tmp_path, "--config", "streamweir.toml").stderr


def test_g25_an_address_for_probes_that_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "streamweir.toml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        file.write_text(f'[server]\nhealth_listen = "{listen}"\n')
        result = start(tmp_path, "--config", file, "--listen", "127.0.0.1:0")
    assert f"{listen}: cannot listen there: Address already in use (server.health_listen" in result.stderr


def test_g25_a_data_directory_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    assert "cannot be used as data directory" in start(tmp_path).stderr
    assert "cannot be used as data directory" in start(tmp_path, "--data-dir", tmp_path / "data" / "deeper").stderr


def test_g25_a_key_that_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "data" / "development.key").mkdir(parents=True)
    assert "the development key cannot be written here: Is a directory" in start(tmp_path).stderr


async def test_each_reload_names_the_settings_that_need_a_restart(tmp_path: Path) -> None:
    """Not the first one alone: whoever looks at the last lines would take the file for what is in use."""
    async with served(tmp_path, f'[server]\nnode = "one"\n{SIM}') as program:
        file = tmp_path / "streamweir.toml"
        file.write_text(file.read_text().replace('node = "one"', 'node = "two"'))
        for _ in range(2):
            program.signal(signal.SIGHUP)
            warning = await program.logged("setting not reloaded: it needs a restart")
            assert (warning["level"], warning["setting"], warning["node"]) == ("warning", "server.node", "one")
            await program.logged("configuration reloaded")
        file.write_text(file.read_text().replace('node = "two"', 'node = "one"'))
        program.signal(signal.SIGHUP)
        await program.logged("configuration reloaded")
        said = [each for each in program.events if each["event"].startswith("setting not reloaded")]
        assert len(said) == 2, "it is as at the start"
