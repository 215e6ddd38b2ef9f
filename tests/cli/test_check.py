"""`streamweir check`: what it takes for an endpoint and for a file, what it writes where, and how it ends."""

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from streamweir.cli.commands.check import read_recording
from streamweir.cli.main import main
from streamweir.conformance import RequestInfo
from support.broken_endpoint import KEY, MODEL, BrokenEndpoint
from support.dialect_rules import AIVENE, OPENAI
from support.endpoint_defects import CASES
from support.gateway import KEY as GATEWAY_KEY
from support.gateway import gateway
from support.script import Hang
from support.scripted_upstream import ScriptedUpstream, closed_port
from support.terminal import on_terminal

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
TEXT = FIXTURES / "openai" / "text_and_usage" / "openai.sse"
HOLDS = re.compile(r"(\w+): (\d+) of \2 rules hold(?: \(\d+ skipped\))?")


def run(*arguments: object, env: dict[str, str] | None = None, stdin: bytes | None = None) -> Result:
    words = ["check", *map(str, arguments)]
    result = CliRunner().invoke(main, words, input=stdin, env={"STREAMWEIR_KEY": "", **(env or {})})
    assert result.exception is None or isinstance(result.exception, SystemExit), "nothing unforeseen"
    return result


async def run_beside(*arguments: object, **members: Any) -> Result:
    """While the test's own loop serves."""
    return await asyncio.to_thread(run, *arguments, **members)


def spoiled(tmp_path: Path) -> Path:
    file = tmp_path / "spoiled.sse"
    file.write_bytes(TEXT.read_bytes().replace(b"data: [DONE]\n\n", b": \x1b[2J\n\n"))
    return file


def test_a_file_that_conforms() -> None:
    result = run(TEXT, "--dialect", "openai")
    assert result.exit_code == 0
    assert HOLDS.fullmatch(result.output.splitlines()[-1])


def test_a_file_that_does_not(tmp_path: Path) -> None:
    result = run(spoiled(tmp_path), "--dialect", "openai")
    assert result.exit_code == 1
    assert "end.done: broken" in result.output
    assert "\x1b" not in result.output


def test_the_nearest_dialect_of_a_file() -> None:
    result = run(FIXTURES / "openai" / "text_and_usage" / "aivene.sse")
    assert result.exit_code == 0
    assert result.output.startswith("no dialect was named: aivene is the nearest (0 broken, 0 odd;")


def test_standard_input() -> None:
    assert run("-", "--dialect", "openai", stdin=TEXT.read_bytes()).exit_code == 0


def test_the_request_is_named_for_a_file() -> None:
    assert "usage.uninvited" in run(TEXT, "--dialect", "openai", "--no-usage").output.partition("\n\n")[2]


def test_json_of_a_file(tmp_path: Path) -> None:
    result = run(spoiled(tmp_path), "--dialect", "openai", "--json")
    assert result.exit_code == 1
    assert result.stdout.isascii()
    document = json.loads(result.stdout)
    assert document["target"].endswith("spoiled.sse")
    assert {rule["id"] for rule in document["rules"] if rule["outcome"] == "broken"} == {"end.done"}


def test_junit(tmp_path: Path) -> None:
    written = tmp_path / "report.xml"
    assert run(spoiled(tmp_path), "--dialect", "openai", "--junit", written).exit_code == 1
    suites = ElementTree.fromstring(written.read_bytes())  # noqa: S314 (our own)
    failed = {case.get("name") for case in suites.iter("testcase") if case.find("failure") is not None}
    assert "end.done" in failed


def test_a_head_before_the_body() -> None:
    head = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/2 200 \r\nContent-Type: text/event-stream\r\nX-Request-Id: a\r\n\r\n"
    recording = read_recording(head + b"data: [DONE]\n\n", "x", RequestInfo())
    assert recording.status == 200
    assert recording.header("content-type") == "text/event-stream"
    assert recording.body == b"data: [DONE]\n\n"
    odd = read_recording(b"HTTP/1.1\nno colon\n\nrest", "x", RequestInfo())
    assert (odd.status, odd.headers, odd.body) == (None, (("no colon", ""),), b"rest")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("/nowhere/at/all",), "cannot read /nowhere/at/all: No such file or directory"),
        (("http://127.0.0.1:1/v1",), "add --model"),
        (("http://me:pw@host/v1", "--model", "m"), "give the key with --key"),
        (("http://host/v1", "--model", "m", "--key", "a b"), "characters that are not allowed in a key"),
        (("http://host:0x/v1", "--model", "m"), "not an address"),
        ((TEXT, "--junit", "/nowhere/report.xml"), "cannot write /nowhere/report.xml"),
    ],
)
def test_what_cannot_be_checked(arguments: tuple[object, ...], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "pw" not in result.stderr


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)
    result = run(large)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith("large is larger than 67108864 bytes\n")


