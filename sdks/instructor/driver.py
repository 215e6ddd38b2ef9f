"""Instructor over the openai SDK: structured output by tool calls, and what it passes through without a model."""

from collections.abc import Iterable

import instructor
import openai
from instructor.core.exceptions import InstructorRetryException
from observe import Job, Seen, raised, run, saw
from pydantic import BaseModel, create_model


def client(job: Job, key: str | None = None, mode: instructor.Mode = instructor.Mode.TOOLS) -> instructor.Instructor:
    return instructor.from_openai(openai.OpenAI(base_url=job["base_url"], api_key=key or job["key"]), mode=mode)


def question(job: Job, model: str, **more: object) -> dict[str, object]:
    messages = [{"role": "user", "content": job["prompt"]}]
    return {"model": model, "messages": messages, "max_tokens": job["max_tokens"], "temperature": 0, **more}


def tool_model(job: Job) -> type[BaseModel]:
    """The class that Instructor offers as the job's tool: its name is the tool's."""
    fields = dict.fromkeys(job["tool"]["parameters"]["properties"], (str, ...))
    return create_model(job["tool"]["name"], __doc__=job["tool"]["description"], **fields)


def text(job: Job, model: str) -> Seen:
    create = client(job).chat.completions.create
    chunks = create(**question(job, model, stream=True, response_model=None))
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    whole = create(**question(job, model, response_model=None))
    return saw(streamed=streamed, buffered=whole.choices[0].message.content)


def tools(job: Job, model: str) -> Seen:
    """Its mode for parallel calls does not stream: streamed, the calls are those that it passes through."""
    offered = [{"type": "function", "function": job["tool"]}]
    streamed: dict[int, dict[str, str]] = {}
    for chunk in client(job).chat.completions.create(
        **question(job, model, stream=True, response_model=None, tools=offered)
    ):
        for piece in (chunk.choices[0].delta.tool_calls or []) if chunk.choices else []:
            call = streamed.setdefault(piece.index, {"name": "", "arguments": ""})
            call["name"] += piece.function.name or ""
            call["arguments"] += piece.function.arguments or ""
    parallel = client(job, mode=instructor.Mode.PARALLEL_TOOLS).chat.completions.create
    found = parallel(**question(job, model, response_model=Iterable[tool_model(job)]))
    buffered = [{"name": type(each).__name__, "arguments": each.model_dump()} for each in found]
    return saw(streamed=list(streamed.values()), buffered=buffered)


def reasoning(job: Job, model: str) -> Seen:
    create = client(job).chat.completions.create
    chunks = create(**question(job, model, stream=True, response_model=None))
    streamed = "".join(getattr(c.choices[0].delta, "reasoning_content", None) or "" for c in chunks if c.choices)
    whole = create(**question(job, model, response_model=None))
    return saw(streamed=streamed, buffered=whole.choices[0].message.reasoning_content)


def usage(job: Job, model: str) -> Seen:
    def numbers(found: openai.types.CompletionUsage) -> list[int]:
        return [found.prompt_tokens, found.completion_tokens, found.total_tokens]

    create = client(job).chat.completions.create
    asked = question(job, model, response_model=None)
    *_, last = create(**asked, stream=True, stream_options={"include_usage": True})
    return saw(streamed=numbers(last.usage), buffered=numbers(create(**asked).usage))


def error(job: Job, model: str) -> Seen:
    """Once for a plain stream, and once for a stream of partial objects, where Instructor wraps it in its own."""
    before = ""
    try:
        for chunk in client(job).chat.completions.create(**question(job, model, stream=True, response_model=None)):
            before += chunk.choices[0].delta.content or ""
        return saw(streamed=before)
    except openai.APIError:
        asked = question(job, model, response_model=tool_model(job))
        try:
            return saw(partial=[str(each) for each in client(job).chat.completions.create_partial(**asked)])
        except InstructorRetryException as failure:
            return raised(failure, before=before) if isinstance(failure.__cause__, openai.APIError) else saw()


def key(job: Job, model: str) -> Seen:
    return refusal(job, model, job["wrong_key"])


def refused(job: Job, model: str) -> Seen:
    return refusal(job, model, job["key"])


def refusal(job: Job, model: str, key: str) -> Seen:
    asked = question(job, model, response_model=tool_model(job))
    try:
        list(client(job, key).chat.completions.create_partial(**asked))
    except InstructorRetryException as failure:
        return raised(failure, getattr(failure.__cause__, "status_code", None))
    return saw()


if __name__ == "__main__":
    checks = {"text": text, "tools": tools, "reasoning": reasoning, "usage": usage}
    run({**checks, "error": error, "refused": refused, "key": key})
