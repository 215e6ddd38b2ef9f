"""The checker against our own gateway on a real socket, in the Messages API: nothing to find.

On the simulator, and on each kind of provider behind a scripted upstream. What is found here is a mistake of the
gateway's, or of a rule's: never of the test's.
"""

from collections.abc import AsyncIterator

import pytest

from streamweir.conformance.evaluate import Report
from streamweir.conformance.messages.endpoint import evaluate_messages_session
from streamweir.conformance.messages.plan import MESSAGES_PLAN
from streamweir.conformance.probe import find_endpoint, probe
from support.conformance_check import USUAL, assert_conforms
from support.gateway import KEY, Gate, gateway, gateway_to
from support.provider_script import KINDS, script_of

SIMULATED = '[[providers]]\nname = "sim"\nkind = "sim"\n'
ALWAYS_SEEN = (
    "framing.event-stream",
    "event.name",
    "event.start-first",
    "event.end",
    "event.nothing-after-the-end",
    "start.members",
    "start.usage",
    "block.no-gaps",
    "count.counts",
    "stop.reason",
    "whole.members",
    "whole.usage",
    "failure.object",
    "failure.type",
    "header.request-id",
    "refused.unknown-model",
    "refused.wrong-key",
    "refused.no-key",
    "refused.not-json",
    "refused.wrong-type",
    "refused.no-messages",
    "refused.no-max-tokens",
    "refused.before-stream",
    "refused.keeps-secrets",
    "asked.stream",
    "asked.whole",
    "asked.key-header",
    "asked.limit",
    "asked.ids-differ",
    "connection.complete",
    "connection.request-ids",
)
SAME = ("buffered.text", "buffered.usage")
MODELS = {
    "sim/hello": SAME,
    "sim/lorem?words=40": SAME,
    "sim/tools?calls=2": ("asked.tool", "call.id", "call.arguments", "stop.tool-use"),
    "sim/reasoning": ("signature.last", "signature.present"),
    "sim/refusal": (),
    "sim/hello?usage=none": (),
}


async def checked(url: str, model: str) -> Report:
    endpoint = find_endpoint(url, MESSAGES_PLAN)
    return evaluate_messages_session(await probe(endpoint, model, KEY, USUAL, api=MESSAGES_PLAN))


@pytest.fixture
async def simulated() -> AsyncIterator[Gate]:
    async with gateway(SIMULATED) as gate:
        yield gate


@pytest.mark.parametrize("model", MODELS)
async def test_on_the_simulator(simulated: Gate, model: str) -> None:
    assert_conforms(await checked(simulated.base_url, model), looked_at=[*ALWAYS_SEEN, *MODELS[model]])


async def test_below_its_own_prefix(simulated: Gate) -> None:
    url = f"{simulated.base_url}/anthropic/v1/messages"
    assert_conforms(await checked(url, "sim/hello"), looked_at=[*ALWAYS_SEEN, *SAME])


@pytest.mark.parametrize("kind", KINDS)
async def test_before_a_provider(kind: str) -> None:
    async with gateway_to(script_of(KINDS[kind]), kind=kind) as (gate, _):
        assert_conforms(await checked(gate.base_url, "up/m"), looked_at=[*ALWAYS_SEEN, *SAME])
