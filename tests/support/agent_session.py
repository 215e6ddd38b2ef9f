"""An agent on its task: a scripted model, with or without a gateway in front of it, and what each of them received.

A route is the wire of an upstream behind the gateway. `DIRECT` is the agent's own wire without a gateway: what an agent
does there it must do on every route. The gateway is `streamweir serve`, as a process of its own.
"""

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from support.agent_model import (
    COPY,
    FILE,
    FINAL_TEXT,
    POEM,
    REASONING,
    SECOND_REASONING,
    TITLE_TOKENS,
    TURN_TOKENS,
    AgentModel,
)
from support.agent_process import CODEX, MODEL, Agent, AgentRun, AgentSetup
from support.agent_turn import Fault, TokenCounts
from support.agent_wires import WIRES
from support.gateway import KEY
from support.scripted_upstream import ScriptedUpstream
from support.serve_process import Program, served

PROMPT = "Write a poem of one line into poem.txt, then read it and write its copy."
DIRECT = "direct"
ROUTES = (DIRECT, *WIRES)
MAX_OUTPUT_TOKENS = 20_000
"""Of the target behind the gateway. Claude Code and opencode ask for more, Codex for no limit."""
UPSTREAM_KEY = "sk-upstream-secret"
TARGETS = {
    "openai": ("deepseek", "deepseek-reasoner", ""),
    "anthropic": ("anthropic", "claude-opus-4-8", ""),
    "gemini": ("gemini", "gemini-3-pro-preview", ""),
    "responses": ("openai", "gpt-5.5", 'wire = "responses"\n'),
}
"""For each wire a kind of provider that has reasoning on it, a model, and further settings of the provider."""


SHOWN_CALLS = (
    ["read", "write", "write"],
    ["command_execution", "command_execution", "command_execution"],
    ["command_execution", "file_change", "file_change"],
)
"""The calls of the task, as agents name them; sorted, for parallel ones end in any order."""
SUCCESS = re.compile("success|exited with code 0|Script completed", re.IGNORECASE)
"""In the result of a call that writes a file."""


@dataclass
class AgentSession:
    agent: Agent
    model: AgentModel
    setup: AgentSetup
    gateway: Program | None = None

    async def run(self) -> AgentRun:
        return await self.agent.run(self.setup, PROMPT)


@asynccontextmanager
async def agent_session(
    agent: Agent,
    route: str,
    folder: Path,
    *,
    name: str = MODEL,
    settings: str = "",
    model_class: type[AgentModel] = AgentModel,
    faults: tuple[Fault, ...] = (),
    fault: Fault | None = None,
    fault_turn: int = 0,
) -> AsyncIterator[AgentSession]:
    """`name` and `settings` are those of `AgentSetup`, the faults those of `AgentModel`."""
    wire = WIRES[agent.wire if route == DIRECT else route]
    model = model_class(wire, folder / "workspace", list(faults), fault, fault_turn)
    async with ScriptedUpstream(model.script) as upstream:
        if route == DIRECT:
            base_url = upstream.base_url.removesuffix("/v1")
            yield AgentSession(agent, model, AgentSetup(base_url, KEY, folder, name, settings))
            return
        async with served(folder, _config(route, upstream.base_url)) as program:
            yield AgentSession(agent, model, AgentSetup(program.base_url, KEY, folder, name, settings), program)


def _config(route: str, base_url: str) -> str:
    kind, name, more = TARGETS[route]
    provider = (
        f'[[providers]]\nname = "up"\nkind = "{kind}"\nbase_url = "{base_url}"\napi_key = "{UPSTREAM_KEY}"\n{more}'
    )
    target = f'{{ provider = "up", model = "{name}", max_output_tokens = {MAX_OUTPUT_TOKENS} }}'
    prices = "{ input = 1.0, output = 2.0, cache_read = 0.1 }"
    models = (f'[[models]]\nid = "{id}"\ntargets = [{target}]\nprice = {prices}\n' for id in ("claude-*", "gpt-*"))
    return provider + "".join(models)


def assert_completed(session: AgentSession, run: AgentRun) -> None:
    """The agent executed the calls, showed reasoning, text and usage, and succeeded."""
    assert (run.status, run.error) == (0, ""), run
    assert (session.setup.workspace / FILE).read_text() == POEM
    assert (session.setup.workspace / COPY).read_text() == POEM
    assert sorted(name.lower() for name, _ in run.calls) in SHOWN_CALLS
    assert len(run.results) == 3
    assert any(POEM.strip() in result for result in run.results)
    assert run.texts == ["".join(FINAL_TEXT)]
    assert run.reasoning == ["".join(REASONING), "".join(SECOND_REASONING)]
    assert run.usage == {
        "uncached": sum(each.prompt - each.cached for each in TURN_TOKENS),
        "cached": sum(each.cached for each in TURN_TOKENS),
        "completion": sum(each.completion for each in TURN_TOKENS),
    }


def assert_received(session: AgentSession) -> None:
    """The model received the prompt, the instructions, the tools, their results, and its own turns with reasoning."""
    first_request, *_, last_request = session.model.task_requests
    assert any(PROMPT in text for text in first_request.texts)
    assert any(str(session.setup.workspace) in text for text in first_request.texts)  # of the agent's instructions
    assert all(schema["type"] == "object" for schema in first_request.tools.values())
    first, second = last_request.turns
    assert [call.id for turn in last_request.turns for call in turn.calls] == [each.id for each in last_request.results]
    assert (len(first.calls), len(second.calls)) == (1, 2)
    assert POEM.strip() in json.dumps(first.calls[0].arguments)
    written, read, copied = last_request.results
    assert SUCCESS.search(written.text)
    assert SUCCESS.search(copied.text)
    assert POEM.strip() in read.text
    for turn, reasoning in ((first, REASONING), (second, SECOND_REASONING)):
        if session.model.wire.name != "gemini":  # takes back the signature alone
            assert "".join(turn.reasoning) == "".join(reasoning)
        if session.model.wire.name != "openai":  # has no signatures
            assert turn.signature == session.model.signature_of(reasoning)


async def assert_accounted(session: AgentSession, turns: Sequence[TokenCounts]) -> None:
    """The gateway's log has these turns, and the titles, of this API and with the usage that the provider reported."""
    assert session.gateway is not None
    tokens = [*turns, *(TITLE_TOKENS for _ in session.model.requests_without_tools)]
    completed = [await session.gateway.logged("request", verdict="completed") for _ in tokens]
    assert {each["dialect"] for each in completed} == {session.agent.dialect}
    assert {each["usage_source"] for each in completed} == {"provider"}
    used = [each["usage"] for each in completed]
    assert sorted((each["prompt_tokens"], each["cache_read"], each["completion_tokens"]) for each in used) == sorted(
        (each.prompt, each.cached, each.completion) for each in tokens
    )


def assert_operators_settings(session: AgentSession) -> None:
    """The upstream got the operator's key, never the caller's, and a limit that the target has."""
    if session.agent is not CODEX or session.model.wire.name == "anthropic":  # which requires a limit
        assert {each.max_tokens for each in session.model.task_requests} == {MAX_OUTPUT_TOKENS}
    for request in session.model.raw_requests:
        values = " ".join(value for _, value in request.fields)
        assert UPSTREAM_KEY in values
        assert KEY not in values
        assert KEY.encode() not in request.body
