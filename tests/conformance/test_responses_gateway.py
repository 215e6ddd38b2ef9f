"""The checker against our own gateway on a real socket, in the Responses API: nothing to find.

On the simulator, and on each kind of provider behind a scripted upstream. What is found here is a mistake of the
gateway's, or of a rule's: never of the test's.
"""

from collections.abc import AsyncIterator

import pytest

from streamweir.conformance.evaluate import Report
from streamweir.conformance.probe import find_endpoint, probe
from streamweir.conformance.responses.endpoint import evaluate_responses_session
from streamweir.conformance.responses.plan import RESPONSES_PLAN
from support.conformance_check import USUAL, assert_conforms
from support.gateway import KEY, Gate, gateway, gateway_to
from support.provider_script import KINDS, script_of
from support.soak import part_of

SIMULATED = '[[providers]]\nname = "sim"\nkind = "sim"\n'
ALWAYS_SEEN = (
    "framing.event-stream",
    "event.name",
    "event.created-first",
    "event.end",
    "event.nothing-after-the-end",
    "sequence.present",
    "sequence.no-gaps",
    "response.members",
    "response.same-id",
    "response.status",
    "item.no-gaps",
    "item.members",
    "item.done",
    "output.same",
    "count.usage",
    "count.details",
    "whole.members",
    "whole.usage",
    "failure.object",
    "failure.code",
    "header.request-id",
    "refused.unknown-model",
    "refused.wrong-key",
    "refused.no-key",
    "refused.not-json",
    "refused.wrong-type",
    "refused.no-input",
    "refused.previous",
    "refused.unknown-response",
    "refused.param",
    "refused.before-stream",
    "refused.websocket",
    "refused.keeps-secrets",
    "asked.stream",
    "asked.whole",
    "asked.string",
    "asked.limit",
    "asked.ids-differ",
    "connection.complete",
    "connection.request-ids",
)
TEXT = ("buffered.text", "buffered.usage", "delta.sum", "delta.repeated", "part.done")
CALLED = ("asked.tool", "asked.custom-tool", "call.id", "call.sum", "call.arguments")
ONE_OF_EACH_WIRE = ["openai", "anthropic", "gemini", *part_of([*KINDS][1:8], 7)]
"""And one more of OpenAI's; in the long run all."""
MODELS = {
    "sim/hello": TEXT,
    "sim/lorem?words=40": TEXT,
    "sim/tools?calls=2": CALLED,
    "sim/reasoning": (),
    "sim/refusal": (),
    "sim/hello?usage=none": (),
}


async def checked(url: str, model: str) -> Report:
    endpoint = find_endpoint(url, RESPONSES_PLAN)
    return evaluate_responses_session(await probe(endpoint, model, KEY, USUAL, api=RESPONSES_PLAN))


@pytest.fixture
async def simulated() -> AsyncIterator[Gate]:
    async with gateway(SIMULATED) as gate:
        yield gate


@pytest.mark.parametrize("model", MODELS)
async def test_on_the_simulator(simulated: Gate, model: str) -> None:
    assert_conforms(await checked(simulated.base_url, model), looked_at=[*ALWAYS_SEEN, *MODELS[model]])


@pytest.mark.parametrize("kind", ONE_OF_EACH_WIRE)
async def test_before_a_provider(kind: str) -> None:
    async with gateway_to(script_of(KINDS[kind]), kind=kind) as (gate, _):
        assert_conforms(await checked(gate.base_url, "up/m"), looked_at=[*ALWAYS_SEEN, *TEXT])


async def test_before_a_provider_whose_answers_are_passed_on() -> None:
    async with gateway_to(script_of("responses"), provider='wire = "responses"') as (gate, upstream):
        assert_conforms(await checked(gate.base_url, "up/m"), looked_at=[*ALWAYS_SEEN, *TEXT])
        assert {request.path for request in upstream.requests} == {"/v1/responses"}
