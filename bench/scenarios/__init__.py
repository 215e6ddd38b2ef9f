"""The scenarios: what each puts a system through, how often, and the figures that it gives.

A figure is called `scenario.figure` in the report. Cheap scenarios are played in every round; long
ones, which take many seconds for each system, in fewer. Most of them leave out a system that cannot
do what they ask for: they give no figures then.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench.load import Bench, Figures
from bench.scenarios import delay, overload, relay, soak, whole
from bench.system import System


@dataclass(frozen=True)
class Scenario:
    play: Callable[[Bench, System], Figures]
    is_long: bool = False
    direct: Callable[[Bench, None], Figures] | None = None
    """The same without a gateway between, where that makes sense: the floor of what can be measured."""
    by_default: bool = True
    may_fail: bool = False
    """It may be more than one core can do: who breaks under it has a gap in the report."""


SCENARIOS = {
    "passed": Scenario(relay.passed),
    "translated": Scenario(relay.translated),
    "opentoken": Scenario(relay.opentoken),
    "anthropic": Scenario(relay.anthropic),
    "gemini": Scenario(relay.gemini),
    "messages_passed": Scenario(relay.messages_passed),
    "messages": Scenario(relay.messages),
    "from_responses": Scenario(relay.from_responses),
    "responses_passed": Scenario(relay.responses_passed),
    "responses": Scenario(relay.responses),
    "converse": Scenario(relay.converse),
    "invoke_passed": Scenario(relay.invoke_passed),
    "invoke": Scenario(relay.invoke),
    "resumable": Scenario(relay.resumable),
    "short": Scenario(whole.short),
    "first_text": Scenario(delay.first_text, direct=delay.first_text),
    "cancel": Scenario(delay.cancel, direct=delay.cancel),
    "tls": Scenario(relay.tls, is_long=True),
    "workers_2": Scenario(relay.workers_2, is_long=True),
    **{
        f"paced_{count}": Scenario(
            partial(delay.paced, count=count),
            is_long=True,
            direct=partial(delay.paced, count=count),
            may_fail=count > delay.SAFE_COUNT,
        )
        for count in delay.PACED_COUNTS
    },
    "growth": Scenario(relay.growth, is_long=True),
    "memory": Scenario(whole.memory, is_long=True),
    "start": Scenario(whole.start, is_long=True),
    "overload": Scenario(overload.overload, is_long=True),
    "soak": Scenario(soak.soak, is_long=True, by_default=False),
}