def test_an_empty_file(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    assert run(empty).exit_code in (1, 2)


async def test_an_endpoint_that_conforms() -> None:
    async with BrokenEndpoint(AIVENE) as endpoint:
        result = await run_beside(endpoint.base_url, "--model", MODEL, env={"STREAMWEIR_KEY": KEY})
    lines = result.output.splitlines()
    assert result.exit_code == 0, result.output
    assert lines[0] == f"{len(endpoint.requests)} requests were sent to {endpoint.base_url}/chat/completions"
    assert lines[1].startswith("no dialect was named: aivene is the nearest (0 broken, 0 odd;")
    assert HOLDS.fullmatch(lines[-1])
    assert KEY not in result.output


async def test_an_endpoint_that_does_not() -> None:
    (case,) = [case for case in CASES if case.rule == "refused.keeps-secrets"]
    async with BrokenEndpoint(OPENAI, case.make()) as endpoint:
        words = (endpoint.base_url, "--model", MODEL, "--key", KEY, "--dialect", "openai", "--json")
        result = await run_beside(*words)
    document = json.loads(result.stdout)
    assert result.exit_code == 1
    assert document["requests"] == len(endpoint.requests)
    (broken,) = [rule for rule in document["rules"] if rule["outcome"] == "broken"]
    assert broken["id"] == "refused.keeps-secrets"
    assert "sk-streamweir-check-a-key" not in result.stdout


async def test_few_requests() -> None:
    async with BrokenEndpoint(OPENAI) as endpoint:
        result = await run_beside(endpoint.base_url, "--model", MODEL, "--key", KEY, "--requests", "2")
    assert result.exit_code == 0
    assert len(endpoint.requests) == 2
    assert "only 2 requests were allowed" in result.output


async def test_an_endpoint_that_refuses_the_key() -> None:
    secret = KEY[::-1]
    async with BrokenEndpoint(OPENAI) as endpoint:
        result = await run_beside(endpoint.base_url, "--model", MODEL, "--key", secret)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "could not check: the first request was answered with status 401" in result.stderr
    assert secret not in result.stderr


def test_where_nothing_listens() -> None:
    result = run(f"http://127.0.0.1:{closed_port()}/v1", "--model", "m")
    assert result.exit_code == 2
    assert "could not check: the endpoint cannot be reached" in result.stderr


async def test_the_local_gateways_own_key_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STREAMWEIR_KEY", raising=False)
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "development.key").write_text(f"{KEY}\n")
    async with BrokenEndpoint(OPENAI) as endpoint:
        words = ["check", endpoint.base_url, "--model", MODEL, "--requests", "1"]
        await asyncio.to_thread(CliRunner().invoke, main, words)
        assert endpoint.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_ctrl_c_is_no_finding(tmp_path: Path) -> None:
    async with ScriptedUpstream([Hang()]) as up:
        words = ("check", up.base_url, "--model", MODEL, "--key", KEY)
        async with on_terminal(*words, folder=tmp_path, env={}) as terminal:
            await up.seen(1)
            terminal.interrupt()
            assert await terminal.status() == 130
            assert "Traceback" not in terminal.shown


def test_without_the_extra() -> None:
    """A file can be checked all the same."""
    script = (
        "import sys; sys.modules['httpx2'] = None\nfrom streamweir.cli.main import main\nmain(['check', *sys.argv[1:]])"
    )
    words = [sys.executable, "-c", script]
    completed = subprocess.run(  # noqa: S603 (our own program)
        [*words, "http://host/v1", "--model", "m"], capture_output=True, timeout=60, text=True
    )
    assert completed.returncode == 2
    assert completed.stderr == (
        "Error: could not check: to ask an endpoint, install the extra 'client': pip install 'streamweir[client]'\n"
    )
    read = subprocess.run([*words, str(TEXT)], capture_output=True, timeout=60)  # noqa: S603 (our own program)
    assert read.returncode == 0


def on_a_terminal(*arguments: object) -> tuple[int, bytes]:
    """Its exit status, and all that it has written."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-c", "from streamweir.cli.main import main; main()", "check", *map(str, arguments)]
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    try:
        ended = subprocess.run(words, stdout=theirs, stderr=theirs, timeout=60, env=environ)  # noqa: S603 (our own)
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # Linux's word for the end
            while piece := os.read(ours, 65536):
                shown += piece
    finally:
        os.close(ours)
    return ended.returncode, shown


def test_on_a_terminal_it_is_drawn_and_untrusted_text_is_not_interpreted(tmp_path: Path) -> None:
    status, shown = on_a_terminal(spoiled(tmp_path), "--dialect", "openai", "--all")
    assert status == 1
    assert b"RULE" in shown
    assert b"\x1b[1;31m" in shown, "in colour"
    assert b"\x1b[2J" not in shown
    assert b"\\x1b[2J" in shown


def test_on_a_terminal_it_shows_the_current_request() -> None:
    status, shown = on_a_terminal(f"http://127.0.0.1:{closed_port()}/v1", "--model", "m")
    assert status == 2
    assert b"\rasking: streamed" in shown
    assert b"\r" + b" " * 40 + b"\r" in shown


EXAMPLE = re.compile(
    r"^```console\n\$ streamweir check http://127\.0\.0\.1:8080(?P<words>.*)\n(?P<shown>(?:.*\n)*?)```$", re.M
)


async def test_the_example_of_the_documentation() -> None:
    """It shows what is written against the simulator, but for counts (how much can be seen depends on the machine)."""
    (example,) = EXAMPLE.finditer((ROOT / "docs" / "conformance.md").read_text())
    async with gateway('[[providers]]\nname = "sim"\nkind = "sim"\n') as gate:
        path, *words = example["words"].split(" ")
        result = await run_beside(f"{gate.base_url}{path}", *words, env={"STREAMWEIR_KEY": GATEWAY_KEY})
    assert result.exit_code == 0, result.output
    written = iter(_without_counts(result.output.replace(gate.base_url, "http://127.0.0.1:8080")).splitlines())
    for line in _without_counts(example["shown"]).splitlines():
        assert line == "..." or line in written, line
    assert HOLDS.fullmatch(result.output.splitlines()[-1])


def _without_counts(text: str) -> str:
    return re.sub(r"\b\d+\b", "N", re.sub(r" +", " ", text))
