"""The embedded model through the whole gateway: a real answer in every dialect, streamed and buffered.

Each answer is held to every rule of its dialect (`support.dialect_output`). What the model says is
its own affair; that it says something, and how much it counts, is not. Its own life is in `test_local`.
"""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from streamweir.upstream.local import LocalAddress, LocalUpstream
from support.dialect_output import Output, read_stream, read_whole
from support.dialect_rules import BITSEEK, DIALECTS, Rules
from support.embedded import needs_the_model, running_model
from support.gateway import Gate, frames_of, gateway
from support.raw_client import Reply

pytestmark = needs_the_model

TOML = """
[server]
default_model = "local/smollm2"

[[providers]]
name = "local"
kind = "local"
"""
MOST_TOKENS = 12
each_dialect = pytest.mark.parametrize("rules", DIALECTS, ids=lambda rules: rules.name)


@pytest.fixture(scope="module")
def model() -> Iterator[LocalAddress]:
    with running_model() as address:
        yield address


@pytest.fixture
async def gate(model: LocalAddress) -> AsyncIterator[Gate]:
    async with gateway(TOML, open_local=lambda _: LocalUpstream(model)) as gate:
        yield gate


async def ask(gate: Gate, rules: Rules, *, stream: bool, usage: bool = False) -> Reply:
    options: dict[str, Any] = {"stream_options": {"include_usage": True}} if usage else {}
    path = f"/{rules.name}/v1/chat/completions"
    reply = await gate.ask(path=path, model="local/smollm2", stream=stream, max_tokens=MOST_TOKENS, **options)
    assert reply.status == 200, reply.body
    return reply


def assert_answered(output: Output, rules: Rules) -> None:
    assert output.error is None
    assert list(output.choices) == [0]
    choice = output.choices[0]
    assert choice.text.strip()
    assert choice.finish in (rules.finish_reasons["stop"], rules.finish_reasons["length"])


@each_dialect
@pytest.mark.parametrize("usage", [True, False], ids=["with usage", "without"])
async def test_a_streamed_answer(gate: Gate, rules: Rules, usage: bool) -> None:
    reply = await ask(gate, rules, stream=True, usage=usage)
    output = read_stream(reply.body, rules, usage)
    assert_answered(output, rules)
    (record,) = await gate.settled()
    assert record.verdict in ("completed", "length")
    assert (record.target, record.stream, record.usage_source) == ("local/smollm2", True, "provider")
    assert record.usage is not None
    assert record.usage.prompt_tokens > 0
    assert 0 < record.usage.completion_tokens <= MOST_TOKENS
    if rules.includes_usage(usage):
        assert output.usage is not None
        assert output.usage["prompt_tokens"] == record.usage.prompt_tokens
        assert output.usage["completion_tokens"] == record.usage.completion_tokens
    assert len(frames_of(reply.body)) > 3, "piece by piece, and not all at the end"


@pytest.mark.parametrize("rules", [each for each in DIALECTS if each is not BITSEEK], ids=lambda rules: rules.name)
async def test_a_buffered_answer(gate: Gate, rules: Rules) -> None:
    reply = await ask(gate, rules, stream=False)
    assert reply.header("content-type") == "application/json"
    assert_answered(read_whole(reply.body, rules), rules)
    usage = json.loads(reply.body)["usage"]
    (record,) = await gate.settled()
    assert record.usage is not None
    assert (record.stream, record.usage_source) == (False, "provider")
    assert usage["prompt_tokens"] == record.usage.prompt_tokens > 0
    assert 0 < usage["completion_tokens"] == record.usage.completion_tokens <= MOST_TOKENS
