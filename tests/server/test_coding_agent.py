"""The simulator's script for coding agents in a real loop: a client on a real socket that carries out what it calls.

The client is a small coding agent on the official SDK: it states its working directory, offers tools, carries out
the calls, sends their results, and stops at an answer without calls.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from support.gateway import KEY, Gate, gateway

CONFIG = f"""
[[providers]]
name = "sim"
kind = "sim"

[[keys]]
name = "tests"
key = "{KEY}"
"""
TEXT = {"type": "string"}


def tool(name: str, *members: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": dict.fromkeys(members, TEXT), "required": list(members)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def write_into(folder: Path, path: str, content: str) -> str:
    file = Path(path)
    if file.parent != folder:
        return f"Error: {path} is not an absolute path in {folder}"
    if file.exists():
        return "File has not been read yet. Read it first before writing to it."
    file.write_text(content)
    return f"File created successfully at: {path}"


class Agent:
    """One session. `answers` are the messages of the model."""

    def __init__(self, gate: Gate, folder: Path, *, streams: bool) -> None:
        self.answers: list[dict[str, Any]] = []
        self.usages: list[tuple[int, int, int]] = []
        self.write: Callable[[str, str], str] = lambda path, content: write_into(folder, path, content)
        self._gate = gate
        self._messages: list[Any] = [{"role": "system", "content": f"<env>\n  Working directory: {folder}\n</env>"}]
        self._streams = streams

    async def does(self, task: str) -> str:
        self._messages.append({"role": "user", "content": task})
        for _ in range(10):
            message = await self._answer()
            self.answers.append(message)
            self._messages.append(message)
            if not message.get("tool_calls"):
                return str(message["content"])
            for call in message["tool_calls"]:
                assert call["function"]["name"] == "write"
                arguments = json.loads(call["function"]["arguments"])
                result = self.write(arguments["filePath"], arguments["content"])
                self._messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        raise AssertionError("it does not come to an end")

    async def _answer(self) -> dict[str, Any]:
        asked: Any = {
            "model": "sim/agent",
            "messages": self._messages,
            "tools": [tool("bash", "command"), tool("read", "filePath"), tool("write", "content", "filePath")],
        }
        async with AsyncOpenAI(base_url=self._gate.base_url + "/v1", api_key=KEY, max_retries=0) as client:
            if self._streams:
                asked["stream_options"] = {"include_usage": True}
                async with client.chat.completions.stream(**asked) as stream:
                    completion: Any = await stream.get_final_completion()
            else:
                completion = await client.chat.completions.create(**asked)
        usage, message = completion.usage, completion.choices[0].message
        details = usage.completion_tokens_details
        self.usages.append((usage.prompt_tokens, usage.completion_tokens, details.reasoning_tokens))
        assert completion.choices[0].finish_reason == ("tool_calls" if message.tool_calls else "stop")
        written: dict[str, Any] = message.model_dump(exclude_none=True, exclude={"parsed"})
        for call in written.get("tool_calls", []):
            call["function"].pop("parsed_arguments", None)
            call.pop("index", None)
        return written


streamed_and_whole = pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])


@streamed_and_whole
async def test_an_agent_writes_a_file_and_reports_it(tmp_path: Path, streams: bool) -> None:
    async with gateway(CONFIG) as gate:
        agent = Agent(gate, tmp_path, streams=streams)
        ending = await agent.does("Write a file.")
        records = await gate.settled(2)
    written = tmp_path / "hello-from-streamweir.txt"
    assert written.read_text().startswith("Hello from Streamweir!")
    assert f"I wrote {written}." in ending
    assert str(tmp_path) in agent.answers[0]["reasoning_content"]
    assert [record.verdict for record in records] == ["completed"] * 2
    metered = [record.usage for record in records if record.usage is not None]
    assert [(usage.prompt_tokens, usage.completion_tokens) for usage in metered] == [
        counts[:2] for counts in agent.usages
    ]
    assert agent.usages[0][2] > 0
    assert agent.usages[1][2] == 0


@streamed_and_whole
async def test_two_files_are_two_calls_of_one_answer_and_the_next_task_writes_another(
    tmp_path: Path, streams: bool
) -> None:
    async with gateway(CONFIG) as gate:
        agent = Agent(gate, tmp_path, streams=streams)
        await agent.does("Write two files.")
        assert len(agent.answers[0]["tool_calls"]) == 2
        assert len(agent.answers) == 2
        await agent.does("And a third.")
        assert {file.name for file in tmp_path.iterdir()} == {
            "hello-from-streamweir.txt",
            "hello-from-streamweir-2.txt",
            "hello-from-streamweir-3.txt",
        }
        again = Agent(gate, tmp_path, streams=streams)  # another session: the names are taken
        ending = await again.does("Write a file.")
        assert f"I wrote {tmp_path / 'hello-from-streamweir-4.txt'}." in ending


@streamed_and_whole
async def test_an_agent_whose_tool_fails_reports_it(tmp_path: Path, streams: bool) -> None:
    async with gateway(CONFIG) as gate:
        agent = Agent(gate, tmp_path, streams=streams)
        agent.write = lambda _path, _content: "Error: EACCES: permission denied"
        ending = await agent.does("Write a file.")
    assert len(agent.answers) == 2
    assert ending.startswith("I could not write ")
    assert "EACCES: permission denied" in ending
    assert list(tmp_path.iterdir()) == []


@streamed_and_whole
async def test_a_request_for_a_title_gets_one(streams: bool) -> None:
    schema = {"type": "object", "properties": {"title": TEXT}, "required": ["title"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "output", "strict": True, "schema": schema}}
    async with gateway(CONFIG) as gate, AsyncOpenAI(base_url=gate.base_url + "/v1", api_key=KEY) as client:
        asked: Any = {
            "model": "sim/agent",
            "messages": [{"role": "user", "content": "Write a file."}],
            "response_format": form,
            "max_completion_tokens": 100,
        }
        if streams:
            async with client.chat.completions.stream(**asked) as stream:
                completion: Any = await stream.get_final_completion()
        else:
            completion = await client.chat.completions.create(**asked)
        assert json.loads(completion.choices[0].message.content) == {"title": "Example title"}
