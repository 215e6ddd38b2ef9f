"""OpenAI's official SDK for Python over the Responses API: `create`, streamed and whole, `stream` and `parse`."""

import json
from collections.abc import Iterable

import openai
from observe import Job, Seen, raised, run, saw
from openai.types.responses import Response, ResponseOutputItem, ResponseUsage
from pydantic import BaseModel


class Weather(BaseModel):
    """As the job's schema says."""

    city: str
    degrees: int


def client(job: Job, key: str | None = None) -> openai.OpenAI:
    return openai.OpenAI(base_url=job["base_url"], api_key=key or job["key"])


def question(job: Job, model: str, **more: object) -> dict[str, object]:
    return {
        "model": model,
        "input": job["prompt"],
        "max_output_tokens": job["max_tokens"],
        "temperature": 0,
        **more,
    }


def pieces(job: Job, kind: str, asked: dict[str, object]) -> dict[int, str]:
    """The deltas of one kind, added up for each item."""
    added: dict[int, str] = {}
    for event in client(job).responses.create(**asked, stream=True):
        if event.type == kind:
            added[event.output_index] = added.get(event.output_index, "") + event.delta
    return added


def final(job: Job, asked: dict[str, object]) -> Response:
    with client(job).responses.stream(**asked) as stream:
        return stream.get_final_response()


def text(job: Job, model: str) -> Seen:
    asked = question(job, model)
    streamed = "".join(pieces(job, "response.output_text.delta", asked).values())
    helper, whole = final(job, asked), client(job).responses.create(**asked)
    return saw(streamed=streamed, helper=helper.output_text, buffered=whole.output_text)


def tools(job: Job, model: str) -> Seen:
    asked = question(job, model, tools=[{"type": "function", "strict": True, **job["tool"]}])

    def calls(output: Iterable[ResponseOutputItem]) -> list[dict[str, object]]:
        return [{"name": item.name, "arguments": item.arguments} for item in output if item.type == "function_call"]

    names = {}
    for event in client(job).responses.create(**asked, stream=True):
        if event.type == "response.output_item.added" and event.item.type == "function_call":
            names[event.output_index] = event.item.name
    arguments = pieces(job, "response.function_call_arguments.delta", asked)
    streamed = [{"name": name, "arguments": arguments[index]} for index, name in names.items()]
    whole = client(job).responses.create(**asked)
    return saw(streamed=streamed, helper=calls(final(job, asked).output), buffered=calls(whole.output))


def results(job: Job, model: str) -> Seen:
    """The items of the answer are sent back with the results of its calls."""
    asked = question(job, model, tools=[{"type": "function", "strict": True, **job["tool"]}])

    def answered(output: list[ResponseOutputItem]) -> dict[str, object]:
        told = [
            {
                "type": "function_call_output",
                "call_id": item.call_id,
                "output": f"Sun over {json.loads(item.arguments)['city']}.",
            }
            for item in output
            if item.type == "function_call"
        ]
        return {**asked, "input": [{"role": "user", "content": job["prompt"]}, *output, *told]}

    streamed = final(job, answered(final(job, asked).output)).output_text
    first = client(job).responses.create(**asked)
    return saw(streamed=streamed, buffered=client(job).responses.create(**answered(first.output)).output_text)


def reasoning(job: Job, model: str) -> Seen:
    asked = question(job, model, reasoning={"summary": "auto"})

    def thoughts(output: Iterable[ResponseOutputItem]) -> str:
        return "".join(part.text for item in output if item.type == "reasoning" for part in item.summary)

    streamed = "".join(pieces(job, "response.reasoning_summary_text.delta", asked).values())
    whole = client(job).responses.create(**asked)
    return saw(streamed=streamed, helper=thoughts(final(job, asked).output), buffered=thoughts(whole.output))


def usage(job: Job, model: str) -> Seen:
    asked = question(job, model)

    def numbers(found: ResponseUsage | None) -> list[int]:
        return [] if found is None else [found.input_tokens, found.output_tokens, found.total_tokens]

    streamed: list[int] = []
    for event in client(job).responses.create(**asked, stream=True):
        if event.type == "response.completed":
            streamed = numbers(event.response.usage)
    whole = client(job).responses.create(**asked)
    return saw(streamed=streamed, helper=numbers(final(job, asked).usage), buffered=numbers(whole.usage))


def parsed(job: Job, model: str) -> Seen:
    asked = question(job, model, text_format=Weather)

    def shown(response: Response) -> object:
        return response.output_parsed.model_dump()

    return saw(streamed=shown(final(job, asked)), buffered=shown(client(job).responses.parse(**asked)))


def embeddings(job: Job, model: str) -> Seen:
    """By default it asks for base64, and decodes that."""
    api = client(job).embeddings
    own = api.create(model=model, input=job["inputs"])
    floats = api.create(model=model, input=job["inputs"], encoding_format="float")
    return saw(own=[each.embedding for each in own.data], floats=[each.embedding for each in floats.data])


def completions(job: Job, model: str) -> Seen:
    """The legacy API."""
    api = client(job).completions
    asked: dict[str, object] = {"model": model, "prompt": job["prompt"], "max_tokens": job["max_tokens"]}
    streamed = "".join(chunk.choices[0].text for chunk in api.create(**asked, stream=True) if chunk.choices)
    return saw(streamed=streamed, buffered=api.create(**asked).choices[0].text)


def error(job: Job, model: str) -> Seen:
    before = ""
    try:
        for event in client(job).responses.create(**question(job, model), stream=True):
            if event.type == "response.output_text.delta":
                before += event.delta
    except openai.APIError as failure:
        return raised(failure, getattr(failure, "status_code", None), before)
    return saw(streamed=before)


def key(job: Job, model: str) -> Seen:
    return refusal(job, model, job["wrong_key"])


def refused(job: Job, model: str) -> Seen:
    return refusal(job, model, job["key"])


def refusal(job: Job, model: str, key: str) -> Seen:
    try:
        client(job, key).responses.create(**question(job, model), stream=True)
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
    more = {"embeddings": embeddings, "completions": completions}
    run({**checks, **more, "error": error, "refused": refused, "key": key})
