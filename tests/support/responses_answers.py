"""Right answers of the Responses API: streams, whole responses and failures, which tests spoil in one way each.

A stream is a list of documents. When it is written, each gets its number, and the end repeats the items that are done,
unless the test has put something else there.
"""

import copy
import json
from typing import Any

from streamweir.conformance import Recording, RequestInfo

HEADERS = (("content-type", "text/event-stream"), ("cache-control", "no-cache"), ("x-request-id", "req_1"))
JSON_HEADERS = (("content-type", "application/json"), ("x-request-id", "req_1"))
USAGE: dict[str, Any] = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 12,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 21,
}
HEAD: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "in_progress",
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "model": "m",
    "output": [],
    "parallel_tool_calls": True,
    "temperature": 1.0,
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "metadata": {},
    "usage": None,
}
REPEATED = "the items that are done"
SUMMARY = {"type": "summary_text", "text": "Hm."}
SAID = {"type": "output_text", "annotations": [], "logprobs": [], "text": "Hello there."}
CALL = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "get_weather"}
CUSTOM = {"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_2", "name": "apply_patch"}

Documents = list[dict[str, Any]]


def begun() -> Documents:
    return [{"type": f"response.{name}", "response": copy.deepcopy(HEAD)} for name in ("created", "in_progress")]


def end(status: str = "completed", **members: Any) -> dict[str, Any]:
    response = {**copy.deepcopy(HEAD), "status": status, "output": REPEATED, "usage": copy.deepcopy(USAGE), **members}
    return {"type": f"response.{status}", "response": response}


def item(index: int, change: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"type": f"response.output_item.{change}", "output_index": index, "item": copy.deepcopy(value)}


def message(index: int = 0, status: str = "completed") -> Documents:
    """added 0, part 1, deltas 2 and 3, text 4, part 5, done 6."""
    head = {"id": f"msg_{index}", "type": "message", "role": "assistant"}
    at = {"item_id": head["id"], "output_index": index, "content_index": 0}
    text = "response.output_text"
    return [
        item(index, "added", {**head, "status": "in_progress", "content": []}),
        {"type": "response.content_part.added", **at, "part": {**SAID, "text": ""}},
        {"type": f"{text}.delta", **at, "delta": "Hello", "logprobs": []},
        {"type": f"{text}.delta", **at, "delta": " there.", "logprobs": []},
        {"type": f"{text}.done", **at, "text": "Hello there.", "logprobs": []},
        {"type": "response.content_part.done", **at, "part": dict(SAID)},
        item(index, "done", {**head, "status": status, "content": [dict(SAID)]}),
    ]


def reasoning(index: int) -> Documents:
    """added 0, part 1, delta 2, text 3, part 4, done 5."""
    head = {"id": f"rs_{index}", "type": "reasoning"}
    at = {"item_id": head["id"], "output_index": index, "summary_index": 0}
    part, text = "response.reasoning_summary_part", "response.reasoning_summary_text"
    return [
        item(index, "added", {**head, "summary": []}),
        {"type": f"{part}.added", **at, "part": {**SUMMARY, "text": ""}},
        {"type": f"{text}.delta", **at, "delta": "Hm."},
        {"type": f"{text}.done", **at, "text": "Hm."},
        {"type": f"{part}.done", **at, "part": dict(SUMMARY)},
        item(index, "done", {**head, "summary": [dict(SUMMARY)], "encrypted_content": "c2Vu"}),
    ]


def call(index: int, head: dict[str, Any], stem: str, member: str, *pieces: str) -> Documents:
    """added 0, the pieces, the input, done."""
    at = {"item_id": head["id"], "output_index": index}
    whole = "".join(pieces)
    return [
        item(index, "added", {**head, "status": "in_progress", member: ""}),
        *({"type": f"{stem}.delta", **at, "delta": piece} for piece in pieces),
        {"type": f"{stem}.done", **at, member: whole},
        item(index, "done", {**head, "status": "completed", member: whole}),
    ]


def text() -> Documents:
    """created 0, in_progress 1, message 2 to 8 (deltas 4 and 5), end 9, with a keepalive 6 in between: end 10."""
    documents = [*begun(), *message(), end()]
    documents.insert(6, {"type": "keepalive"})
    return documents


def agent() -> Documents:
    """Reasoning 2 to 7, a message 8 to 14, a call 15 to 19, a custom call 20 to 23, end 24."""
    arguments, free = "response.function_call_arguments", "response.custom_tool_call_input"
    return [
        *begun(),
        *reasoning(0),
        *message(1),
        *call(2, CALL, arguments, "arguments", '{"city":', '"Paris"}'),
        *call(3, CUSTOM, free, "input", "*** Begin"),
        end(),
    ]


def cut_short() -> Documents:
    """created 0, in_progress 1, message 2 to 8, end 9."""
    return [
        *begun(),
        *message(status="incomplete"),
        end("incomplete", incomplete_details={"reason": "max_output_tokens"}),
    ]


def failed() -> Documents:
    """created 0, in_progress 1, a part of a message 2 to 4, error 5, failed 6."""
    error = {"code": "server_error", "message": "It broke off."}
    frame = {"type": "error", "error": {"type": "server_error", **error, "param": None}}
    return [*begun(), *message()[:3], frame, end("failed", error=error, usage=None)]


def whole(status: str = "completed", **members: Any) -> dict[str, Any]:
    output = [document["item"] for document in agent() if document["type"] == "response.output_item.done"]
    return {**copy.deepcopy(HEAD), "status": status, "output": output, "usage": copy.deepcopy(USAGE), **members}


def failure(code: str | None = "model_not_found", param: str | None = "model") -> dict[str, Any]:
    return {"error": {"message": "No.", "type": "invalid_request_error", "param": param, "code": code}}


def numbered(documents: Documents) -> Documents:
    """As they are written."""
    documents = copy.deepcopy(documents)
    done = [each.get("item") for each in documents if each.get("type") == "response.output_item.done"]
    for number, document in enumerate(documents):
        document.setdefault("sequence_number", number)
        response = document.get("response")
        if isinstance(response, dict) and response.get("output") == REPEATED:
            response["output"] = done
    return documents


def written(documents: Documents) -> bytes:
    frames = (f"event: {each.get('type')}\ndata: {json.dumps(each)}\n\n" for each in numbered(documents))
    return "".join(frames).encode()


def recorded(body: bytes, **known: Any) -> Recording:
    usual: dict[str, Any] = {"request": RequestInfo(stream=True, model="m"), "status": 200, "headers": HEADERS}
    return Recording(body=body, **{**usual, **known})


def stream(documents: Documents) -> Recording:
    return recorded(written(documents))


def document(value: Any, status: int = 200) -> Recording:
    return recorded(json.dumps(value).encode(), status=status, headers=JSON_HEADERS, request=RequestInfo(stream=False))
