"""Pydantic AI's `Agent` over its OpenAI chat model: `run_stream_sync` and `run_sync`."""

from observe import Job, Seen, raised, run, saw
from pydantic_ai import Agent, DeferredToolRequests, ToolDefinition
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError
from pydantic_ai.messages import ModelResponse, ThinkingPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.toolsets import ExternalToolset
from pydantic_ai.usage import RunUsage


def model_of(job: Job, model: str, key: str | None = None) -> OpenAIChatModel:
    settings = ModelSettings(max_tokens=job["max_tokens"], temperature=0)
    provider = OpenAIProvider(base_url=job["base_url"], api_key=key or job["key"])
    return OpenAIChatModel(model, provider=provider, settings=settings)


def text(job: Job, model: str) -> Seen:
    agent = Agent(model_of(job, model))
    streamed = "".join(agent.run_stream_sync(job["prompt"]).stream_text(delta=True, debounce_by=None))
    return saw(streamed=streamed, buffered=agent.run_sync(job["prompt"]).output)


def tools(job: Job, model: str) -> Seen:
    """The tools are run elsewhere, so that a turn ends with the calls."""
    tool = job["tool"]
    offered = ToolDefinition(
        name=tool["name"], description=tool["description"], parameters_json_schema=tool["parameters"]
    )
    agent = Agent(model_of(job, model), toolsets=[ExternalToolset([offered])], output_type=[str, DeferredToolRequests])

    def calls(output: str | DeferredToolRequests) -> list[dict[str, object]]:
        return [{"name": call.tool_name, "arguments": call.args} for call in output.calls]

    streamed = agent.run_stream_sync(job["prompt"]).get_output()
    return saw(streamed=calls(streamed), buffered=calls(agent.run_sync(job["prompt"]).output))


def reasoning(job: Job, model: str) -> Seen:
    def thinking(response: ModelResponse) -> str:
        return "".join(part.content for part in response.parts if isinstance(part, ThinkingPart))

    agent = Agent(model_of(job, model))
    stream = agent.run_stream_sync(job["prompt"])
    stream.get_output()
    return saw(streamed=thinking(stream.response), buffered=thinking(agent.run_sync(job["prompt"]).response))


def usage(job: Job, model: str) -> Seen:
    def numbers(found: RunUsage) -> list[int]:
        return [found.input_tokens, found.output_tokens, found.total_tokens]

    agent = Agent(model_of(job, model))
    stream = agent.run_stream_sync(job["prompt"])
    stream.get_output()
    return saw(streamed=numbers(stream.usage), buffered=numbers(agent.run_sync(job["prompt"]).usage))


def error(job: Job, model: str) -> Seen:
    before = ""
    try:
        for piece in (
            Agent(model_of(job, model)).run_stream_sync(job["prompt"]).stream_text(delta=True, debounce_by=None)
        ):
            before += piece
    except ModelAPIError as failure:
        return raised(failure, getattr(failure, "status_code", None), before)
    return saw(streamed=before)


def key(job: Job, model: str) -> Seen:
    return refusal(job, model, job["wrong_key"])


def refused(job: Job, model: str) -> Seen:
    return refusal(job, model, job["key"])


def refusal(job: Job, model: str, key: str) -> Seen:
    try:
        Agent(model_of(job, model, key)).run_stream_sync(job["prompt"]).get_output()
    except ModelHTTPError as failure:
        return raised(failure, failure.status_code)
    return saw()


if __name__ == "__main__":
    checks = {"text": text, "tools": tools, "reasoning": reasoning, "usage": usage}
    run({**checks, "error": error, "refused": refused, "key": key})
