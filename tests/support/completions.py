"""Requests for text completions, and the answers that providers give to them."""

import json
from collections.abc import Sequence
from typing import Any

from support.gateway import KEY, Gate, frames_of
from support.raw_client import Reply

PATH = "/v1/completions"
TEXTS = ("Once", " upon", " a time")
MODEL = "up/gpt-3.5-turbo-instruct"
"""One that OpenAI serves on this path."""


async def complete(gate: Gate, model: str = MODEL, *, key: str = KEY, **members: Any) -> Reply:
    body = json.dumps({"model": model, "prompt": "Tell me.", **members}).encode()
    return await gate.ask(path=PATH, key=key, body=body)


def _head() -> dict[str, Any]:
    return {
        "id": "cmpl-upstream00000001",
        "object": "text_completion",
        "created": 1700000000,
        "model": "gpt-3.5-turbo-instruct",
    }


def _usage(choices: int, tokens: int) -> dict[str, int]:
    return {"prompt_tokens": 3, "completion_tokens": choices * tokens, "total_tokens": 3 + choices * tokens}


def text_whole(text: str = "".join(TEXTS), choices: int = 1, finish: str = "length", **more: Any) -> bytes:
    made = [{"text": text, "index": i, "logprobs": None, "finish_reason": finish, **more} for i in range(choices)]
    return json.dumps({**_head(), "choices": made, "usage": _usage(choices, len(TEXTS))}).encode()


def text_frames(texts: Sequence[str] = TEXTS, choices: int = 1, finish: str = "length", **more: Any) -> list[bytes]:
    """Of all choices in turn; the finish is on the last text, as OpenAI sends it."""
    frames = []
    for number, text in enumerate(texts):
        for index in range(choices):
            word = finish if number == len(texts) - 1 else None
            choice = {"text": text, "index": index, "logprobs": None, "finish_reason": word, **more}
            frames.append(_sse({**_head(), "choices": [choice], "usage": None}))
    return [*frames, _sse({**_head(), "choices": [], "usage": _usage(choices, len(texts))}), b"data: [DONE]\n\n"]


def text_stream(texts: Sequence[str] = TEXTS, choices: int = 1, finish: str = "length", **more: Any) -> bytes:
    return b"".join(text_frames(texts, choices, finish, **more))


def _sse(document: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def choices_of(reply: Reply, is_streamed: bool) -> list[tuple[str, str]]:
    """Text and finish reason of every choice of an answer that is complete."""
    assert reply.status == 200, reply.body
    if not is_streamed:
        document = json.loads(reply.body)
        assert list(document) == ["id", "object", "created", "model", "choices", "usage"]
        assert [choice["index"] for choice in document["choices"]] == list(range(len(document["choices"])))
        _check(document)
        return [(choice["text"], choice["finish_reason"]) for choice in document["choices"]]
    *documents, done = frames_of(reply.body)
    assert done == "[DONE]"
    assert len({document["id"] for document in documents}) == 1
    texts: dict[int, str] = {}
    finishes: dict[int, str] = {}
    for document in documents:
        _check(document)
        for choice in document["choices"]:
            index = choice["index"]
            assert index not in finishes, "text after the finish"
            texts[index] = texts.get(index, "") + choice["text"]
            if choice["finish_reason"] is not None:
                finishes[index] = choice["finish_reason"]
    return [(texts[index], finishes[index]) for index in range(len(texts))]


def _check(document: dict[str, Any]) -> None:
    assert document["id"].startswith("cmpl-")
    assert document["object"] == "text_completion"
    for choice in document["choices"]:
        assert list(choice) == ["index", "text", "logprobs", "finish_reason"]
