"""Codex in what is its own: custom tools, images, a context that is full, a wrong key, a WebSocket that is refused."""

import base64
from pathlib import Path

import pytest

from support.agent_model import FINAL_TEXT, TURN_TOKENS, AgentModel, context_exceeded
from support.agent_process import CODEX, CODEX_RESUME, CODEX_WORDS, PATCH_MODEL, SCRIPT_MODEL
from support.agent_responses_wire import context_exceeded_in_stream
from support.agent_session import (
    DIRECT,
    PROMPT,
    ROUTES,
    agent_session,
    assert_accounted,
    assert_completed,
    assert_received,
)
from support.agent_tools import other_call
from support.agent_turn import Fault, ModelRequest, Turn


class TeamModel(AgentModel):
    """It calls a tool of the namespace `collaboration`."""

    def turn(self, request: ModelRequest, number: int) -> Turn:
        return Turn(texts=FINAL_TEXT) if number else Turn(calls=(other_call(request, 1, "list_agents"),))


class ViewerModel(AgentModel):
    """It looks at an image."""

    def turn(self, request: ModelRequest, number: int) -> Turn:
        path = str(self.workspace / "pixel.png")
        return Turn(texts=FINAL_TEXT) if number else Turn(calls=(other_call(request, 1, "view_image", path=path),))


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
each_route = pytest.mark.parametrize("route", ROUTES)


@each_route
@pytest.mark.parametrize("name", [PATCH_MODEL, SCRIPT_MODEL])
async def test_custom_tools_and_tools_in_a_namespace(name: str, route: str, tmp_path: Path) -> None:
    async with agent_session(CODEX, route, tmp_path, name=name) as session:
        run = await session.run()
        assert_completed(session, run)
        assert len(session.model.task_requests) == 3
        assert_received(session)
        if session.gateway is not None:
            await assert_accounted(session, TURN_TOKENS)


@each_route
async def test_a_call_in_a_namespace(route: str, tmp_path: Path) -> None:
    async with agent_session(CODEX, route, tmp_path, name=SCRIPT_MODEL, model_class=TeamModel) as session:
        run = await session.run()
        assert (run.status, run.error, run.texts) == (0, "", ["".join(FINAL_TEXT)])
        _, request = session.model.task_requests
        assert [call.name for turn in request.turns for call in turn.calls] == ["collaboration__list_agents"]
        assert "/root" in request.results[0].text, "the agents that there are"


@each_route
async def test_an_image_of_the_user_and_one_of_a_tool_reach_the_model(route: str, tmp_path: Path) -> None:
    async with agent_session(CODEX, route, tmp_path, model_class=ViewerModel) as session:
        session.setup.workspace.mkdir()
        (session.setup.workspace / "pixel.png").write_bytes(PIXEL)
        run = await CODEX.run(session.setup, PROMPT, arguments=("exec", "--image", "pixel.png", *CODEX_WORDS))
        assert (run.status, run.error, run.texts) == (0, "", ["".join(FINAL_TEXT)])
        images = [request.body.count(base64.b64encode(PIXEL)) for request in session.model.raw_requests]
        assert images == [1, 2]


@each_route
async def test_a_conversation_that_is_too_long_is_compacted_in_the_next_turn(route: str, tmp_path: Path) -> None:
    fault = context_exceeded_in_stream if route == DIRECT else context_exceeded
    await compacts_after(fault, route, tmp_path)


async def test_a_conversation_that_is_found_to_be_too_long_in_the_stream_is_compacted(tmp_path: Path) -> None:
    await compacts_after(context_exceeded_in_stream, "responses", tmp_path)


async def compacts_after(fault: Fault, route: str, tmp_path: Path) -> None:
    async with agent_session(CODEX, route, tmp_path, faults=(fault,), fault_turn=1) as session:
        run = await session.run()
        assert run.status != 0
        assert "context window" in run.error
        assert (len(session.model.task_requests), session.model.summary_requests) == (2, [])
        run = await CODEX.run(session.setup, "Go on.", arguments=CODEX_RESUME)
        assert (run.status, run.error) == (0, "")
        assert len(session.model.summary_requests) == 1
        assert run.texts[-1] == "".join(FINAL_TEXT)


@each_route
async def test_a_websocket_is_refused_at_once(route: str, tmp_path: Path) -> None:
    """Codex asks once, and goes on over HTTP without a word to its user."""
    async with agent_session(CODEX, route, tmp_path, settings="supports_websockets = true\n") as session:
        run = await session.run()
        assert_completed(session, run)
        assert "WebSocket" not in str(run.events)
        assert run.stderr.count("failed to connect to Responses WebSocket") == 1
        assert len(session.model.task_requests) == 3


async def test_a_wrong_key_is_an_error(tmp_path: Path) -> None:
    async with agent_session(CODEX, "openai", tmp_path, settings="stream_max_retries = 1\n") as session:
        run = await CODEX.run(session.setup, PROMPT, {"GATEWAY_KEY": "sk-this-is-not-a-key"})
        assert run.status != 0
        assert "401" in run.error
        assert session.model.raw_requests == []
        assert session.gateway is not None
        await session.gateway.logged("request", status=401)
