"""`streamweir check` for the Responses API: a recorded answer, and an endpoint on a real socket."""

import asyncio
import json

import pytest
from click.testing import CliRunner, Result

from streamweir.cli.main import main
from support import responses_answers as right
from support.gateway import KEY, gateway

SIMULATED = '[[providers]]\nname = "sim"\nkind = "sim"\n'


def run(*arguments: object, data: bytes | None = None) -> Result:
    result = CliRunner().invoke(main, ["check", *map(str, arguments)], input=data, env={"STREAMWEIR_KEY": ""})
    assert result.exception is None or isinstance(result.exception, SystemExit), "nothing unforeseen"
    return result


@pytest.mark.parametrize(
    "body",
    [
        right.written(right.agent()),
        right.written(right.failed()),
        right.written(right.failed()[-2:]),
        json.dumps(right.whole()).encode(),
    ],
)
def test_a_recorded_answer_is_known_by_its_form(body: bytes) -> None:
    for options in ((), ("--dialect", "responses")):
        result = run("-", *options, data=body)
        assert result.exit_code == 0, result.output
        assert result.output.splitlines()[-1].startswith("responses: ")
        assert "no dialect was named" not in result.output


def test_a_defect_is_named() -> None:
    documents = right.text()
    documents[4]["delta"] = "Hullo"
    result = run("-", "--json", data=right.written(documents))
    assert result.exit_code == 1
    found = json.loads(result.output)
    assert found["dialect"] == "responses"
    assert {r["id"] for r in found["rules"] if r["outcome"] in ("broken", "odd")} == {"delta.sum"}


async def test_an_endpoint() -> None:
    async with gateway(SIMULATED) as gate:
        for address in ((f"{gate.base_url}/v1/responses",), (gate.base_url, "--dialect", "responses")):
            words = (*address, "--model", "sim/hello", "--key", KEY, "--timeout", "60")
            result = await asyncio.to_thread(run, *words)
            assert result.exit_code == 0, result.output
            assert result.output.startswith(f"19 requests were sent to {gate.base_url}/v1/responses\n")
            assert result.output.splitlines()[-1].startswith("responses: ")
            assert KEY not in result.output
