"""Right answers of every dialect, as documents that a test can spoil: written by hand, by nothing of the engine.

An answer is a list of chunk documents; `stream` makes a recording of them, with the dialect's end.
"""

import copy
import json
from typing import Any

from streamweir.conformance import Recording, RequestInfo
from streamweir.frontends.chat.dialect import Dialect
from streamweir.frontends.chat.table import DIALECTS
from support.dialect_rules import BY_NAME

Documents = list[dict[str, Any]]

MODEL = "vendor/model"
REQUEST = RequestInfo(stream=True, include_usage=True, model=MODEL, choices=1)
HEADERS = (
    ("Content-Type", "text/event-stream; charset=utf-8"),
    ("Cache-Control", "no-cache, no-transform"),
    ("X-Request-Id", "req_1"),
)
JSON_HEADERS = (("content-type", "application/json"), ("x-request-id", "req_1"))
_COUNTS = {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21}
_ARGUMENTS = '{"city":"Tokyo"}'


def _chunk(dialect: Dialect, choices: list[Any], at: int = 0) -> dict[str, Any]:
    created = 1716825600 + (at if dialect.created_per_chunk else 0)
    head = {"id": BY_NAME[dialect.name].made_id(), "object": dialect.chunk_object, "created": created, "model": MODEL}
    chunk: dict[str, Any] = {**head, "choices": choices}
    if dialect.null_usage:
        chunk["usage"] = None
    return chunk


def _answer(dialect: Dialect, deltas: list[dict[str, Any]], finish: str) -> Documents:
    first = [dict(dialect.first_delta)] if dialect.first_delta is not None else []
    parts: Documents = [{"index": 0, "delta": delta, "finish_reason": None} for delta in [*first, *deltas]]
    parts.append({"index": 0, "delta": dict(dialect.finish_delta), "finish_reason": finish})
    chunks = [_chunk(dialect, [part], at) for at, part in enumerate(parts)]
    if dialect.usage.value != "on_finish":
        chunks.append(_chunk(dialect, []))
    chunks[-1]["usage"] = dict(_COUNTS)
    return chunks


def text(name: str = "openai") -> Documents:
    """Role, two pieces of text, finish, usage; in bitseek no role, and usage on the finish."""
    return _answer(DIALECTS[name], [{"content": "Hello"}, {"content": " there!"}], "stop")


def tool(name: str = "openai") -> Documents:
    """Role, a call in three pieces (in bitseek: one), finish, usage."""
    function: dict[str, Any] = {"name": "get_weather", "arguments": ""}
    opener = {"index": 0, "id": "call_1", "type": "function", "function": function}
    pieces = [{"index": 0, "function": {"arguments": part}} for part in (_ARGUMENTS[:7], _ARGUMENTS[7:])]
    if DIALECTS[name].whole_tool_calls:
        function["arguments"], pieces = _ARGUMENTS, []
    return _answer(DIALECTS[name], [{"tool_calls": [piece]} for piece in [opener, *pieces]], "tool_calls")


def legacy() -> Documents:
    deltas = [{"function_call": {"name": "get_weather", "arguments": ""}}, {"function_call": {"arguments": "{}"}}]
    return _answer(DIALECTS["openai"], deltas, "function_call")


def reasoning(name: str = "aivene") -> Documents:
    deltas: list[dict[str, Any]] = [{"reasoning_content": "Hm."}, {"content": "Hello"}]
    if DIALECTS[name].reasoning_details:
        deltas[0]["reasoning_details"] = [{"type": "reasoning.text", "text": "Hm."}]
    return _answer(DIALECTS[name], deltas, "stop")


def refusal() -> Documents:
    return _answer(DIALECTS["openai"], [{"refusal": "No."}], "stop")


def logprobs() -> Documents:
    documents = text("openai")
    entry = {"token": "Hello", "logprob": -0.3, "bytes": [72], "top_logprobs": []}
    documents[1]["choices"][0]["logprobs"] = {"content": [entry], "refusal": None}
    return documents


def failed(name: str = "openai") -> Documents:
    """Role and text (bitseek: text), then the error."""
    dialect = DIALECTS[name]
    every: dict[str, Any] = {"message": "upstream timeout", "type": "stream_error", "param": None, "code": None}
    error: dict[str, Any] = {"error": {member: every[member] for member in dialect.error_members}}
    if dialect.error_in_chunk:
        error = {**_chunk(dialect, [], at=2), **error}
    return [*text(name)[:2], error]


def written(documents: Documents, dialect: str = "openai") -> bytes:
    frames = [b"data: " + json.dumps(each, separators=(",", ":")).encode() + b"\n\n" for each in documents]
    return b"".join(frames) + DIALECTS[dialect].terminator


def stream(documents: Documents, dialect: str = "openai", **known: Any) -> Recording:
    return recorded(written(documents, dialect), **known)


def recorded(body: bytes, **known: Any) -> Recording:
    return Recording(**{"body": body, "request": REQUEST, "status": 200, "headers": HEADERS, **known})


def whole_document(name: str = "openai") -> dict[str, Any]:
    function = {"name": "get_weather", "arguments": _ARGUMENTS}
    message = {
        "role": "assistant",
        "content": "Hello",
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    head = {"id": BY_NAME[name].made_id(), "object": "chat.completion", "created": 1716825600, "model": MODEL}
    return copy.deepcopy({**head, "choices": [choice], "usage": _COUNTS})


def whole(document: Any, **known: Any) -> Recording:
    request = RequestInfo(stream=False, model=MODEL, choices=1)
    return recorded(json.dumps(document).encode(), **{"request": request, "headers": JSON_HEADERS, **known})


def failure_document(name: str = "openai") -> dict[str, Any]:
    every = {"message": "invalid api key", "type": "authentication_error", "param": None, "code": "invalid_api_key"}
    return {"error": {member: every[member] for member in DIALECTS[name].error_members}}


def failure(document: Any, **known: Any) -> Recording:
    return recorded(json.dumps(document).encode(), **{"status": 401, "headers": JSON_HEADERS, **known})
