"""The checker against our own gateway, on real sockets, in every dialect: nothing to find.

On the simulator, on the embedded model where it is installed, and on each kind of provider behind a scripted
upstream. What is found here is a mistake of the gateway's, or of a rule's: never of the test's. `make test` asks each
model and each provider in one of the dialects, and the embedded model in one; `make soak` in all.
"""

from collections.abc import AsyncIterator, Iterator

import pytest

from streamweir.conformance.evaluate_session import nearest_dialect
from streamweir.frontends.chat.table import DIALECTS
from streamweir.upstream.local import LocalAddress, LocalUpstream
from support.conformance_check import assert_conforms, checked, run_probe
from support.embedded import needs_the_model, running_model
from support.gateway import KEY, Gate, gateway, gateway_to
from support.provider_script import KINDS, script_of

pytestmark = pytest.mark.diagonal
each_dialect = pytest.mark.parametrize("dialect", DIALECTS)

SIMULATED = '[server]\ndefault_model = "sim/hello"\n\n[[providers]]\nname = "sim"\nkind = "sim"\n'
EMBEDDED = '[server]\ndefault_model = "local/smollm2"\n\n[[providers]]\nname = "local"\nkind = "local"\n'
ALWAYS_SEEN = (
    "asked.whole",
    "asked.limit",
    "asked.ids-differ",
    "asked.prompt-count",
    "connection.after-error",
    "connection.request-ids",
    "connection.origin",
    "refused.unknown-model",
    "refused.wrong-key",
    "refused.no-key",
    "refused.not-json",
    "refused.wrong-type",
    "refused.no-messages",
    "refused.wrong-method",
    "refused.elsewhere",
    "refused.before-stream",
    "refused.same-when-streamed",
    "refused.keeps-secrets",
)
DETERMINISTIC = ("buffered.text", "buffered.finish", "asked.limit-finish")
MODELS = {
    "sim/hello": DETERMINISTIC,
    "sim/lorem?words=40&pace_ms=8": (*DETERMINISTIC, "delivery.as-made", "cancel.next-answer"),
    "sim/tools?calls=2": ("asked.tool", "asked.parallel-tools"),
    "sim/reasoning": (),
    "sim/refusal": (),
    "sim/json": DETERMINISTIC,
    "sim/hello?usage=none": (),
    "sim/hello?usage=every": DETERMINISTIC,
}


def path_of(gate: Gate, dialect: str) -> str:
    return f"{gate.base_url}/{dialect}/v1"


@pytest.fixture
async def simulated() -> AsyncIterator[Gate]:
    async with gateway(SIMULATED) as gate:
        yield gate


@each_dialect
@pytest.mark.parametrize("model", MODELS)
async def test_on_the_simulator(simulated: Gate, dialect: str, model: str) -> None:
    report = await checked(path_of(simulated, dialect), dialect, model, KEY)
    assert_conforms(report, looked_at=[*ALWAYS_SEEN, *MODELS[model]])


@each_dialect
async def test_the_dialect_is_found(simulated: Gate, dialect: str) -> None:
    nearest = nearest_dialect(await run_probe(path_of(simulated, dialect), "sim/hello", KEY))
    assert nearest.dialect.name == dialect
    assert nearest.distance == (0, 0)
    assert nearest.runner_up_distance > nearest.distance


@each_dialect
@pytest.mark.parametrize("kind", KINDS)
async def test_before_a_provider(kind: str, dialect: str) -> None:
    toml = '[server]\ndefault_model = "up/m"\n'
    async with gateway_to(script_of(KINDS[kind]), toml, kind=kind) as (gate, _):
        report = await checked(path_of(gate, dialect), dialect, "up/m", KEY)
    assert_conforms(report, looked_at=[*ALWAYS_SEEN, *DETERMINISTIC])


@pytest.fixture(scope="module")
def model() -> Iterator[LocalAddress]:
    with running_model() as address:
        yield address


@pytest.mark.soak
@needs_the_model
@each_dialect
async def test_on_the_embedded_model(model: LocalAddress, dialect: str) -> None:
    async with gateway(EMBEDDED, open_local=lambda _: LocalUpstream(model)) as gate:
        report = await checked(path_of(gate, dialect), dialect, "local/smollm2", KEY)
    assert_conforms(report, looked_at=ALWAYS_SEEN)
