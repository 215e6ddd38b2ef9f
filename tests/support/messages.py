"""The Messages API as a client sees it: requests, and a reading of its streams that is as strict as the SDKs are."""

import json
from typing import Any

from support.gateway import KEY, Gate, chat_request
from support.raw_client import Reply

PATH = "/v1/messages"
QUESTION: dict[str, Any] = {"model": "up/m", "max_tokens": 100, "messages": [{"role": "user", "content": "Say hello."}]}

_FIELDS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
    "input_json_delta": ("tool_use", "partial_json"),
}


def messages_request(
    *, path: str = PATH, key: str | None = KEY, headers: tuple[tuple[str, str], ...] = (), **members: Any
) -> bytes:
    return chat_request(path=path, key=key, headers=headers, body=json.dumps({**QUESTION, **members}).encode())


async def ask(gate: Gate, *, stream: bool = True, **members: Any) -> Reply:
    async with await gate.connect() as client:
        await client.send(messages_request(stream=stream, **members))
        return await client.response()


def documents_of(body: bytes) -> list[Any]:
    """Of the frames, each of which must have its `event` line."""
    blocks = body.split(b"\n\n")
    assert blocks[-1] == b"", "the stream ends within a frame"
    documents: list[Any] = []
    for block in blocks[:-1]:
        lines = [line for line in block.split(b"\n") if not line.startswith(b":")]
        if not lines:
            continue
        event, data = lines
        documents.append(json.loads(data.removeprefix(b"data: ")))
        assert event == b"event: " + documents[-1]["type"].encode(), block
    return documents


def read_stream(body: bytes) -> dict[str, Any]:
    return read_documents(documents_of(body))


def read_documents(documents: list[Any]) -> dict[str, Any]:
    """The message at the end of a stream, as an SDK accumulates it, with the error in `error`. Asserts its order."""
    message: dict[str, Any] = {}
    open_blocks: dict[int, str] = {}
    is_ended = False
    for document in documents:
        assert not is_ended, document
        kind = document["type"]
        if kind == "error":
            message["error"] = document["error"]
            is_ended = True
        elif kind == "message_start":
            assert not message
            message = {**document["message"], "content": list(document["message"]["content"])}
            assert set(message["usage"]) >= {"input_tokens", "output_tokens"}
        elif kind == "ping":
            assert message, "nothing may stand before message_start"
        elif kind == "content_block_start":
            assert document["index"] == len(message["content"]), "indices have no gaps"
            open_blocks[document["index"]] = document["content_block"]["type"]
            message["content"].append(dict(document["content_block"]))
        elif kind == "content_block_delta":
            owner, field = _FIELDS[document["delta"]["type"]]
            block = message["content"][document["index"]]
            assert open_blocks[document["index"]] == owner == block["type"]
            block[field] = block.get(field, "") + document["delta"][field]
        elif kind == "content_block_stop":
            del open_blocks[document["index"]]
        elif kind == "message_delta":
            assert not open_blocks
            message.update(document["delta"])
            message["usage"] = {**message["usage"], **document["usage"]}
        else:
            assert (kind, document) == ("message_stop", {"type": "message_stop"})
            assert message["stop_reason"]
            is_ended = True
    assert is_ended
    for block in message.get("content", ()):
        if block["type"] == "tool_use" and "partial_json" in block:
            block["input"] = _input_in(block.pop("partial_json"))
    return message


def said_in(message: dict[str, Any]) -> str:
    """The text of its blocks."""
    return "".join(block["text"] for block in message.get("content", ()) if block["type"] == "text")


def _input_in(text: str) -> Any:
    """An SDK would raise where it is none; the whole body says it so."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"INVALID_JSON": text}
