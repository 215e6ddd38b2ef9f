"""Claude Code, opencode and Codex complete a task through the gateway, on every wire, as they do without it."""

import json
from pathlib import Path

import pytest

from support.agent_model import FINAL_TEXT, TURN_TOKENS, context_exceeded, cut_after, error_response
from support.agent_process import AGENTS, CLAUDE_CODE, MODEL, OPENCODE, Agent, network_interfaces
from support.agent_session import (
    PROMPT,
    ROUTES,
    agent_session,
    assert_accounted,
    assert_completed,
    assert_operators_settings,
    assert_received,
)
from support.gateway import KEY, chat_request

each_agent_and_route = pytest.mark.parametrize(
    ("agent", "route"),
    [pytest.param(agent, route, id=f"{agent.name}-{route}") for agent in AGENTS for route in ROUTES],
)
each_route = pytest.mark.parametrize("route", ROUTES)
RATE_LIMITED = error_response(429, ("retry-after", "3"))
"""Longer than the gateway waits itself."""


def test_there_is_no_network_but_the_loopback() -> None:
    assert network_interfaces() == ["lo"]


@each_agent_and_route
async def test_reasoning_a_written_file_two_parallel_calls_and_a_text(agent: Agent, route: str, tmp_path: Path) -> None:
    async with agent_session(agent, route, tmp_path) as session:
        run = await session.run()
        assert_completed(session, run)
        assert len(session.model.task_requests) == 3
        assert_received(session)
        if session.gateway is not None:
            await assert_accounted(session, TURN_TOKENS)
            assert_operators_settings(session)
        if agent is OPENCODE:
            assert len(session.model.requests_without_tools) == 1  # for a title


@each_agent_and_route
async def test_a_429_is_retried_by_the_agent(agent: Agent, route: str, tmp_path: Path) -> None:
    async with agent_session(agent, route, tmp_path, faults=(RATE_LIMITED,)) as session:
        run = await session.run()
        assert_completed(session, run)
        first, second, *_ = session.model.raw_requests
        assert (len(session.model.raw_requests), first.json) == (4, second.json)
        if session.gateway is not None:
            await session.gateway.logged("request", status=429, error="upstream_rate_limited")


@each_agent_and_route
async def test_a_cut_answer_is_an_error(agent: Agent, route: str, tmp_path: Path) -> None:
    async with agent_session(agent, route, tmp_path, fault=cut_after(FINAL_TEXT[0]), fault_turn=2) as session:
        run = await session.run()
        assert run.status != 0
        assert run.error
        assert "".join(FINAL_TEXT) not in run.texts
        if agent is not OPENCODE:  # it retries a broken connection, and takes an error event as final
            assert len(session.model.task_requests) > 3
        if session.gateway is not None:
            await assert_accounted(session, TURN_TOKENS[:2])


@each_route
async def test_claude_code_compacts_a_conversation_that_is_too_long(route: str, tmp_path: Path) -> None:
    async with agent_session(CLAUDE_CODE, route, tmp_path, faults=(context_exceeded,), fault_turn=1) as session:
        run = await session.run()
        assert (run.status, run.error) == (0, "")
        assert [each.get("subtype") for each in run.events].count("compact_boundary") == 1
        assert session.model.summary_requests
        assert run.texts[-1] == "".join(FINAL_TEXT)


async def test_claude_code_with_a_token_and_a_model_that_is_not_claude(tmp_path: Path) -> None:
    async with agent_session(CLAUDE_CODE, "openai", tmp_path) as session:
        environ = {"ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": KEY, "ANTHROPIC_MODEL": "up/deepseek-reasoner"}
        run = await CLAUDE_CODE.run(session.setup, PROMPT, environ)
        assert_completed(session, run)
        assert_received(session)


async def test_a_wrong_key_is_an_error(tmp_path: Path) -> None:
    async with agent_session(CLAUDE_CODE, "openai", tmp_path) as session:
        run = await CLAUDE_CODE.run(session.setup, PROMPT, {"ANTHROPIC_API_KEY": "sk-this-is-not-a-key"})
        assert run.status != 0
        assert "401" in run.error or "key" in run.error.lower()
        assert session.model.raw_requests == []
        assert session.gateway is not None
        await session.gateway.logged("request", status=401)


@each_route
async def test_claude_code_counts_the_tokens_of_its_context(route: str, tmp_path: Path) -> None:
    async with agent_session(CLAUDE_CODE, route, tmp_path) as session:
        run = await CLAUDE_CODE.run(session.setup, "/context")
        assert (run.status, run.error) == (0, "")
        assert "Estimated usage by category" in run.texts[0]
        assert session.model.task_requests == []
        if session.gateway is not None:  # without an answer Claude Code estimates, and says nothing
            reply = await session.gateway.answer(chat_request(path="/v1/messages/count_tokens?beta=true", model=MODEL))
            assert (reply.status, json.loads(reply.body)["input_tokens"] > 0) == (200, True)
        asked = [each for each in session.model.other_requests if "count_tokens" in each.path]
        assert (len(asked) > 1) == (session.model.wire.name == "anthropic")  # the others have no such count
