"""The `llm` library, set up for such a server as its documentation says: `extra-openai-models.yaml` in its folder."""

import json
import os
import tempfile
from pathlib import Path

import llm
import openai
from observe import Job, Seen, absent, raised, run, saw


def model_of(job: Job, model: str) -> llm.KeyModel:
    row = {"model_id": model, "model_name": model, "api_base": job["base_url"], "supports_tools": True}
    row["api_key_name"] = "streamweir"
    with tempfile.TemporaryDirectory(prefix="llm-") as folder:
        os.environ["LLM_USER_PATH"] = folder
        Path(folder, "extra-openai-models.yaml").write_text(json.dumps([row]))  # JSON is YAML
        return llm.get_model(model)


def ask(
    job: Job, model: str, *, stream: bool, key: str | None = None, tools: list[llm.Tool] | None = None
) -> llm.Response:
    options = {"max_tokens": job["max_tokens"], "temperature": 0}
    return model_of(job, model).prompt(
        job["prompt"], stream=stream, key=key or job["key"], tools=tools, options=options
    )


def text(job: Job, model: str) -> Seen:
    streamed = "".join(ask(job, model, stream=True))
    return saw(streamed=streamed, buffered=ask(job, model, stream=False).text())


def tools(job: Job, model: str) -> Seen:
    tool = job["tool"]
    offered = [llm.Tool(name=tool["name"], description=tool["description"], input_schema=tool["parameters"])]

    def calls(stream: bool) -> list[dict[str, object]]:
        found = ask(job, model, stream=stream, tools=offered).tool_calls()
        return [{"name": call.name, "arguments": call.arguments} for call in found]

    return saw(streamed=calls(True), buffered=calls(False))


def reasoning(job: Job, model: str) -> Seen:
    def found(stream: bool) -> str:
        events = ask(job, model, stream=stream).stream_events()
        return "".join(event.chunk for event in events if event.type == "reasoning")

    streamed, buffered = found(True), found(False)
    if not streamed and not buffered:
        return absent("its chat model reads no reasoning from the wire, only that there was some")
    return saw(streamed=streamed, buffered=buffered)


def usage(job: Job, model: str) -> Seen:
    def numbers(stream: bool) -> list[int | None]:
        found = ask(job, model, stream=stream).usage()
        given = found.input is not None and found.output is not None
        return [found.input, found.output, found.input + found.output if given else None]

    return saw(streamed=numbers(True), buffered=numbers(False))


def error(job: Job, model: str) -> Seen:
    before = ""
    try:
        for piece in ask(job, model, stream=True):
            before += piece
    except openai.APIError as failure:
        return raised(failure, getattr(failure, "status_code", None), before)
    return saw(streamed=before)


def key(job: Job, model: str) -> Seen:
    return refusal(job, model, job["wrong_key"])


def refused(job: Job, model: str) -> Seen:
    return refusal(job, model, job["key"])


def refusal(job: Job, model: str, key: str) -> Seen:
    try:
        ask(job, model, stream=True, key=key).text()
    except openai.APIStatusError as failure:
        return raised(failure, failure.status_code)
    return saw()


if __name__ == "__main__":
    checks = {"text": text, "tools": tools, "reasoning": reasoning, "usage": usage}
    run({**checks, "error": error, "refused": refused, "key": key})
