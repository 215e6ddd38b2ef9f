"""OpenAI's framework for agents over the Responses API, which is its default: `run_sync` and `run_streamed`."""

import asyncio
import json
from typing import Any

import openai
from agents.exceptions import AgentsException
from agents.result import RunResultBase
from observe import Job, Seen, raised, run, saw
from openai.types.shared import Reasoning
from pydantic import BaseModel

from agents import (
    Agent,
    FunctionTool,
    ModelSettings,
    OpenAIResponsesModel,
    ReasoningItem,
    RunConfig,
    Runner,
    RunResult,
    RunResultStreaming,
    ToolCallItem,
)

OFFLINE = RunConfig(tracing_disabled=True)


class Weather(BaseModel):
    """As the job's schema says."""

    city: str
    degrees: int


def agent_of(job: Job, model: str, key: str | None = None, **more: Any) -> Agent:
    client = openai.AsyncOpenAI(base_url=job["base_url"], api_key=key or job["key"])
    settings = ModelSettings(max_tokens=job["max_tokens"], temperature=0, reasoning=Reasoning(summary="auto"))
    responses = OpenAIResponsesModel(model=model, openai_client=client)
    return Agent(name="Tester", model=responses, model_settings=settings, **more)


def buffered(job: Job, model: str, **more: Any) -> RunResult:
    return asyncio.run(Runner.run(agent_of(job, model, **more), job["prompt"], run_config=OFFLINE))


def streamed(job: Job, model: str, kind: str = "", before: list[str] | None = None, **more: Any) -> RunResultStreaming:
    """`before` gets the deltas of this kind."""

    async def read() -> RunResultStreaming:
        result = Runner.run_streamed(agent_of(job, model, **more), job["prompt"], run_config=OFFLINE)
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == kind and before is not None:
                before.append(event.data.delta)
        return result

    return asyncio.run(read())


def text(job: Job, model: str) -> Seen:
    deltas: list[str] = []
    whole = streamed(job, model, "response.output_text.delta", deltas)
    return saw(streamed="".join(deltas), helper=whole.final_output, buffered=buffered(job, model).final_output)


def tool_of(job: Job) -> FunctionTool:
    async def invoke(_: object, arguments: str) -> str:
        return f"Sun over {json.loads(arguments)['city']}."

    tool = job["tool"]
    return FunctionTool(tool["name"], tool["description"], tool["parameters"], invoke)


def tools(job: Job, model: str) -> Seen:
    """The run ends with the calls."""
    more: dict[str, Any] = {"tools": [tool_of(job)], "tool_use_behavior": "stop_on_first_tool"}

    def calls(result: RunResultBase) -> list[dict[str, object]]:
        made = [item.raw_item for item in result.new_items if isinstance(item, ToolCallItem)]
        return [{"name": call.name, "arguments": call.arguments} for call in made]

    return saw(streamed=calls(streamed(job, model, **more)), buffered=calls(buffered(job, model, **more)))


def results(job: Job, model: str) -> Seen:
    more: dict[str, Any] = {"tools": [tool_of(job)]}
    return saw(streamed=streamed(job, model, **more).final_output, buffered=buffered(job, model, **more).final_output)


def reasoning(job: Job, model: str) -> Seen:
    deltas: list[str] = []

    def thoughts(result: RunResultBase) -> str:
        items = [item.raw_item for item in result.new_items if isinstance(item, ReasoningItem)]
        return "".join(part.text for item in items for part in item.summary)

    whole = streamed(job, model, "response.reasoning_summary_text.delta", deltas)
    return saw(streamed="".join(deltas), helper=thoughts(whole), buffered=thoughts(buffered(job, model)))


def usage(job: Job, model: str) -> Seen:
    def numbers(result: RunResultBase) -> list[int]:
        found = result.context_wrapper.usage
        return [found.input_tokens, found.output_tokens, found.total_tokens]

    return saw(streamed=numbers(streamed(job, model)), buffered=numbers(buffered(job, model)))


def parsed(job: Job, model: str) -> Seen:
    def shown(result: RunResultBase) -> object:
        return result.final_output_as(Weather).model_dump()

    more: dict[str, Any] = {"output_type": Weather}
    return saw(streamed=shown(streamed(job, model, **more)), buffered=shown(buffered(job, model, **more)))


def error(job: Job, model: str) -> Seen:
    before: list[str] = []
    try:
        streamed(job, model, "response.output_text.delta", before)
    except (openai.APIError, AgentsException) as failure:
        return raised(failure, getattr(failure, "status_code", None), "".join(before))
    return saw(streamed="".join(before))


def key(job: Job, model: str) -> Seen:
    return refusal(job, model, job["wrong_key"])


def refused(job: Job, model: str) -> Seen:
    return refusal(job, model, job["key"])


def refusal(job: Job, model: str, key: str) -> Seen:
    try:
        streamed(job, model, key=key)
    except openai.APIStatusError as failure:
        return raised(failure, failure.status_code)
    return saw()


if __name__ == "__main__":
    checks = {
        "text": text,
        "tools": tools,
        "results": results,
        "reasoning": reasoning,
        "usage": usage,
        "parsed": parsed,
    }
    run({**checks, "error": error, "refused": refused, "key": key})
