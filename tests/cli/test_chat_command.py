"""`streamweir chat`: the output for a pipe and for a terminal, and after failures and cancellation."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streamweir.cli.main import main
from support.answers import TEXTS, openai_frames, openai_stream
from support.gateway import KEY, Gate, gateway
from support.resumable_upstream import ResumableAnswer
from support.script import in_turn, stream, whole
from support.scripted_upstream import ScriptedUpstream
from support.terminal import PROGRAM, on_terminal

CONFIG = f"""
[[providers]]
name = "sim"
kind = "sim"

[[keys]]
name = "tests"
key = "{KEY}"
scopes = ["chat", "models"]
"""
STYLE = re.compile(r"\x1b\[[0-9;]*m")
HELLO = "Hello! I am the simulator of Streamweir: every word of mine is scripted."


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    async with gateway(CONFIG) as running:
        yield running


async def chat(gate: Gate, *words: str, stdin: str | bytes = "", key: str | None = KEY, status: int = 0) -> Result:
    """In a pipe."""
    environ = {"STREAMWEIR_URL": gate.base_url, "STREAMWEIR_KEY": key}
    result = await asyncio.to_thread(CliRunner().invoke, main, ["chat", *words], input=stdin, env=environ)
    assert result.exit_code == status, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), "nothing unforeseen"
    return result


def env(gate: Gate) -> dict[str, str]:
    return {"STREAMWEIR_URL": gate.base_url, "STREAMWEIR_KEY": KEY}


async def test_an_answer_goes_on_after_lost_connections() -> None:
    server = ResumableAnswer(openai_frames(), [700, 200])
    async with ScriptedUpstream(server.script) as up:
        environ = {"STREAMWEIR_URL": up.base_url, "STREAMWEIR_KEY": KEY}
        words = ["chat", "m", "Hi", "--resume"]
        result = await asyncio.to_thread(CliRunner().invoke, main, words, env=environ)
    assert (result.stdout, result.exit_code) == ("".join(TEXTS) + "\n", 0)
    assert len(server.asked) == 3


async def test_a_pipe_gets_the_plain_answer_and_nothing_else(gate: Gate) -> None:
    result = await chat(gate, "sim/hello", "Hi")
    assert (result.stdout, result.stderr) == (f"{HELLO}\n", "")
    thought = await chat(gate, "sim/reasoning", "Hi")
    assert thought.stdout == "I have thought about it: reasoning comes first, then the answer.\n"
    ended = await chat(gate, "sim/hello?text=One%0A", "Hi")
    assert ended.stdout == "One\n", "no line is added to one that is ended"
    refused = await chat(gate, "sim/refusal", "Hi")
    assert refused.stdout.strip()


async def test_a_pipe_gets_the_exact_text(gate: Gate) -> None:
    assert (await chat(gate, "sim/hello?text=%1B[31mred%1B[0m", "Hi")).stdout == "\x1b[31mred\x1b[0m\n"


async def test_the_prompt_may_be_standard_input(gate: Gate) -> None:
    assert (await chat(gate, "sim/echo", stdin="Say this.\n")).stdout == "Say this.\n"


async def test_the_request_is_what_was_typed(gate: Gate) -> None:
    words = ("--system", "Be brief.", "--temperature", "0.5", "--max-tokens", "3")
    answer = json.loads((await chat(gate, "sim/lorem", "Hi", *words, "--json")).stdout)
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 3
    assert answer["usage"]["prompt_tokens"] == 4, "Be brief . Hi"


async def test_json_is_the_completion(gate: Gate) -> None:
    result = await chat(gate, "sim/tools", "Hi", "--json")
    answer = json.loads(result.stdout)
    assert (answer["object"], result.stderr) == ("chat.completion", "")
    calls = answer["choices"][0]["message"]["tool_calls"]
    assert [call["function"]["name"] for call in calls] == ["get_weather", "get_weather"]
    assert result.stdout.isascii()


async def test_raw_shows_frames_with_their_times(gate: Gate) -> None:
    lines = (await chat(gate, "sim/hello", "Hi", "--raw")).stdout.splitlines()
    assert all(float(line.split()[0]) >= 0 and line.split()[1] == "data:" for line in lines)
    assert lines[-1].endswith("data: [DONE]")
    assert '"role":"assistant"' in lines[0]
    times = [float(line.split()[0]) for line in lines]
    assert times == sorted(times)


@pytest.mark.parametrize("dialect", ["openai", "opentoken", "aivene", "bitseek"])
async def test_every_dialect(gate: Gate, dialect: str) -> None:
    assert (await chat(gate, "sim/hello", "Hi", "--dialect", dialect)).stdout == f"{HELLO}\n"
    raw = (await chat(gate, "sim/hello", "Hi", "--dialect", dialect, "--raw")).stdout
    assert ("[DONE]" in raw) is (dialect != "bitseek")


async def test_an_address_with_a_path_is_taken_as_it_is(gate: Gate) -> None:
    words = ("--base-url", f"{gate.base_url}/aivene/v1/", "--raw")
    assert '"id":"ilbs_' in (await chat(gate, "sim/hello", "Hi", *words)).stdout


async def test_what_fails_is_one_line(gate: Gate) -> None:
    result = await chat(gate, "nobody/nothing", "Hi", status=1)
    assert result.stdout == ""
    assert result.stderr.startswith("Error: 404 (invalid_request_error model_not_found): ")
    assert result.stderr.count("\n") == 1
    wrong = await chat(gate, "sim/hello", "Hi", key="sk-wrong-Qx7vLmZ2pKd9RtYw4", status=1)
    assert "401" in wrong.stderr
    assert "Qx7vLmZ2pKd9RtYw4" not in wrong.stderr


async def test_an_answer_that_breaks_is_shown_as_far_as_it_came(gate: Gate) -> None:
    result = await chat(gate, "sim/cut?at=3", "Hi", status=1)
    assert result.stdout == "Ipsum sed\n"
    assert result.stderr.startswith("Error: stream_error upstream_stream_truncated: ")
    assert (await chat(gate, "sim/cut?at=3", "Hi", "--json", status=1)).stdout == ""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("sim/hello", ""), "the prompt is empty"),
        (("sim/hello", "Hi", "--raw", "--json"), "--raw and --json cannot be combined"),
        (("sim/hello", "Hi", "--base-url", "somewhere"), "base_url must be an address"),
        (("sim/hello", "Hi", "--base-url", "http://127.0.0.1:port"), "base_url must be an address"),
        (("sim/hello", "Hi", "--dialect", "anthropic"), "is not one of"),
        (("sim/hello", "Hi", "--temperature", "9"), "is not in the range"),
        ((), "Missing argument 'MODEL'"),
    ],
)
async def test_wrong_use(gate: Gate, words: tuple[str, ...], why: str) -> None:
    assert why in (await chat(gate, *words, status=2)).stderr


async def test_the_local_gateways_own_key_is_used_for_it_alone(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "401" in (await chat(gate, "sim/hello", "Hi", key=None, status=1)).stderr
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "development.key").write_text(f"{KEY}\n")
    assert (await chat(gate, "sim/hello", "Hi", key=None)).stdout == f"{HELLO}\n"
    port = gate.address[1]
    local = await chat(gate, "sim/hello", "Hi", "--base-url", f"http://localhost:{port}", key=None)
    assert local.stdout == f"{HELLO}\n"
    elsewhere = await chat(gate, "sim/hello", "Hi", "--base-url", "http://example.invalid", key=None, status=1)
    assert "cannot be reached" in elsewhere.stderr
    assert "Start `streamweir serve`, or name another endpoint with --base-url" in elsewhere.stderr


def test_a_closed_standard_input_is_empty() -> None:
    code = "import sys; sys.stdin = None; from streamweir.cli.main import main; main()"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code, "chat", "sim/hello"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "the prompt is empty" in done.stderr
    assert "Traceback" not in done.stderr


async def test_standard_input_must_be_text(gate: Gate) -> None:
    assert "not UTF-8 text" in (await chat(gate, "sim/hello", stdin=b"\xff\xfe", status=2)).stderr


def test_without_httpx2_the_error_names_what_is_missing() -> None:
    code = "import sys; sys.modules['httpx2'] = None; from streamweir.cli.main import main; main()"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code, "chat", "sim/hello", "Hi"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: streamweir chat needs httpx2: install streamweir[client]\n"


async def test_a_terminal_shows_reasoning_dimmed_and_what_it_took(gate: Gate, tmp_path: Path) -> None:
    async with on_terminal("chat", "sim/reasoning", "Hi", env=env(gate), folder=tmp_path) as terminal:
        assert await terminal.status() == 0
        thought, answer, last = [line for line in terminal.shown.splitlines() if line]
    assert thought.startswith("\x1b[2m")
    assert STYLE.sub("", thought).endswith("First I think it over, then I answer.")
    assert answer == "I have thought about it: reasoning comes first, then the answer."
    assert "first token after " in last
    assert " tokens/s, 1 + 33 tokens, $0.00, req_" in last


async def test_a_terminal_shows_calls(gate: Gate, tmp_path: Path) -> None:
    async with on_terminal("chat", "sim/tools?calls=1", "Hi", env=env(gate), folder=tmp_path) as terminal:
        assert await terminal.status() == 0
        assert 'get_weather({"city":"Paris","unit":"celsius"})' in terminal.shown


async def test_a_terminal_obeys_nothing_of_an_answer(gate: Gate, tmp_path: Path) -> None:
    model = "sim/hello?text=%1B[31mred%07%C2%9B2J%0D[bold]x[/bold]%0Anext"
    for words in ((), ("--raw",)):
        async with on_terminal("chat", model, "Hi", *words, env=env(gate), folder=tmp_path) as terminal:
            assert await terminal.status() == 0
            assert "\x1b[31m" not in terminal.shown
            assert "\x07" not in terminal.shown
            assert "\x9b" not in terminal.shown
            assert words or "red\ufffd\ufffd2J\ufffd[bold]x[/bold]\nnext" in terminal.shown


async def test_ctrl_c_leaves_the_answer_and_says_so(gate: Gate, tmp_path: Path) -> None:
    words = ("chat", "sim/endless?pace_ms=5", "Hi")
    async with on_terminal(*words, env=env(gate), folder=tmp_path) as terminal:
        await terminal.shows("psum")
        terminal.interrupt()
        assert await terminal.status() == 130
        assert terminal.shown.rstrip().endswith("\nCancelled: the connection is closed.")
    (record,) = await gate.settled(1)
    assert record.verdict != "completed"


async def test_a_conversation(gate: Gate, tmp_path: Path) -> None:
    async with on_terminal("chat", "sim/echo", env=env(gate), folder=tmp_path) as terminal:
        await terminal.shows("> ")
        terminal.type("First words\n")
        await terminal.shows("> ", times=2)
        assert terminal.shown.count("First words") == 2, "typed, and said back"
        terminal.type("Second words\n")
        await terminal.shows("Second words\nSecond words\n")
        await terminal.shows("> ", times=3)
        terminal.type("\n")
        assert await terminal.status() == 0
    assert {record.verdict for record in await gate.settled(3)} == {"completed"}, "two answers, and a look at the price"


async def test_ctrl_c_in_a_conversation_leaves_the_answer_and_then_the_conversation(gate: Gate, tmp_path: Path) -> None:
    async with on_terminal("chat", "sim/endless?pace_ms=5", env=env(gate), folder=tmp_path) as terminal:
        await terminal.shows("> ")
        terminal.type("Hi\n")
        await terminal.shows("psum")
        terminal.interrupt()
        await terminal.shows("\nCancelled: the connection is closed.\n> ")
        terminal.interrupt()
        assert await terminal.status() == 130
    await gate.settled(1)


async def test_a_pipe_gets_an_answer_while_it_comes(gate: Gate, tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        "chat",
        "sim/endless?pace_ms=5",
        "Hi",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **env(gate)},
        cwd=tmp_path,
    )
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readexactly(5), 60) == b"Ipsum", "it has not ended, and never will"
    process.send_signal(signal.SIGINT)
    rest, told = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, told, rest[-1:]) == (130, b"Cancelled: the connection is closed.\n", b"\n")
    await gate.settled(1)


async def test_a_conversation_outlives_an_answer_that_fails(gate: Gate, tmp_path: Path) -> None:
    async with on_terminal("chat", "sim/error?status=400", env=env(gate), folder=tmp_path) as terminal:
        await terminal.shows("> ")
        terminal.type("Hi\n")
        await terminal.shows("Error: 400")
        await terminal.shows("> ", times=2)
        terminal.type("\x04")
        assert await terminal.status() == 0


async def test_a_question_that_got_no_answer_is_not_sent_again(tmp_path: Path) -> None:
    script = in_turn(whole(b"{}", 400), stream(openai_stream()), whole(b"{}", 404))  # the last: the list of models
    async with ScriptedUpstream(script) as up:
        words = ("chat", "m", "--base-url", up.base_url, "--key", KEY)
        async with on_terminal(*words, env={}, folder=tmp_path) as terminal:
            await terminal.shows("> ")
            terminal.type("one\n")
            await terminal.shows("> ", times=2)
            terminal.type("two\n")
            await terminal.shows("> ", times=3)
            terminal.type("\x04")
            assert await terminal.status() == 0
        asked = await up.seen(2)
    assert asked.json["messages"] == [{"role": "user", "content": "two"}]
