"""Anthropic's official SDK for Python: `create`, streamed and whole, and the `stream` helper."""

from collections.abc import Iterable

import anthropic
from anthropic.types import ContentBlock, Usage
from observe import Job, Seen, raised, run, saw


def client(job: Job, key: str | None = None) -> anthropic.Anthropic:
    """Its addresses begin with the version themselves."""
    return anthropic.Anthropic(base_url=job["base_url"].removesuffix("/v1"), api_key=key or job["key"])


def question(job: Job, model: str, **more: object) -> dict[str, object]:
    """The newest version of the API has no temperature."""
    messages = [{"role": "user", "content": job["prompt"]}]
    extra = {"temperature": 0}
    return {"model": model, "messages": messages, "max_tokens": job["max_tokens"], "extra_body": extra, **more}


def pieces(job: Job, kind: str, asked: dict[str, object]) -> dict[int, str]:
    """The deltas of one kind, added up for each block."""
    member = {"input_json_delta": "partial_json", "thinking_delta": "thinking", "text_delta": "text"}[kind]
    added: dict[int, str] = {}
    for event in client(job).messages.create(**asked, stream=True):
        if event.type == "content_block_delta" and event.delta.type == kind:
            added[event.index] = added.get(event.index, "") + getattr(event.delta, member)
    return added


def text(job: Job, model: str) -> Seen:
    asked = question(job, model)
    streamed = "".join(pieces(job, "text_delta", asked).values())
    with client(job).messages.stream(**asked) as stream:
        helper = "".join(stream.text_stream)
    whole = client(job).messages.create(**asked)
    return saw(streamed=streamed, helper=helper, buffered=said(whole.content))


def said(content: Iterable[ContentBlock]) -> str:
    return "".join(block.text for block in content if block.type == "text")


def tools(job: Job, model: str) -> Seen:
    tool = job["tool"]
    offered = {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
    asked = question(job, model, tools=[offered])

    def calls(content: Iterable[ContentBlock]) -> list[dict[str, object]]:
        return [{"name": block.name, "arguments": block.input} for block in content if block.type == "tool_use"]

    names = {}
    for event in client(job).messages.create(**asked, stream=True):
        if event.type == "content_block_start" and event.content_block.type == "tool_use":
            names[event.index] = event.content_block.name
    arguments = pieces(job, "input_json_delta", asked)
    streamed = [{"name": name, "arguments": arguments[index]} for index, name in names.items()]
    with client(job).messages.stream(**asked) as stream:
        helper = calls(stream.get_final_message().content)
    return saw(streamed=streamed, helper=helper, buffered=calls(client(job).messages.create(**asked).content))


def reasoning(job: Job, model: str) -> Seen:
    asked = question(job, model, thinking={"type": "adaptive"})

    def thoughts(content: Iterable[ContentBlock]) -> str:
        return "".join(block.thinking for block in content if block.type == "thinking")

    streamed = "".join(pieces(job, "thinking_delta", asked).values())
    with client(job).messages.stream(**asked) as stream:
        helper = thoughts(stream.get_final_message().content)
    return saw(streamed=streamed, helper=helper, buffered=thoughts(client(job).messages.create(**asked).content))


def usage(job: Job, model: str) -> Seen:
    asked = question(job, model)

    def numbers(found: Usage) -> list[int]:
        """What was in the cache of the provider is no part of the input here."""
        cached = (found.cache_read_input_tokens or 0) + (found.cache_creation_input_tokens or 0)
        prompt = (found.input_tokens or 0) + cached
        return [prompt, found.output_tokens, prompt + found.output_tokens]

    streamed: list[int] = []
    for event in client(job).messages.create(**asked, stream=True):
        if event.type == "message_delta":
            streamed = numbers(event.usage)
    with client(job).messages.stream(**asked) as stream:
        helper = numbers(stream.get_final_message().usage)
    return saw(streamed=streamed, helper=helper, buffered=numbers(client(job).messages.create(**asked).usage))


def error(job: Job, model: str) -> Seen:
    before = ""
    try:
        for event in client(job).messages.create(**question(job, model), stream=True):
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                before += event.delta.text
    except anthropic.APIError as failure:
        return raised(failure, getattr(failure, "status_code", None), before)
    return saw(streamed=before)


def key(job: Job, model: str) -> Seen:
    return refusal(job, model, job["wrong_key"])


def refused(job: Job, model: str) -> Seen:
    return refusal(job, model, job["key"])


def refusal(job: Job, model: str, key: str) -> Seen:
    try:
        client(job, key).messages.create(**question(job, model), stream=True)
    except anthropic.APIStatusError as failure:
        return raised(failure, failure.status_code)
    return saw()


if __name__ == "__main__":
    checks = {"text": text, "tools": tools, "reasoning": reasoning, "usage": usage}
    run({**checks, "error": error, "refused": refused, "key": key})
