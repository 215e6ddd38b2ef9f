"""`streamweir check` for the Messages API: a recorded answer, and an endpoint on a real socket."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from streamweir.cli.main import main
from support import messages_defects as right
from support.gateway import KEY, gateway
from support.messages_defects import DEFECTS, Defect

FIXTURES = Path(__file__).parents[1] / "fixtures"
SIMULATED = '[[providers]]\nname = "sim"\nkind = "sim"\n'
IN_STREAMS = [
    defect
    for defect in DEFECTS
    if not defect.rule.startswith(("header.", "whole.", "failure.")) and defect.rule != "event.start-first"
]


def run(*arguments: object, data: bytes | None = None) -> Result:
    result = CliRunner().invoke(main, ["check", *map(str, arguments)], input=data, env={"STREAMWEIR_KEY": ""})
    assert result.exception is None or isinstance(result.exception, SystemExit), "nothing unforeseen"
    return result


@pytest.mark.parametrize("body", [right.written(right.agent()), json.dumps(right.whole()).encode()])
def test_a_recorded_answer_is_known_by_its_form(body: bytes) -> None:
    for options in ((), ("--dialect", "messages")):
        result = run("-", *options, data=body)
        assert result.exit_code == 0, result.output
        assert result.output.splitlines()[-1].startswith("messages: ")
        assert "no dialect was named" not in result.output


def test_a_named_dialect_counts() -> None:
    result = run("-", "--dialect", "openai", data=right.written(right.text()))
    assert result.exit_code == 1
    assert result.output.splitlines()[-1].startswith("openai: ")


@pytest.mark.parametrize("defect", IN_STREAMS, ids=lambda defect: defect.rule)
def test_a_defect_is_named(defect: Defect) -> None:
    result = run("-", "--json", "--dialect", "messages", data=defect.recording.body)
    assert result.exit_code == 1
    found = json.loads(result.output)
    assert found["dialect"] == "messages"
    assert {r["id"] for r in found["rules"] if r["outcome"] in ("broken", "odd")} == {defect.rule, *defect.also}


def test_a_recording_of_anthropics(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    result = run(FIXTURES / "anthropic" / "thinking_then_tool_call" / "response.sse", "--junit", report)
    assert result.output.splitlines()[-1].startswith("messages: "), result.output
    assert b'name="messages"' in report.read_bytes()


async def test_an_endpoint() -> None:
    async with gateway(SIMULATED) as gate:
        for address in ((f"{gate.base_url}/v1/messages",), (gate.base_url, "--dialect", "messages")):
            words = (*address, "--model", "sim/reasoning", "--key", KEY, "--timeout", "60")
            result = await asyncio.to_thread(run, *words)
            assert result.exit_code == 0, result.output
            assert result.output.startswith(f"15 requests were sent to {gate.base_url}/v1/messages\n")
            assert result.output.splitlines()[-1].startswith("messages: ")
            assert KEY not in result.output


async def test_an_endpoint_of_chat_completions_is_not_one() -> None:
    async with gateway(SIMULATED) as gate:
        url = f"{gate.base_url}/openai/v1/chat/completions/messages"
        result = await asyncio.to_thread(run, url, "--model", "sim/hello", "--key", KEY)
    assert result.exit_code == 2
    assert "could not check" in result.output
