"""Right answers of the Messages API, each with one defect, and the rule that must report it.

`DEFECTS` has at least one for every rule over a recorded answer, `SESSION_DEFECTS` for every rule over an endpoint.
`also` are the rules that cannot hold either: no answer breaks the one without the other.
"""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from streamweir.conformance import Recording, RequestInfo
from streamweir.conformance.messages.plan import MESSAGES_PLAN
from streamweir.conformance.probe_session import FailureKind, ObservedExchange
from support.answer_changes import Change, again, drop, put

HEADERS = (("content-type", "text/event-stream"), ("cache-control", "no-cache"), ("request-id", "req_1"))
JSON_HEADERS = (("content-type", "application/json"), ("request-id", "req_1"))
USAGE = {"input_tokens": 9, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 12}
HEAD: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}

Documents = list[dict[str, Any]]


@dataclass(frozen=True)
class Defect:
    rule: str
    recording: Recording
    also: frozenset[str] = frozenset()


def start() -> dict[str, Any]:
    message = {**HEAD, "stop_reason": None, "stop_sequence": None, "usage": {**USAGE, "output_tokens": 1}}
    return {"type": "message_start", "message": message}


def end(reason: str = "end_turn") -> Documents:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [{"type": "message_delta", "delta": delta, "usage": dict(USAGE)}, {"type": "message_stop"}]


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> Documents:
    grown = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    opened = {"type": "content_block_start", "index": index, "content_block": content}
    return [opened, *grown, {"type": "content_block_stop", "index": index}]


def said(index: int = 0) -> Documents:
    pieces = [{"type": "text_delta", "text": text} for text in ("Hello", " there.")]
    return block(index, {"type": "text", "text": ""}, *pieces)


def text() -> Documents:
    """start 0, block 1 to 4, ping 5, delta 6, stop 7."""
    return [start(), *said(), {"type": "ping"}, *end()]


def agent() -> Documents:
    """start 0; thinking 1 to 4; text 5 to 8; a call 9 to 12; another 13 to 14; delta 15, stop 16."""
    thinking = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Hm."},
        {"type": "signature_delta", "signature": "c2ln"},
    )
    pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in ('{"city":', '"Paris"}')]
    calls = [*block(2, dict(CALL), *pieces), *block(3, {**CALL, "id": "toolu_2"})]
    return [start(), *thinking, *said(1), *calls, *end("tool_use")]


def failed() -> Documents:
    """start 0, a part of a block 1 and 2, error 3."""
    error = {"type": "overloaded_error", "message": "Overloaded"}
    return [start(), *said()[:2], {"type": "error", "error": error, "request_id": "req_1"}]


def whole() -> dict[str, Any]:
    content = [{"type": "text", "text": "Hello there."}, {**CALL, "input": {"city": "Paris"}}]
    return {**HEAD, "content": content, "stop_reason": "tool_use", "stop_sequence": None, "usage": dict(USAGE)}


def failure() -> dict[str, Any]:
    error = {"type": "not_found_error", "message": "model: x"}
    return {"type": "error", "error": error, "request_id": "req_1"}


def written(documents: Documents) -> bytes:
    frames = (f"event: {each.get('type')}\ndata: {json.dumps(each)}\n\n" for each in documents)
    return "".join(frames).encode()


def recorded(body: bytes, **known: Any) -> Recording:
    usual: dict[str, Any] = {"request": RequestInfo(stream=True, model="m"), "status": 200, "headers": HEADERS}
    return Recording(body=body, **{**usual, **known})


def stream(documents: Documents) -> Recording:
    return recorded(written(documents))


def document(value: Any, status: int = 200) -> Recording:
    return recorded(json.dumps(value).encode(), status=status, headers=JSON_HEADERS, request=RequestInfo(stream=False))


def spoiled(rule: str, documents: Documents, *changes: Change, also: str = "") -> Defect:
    for change in changes:
        change(documents)
    return Defect(rule, stream(documents), frozenset(also.split()))


def in_bytes(rule: str, change: Callable[[bytes], bytes], also: str = "") -> Defect:
    return Defect(rule, recorded(change(written(text()))), frozenset(also.split()))


def in_whole(rule: str, *changes: Change, also: str = "") -> Defect:
    value = whole()
    for change in changes:
        change(value)
    return Defect(rule, document(value), frozenset(also.split()))


def in_failure(rule: str, *changes: Change, status: int = 404) -> Defect:
    value = failure()
    for change in changes:
        change(value)
    return Defect(rule, document(value, status))


def moved(source: int, at: int) -> Change:
    def change(documents: Documents) -> None:
        documents.insert(at, documents.pop(source))

    return change


def added(at: int, *more: dict[str, Any]) -> Change:
    def change(documents: Documents) -> None:
        documents[at:at] = copy.deepcopy(list(more))

    return change


_PIECE = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "!"}}
DEFECTS = [
    in_bytes("event.typed", lambda b: b + b'data: {"index": 0}\n\n', also="event.nothing-after-the-end"),
    in_bytes("event.name", lambda b: b.replace(b"event: ping\n", b"")),
    in_bytes("event.name", lambda b: b.replace(b"event: content_block_delta\n", b"event: delta\n", 1)),
    spoiled("event.known", text(), added(5, {"type": "progress"})),
    spoiled("event.start-first", text(), moved(5, 0)),
    spoiled("event.start-first", text(), drop("0")),
    spoiled("event.start-once", text(), again(0, 1)),
    spoiled("event.end", text(), drop("7")),
    spoiled("event.nothing-after-the-end", text(), added(8, {"type": "ping"})),
    in_bytes("event.nothing-after-the-end", lambda b: b + b"data: [DONE]\n\n"),
    spoiled("event.nothing-after-the-end", failed(), again(2, 4)),
    in_bytes("event.no-done", lambda b: b.replace(b"event: message_stop", b"data: [DONE]\n\nevent: message_stop")),
    spoiled("event.delta-after-blocks", text(), moved(6, 1)),
    spoiled("event.delta-before-stop", text(), drop("6")),
    spoiled("start.members", text(), drop("0.message.role")),
    spoiled("start.members", text(), put("0.message.id", 7)),
    spoiled("start.empty", text(), put("0.message.content", [{"type": "text", "text": "Hi"}])),
    spoiled("start.empty", text(), put("0.message.stop_reason", "end_turn")),
    spoiled("start.usage", text(), drop("0.message.usage")),
    spoiled("start.usage", text(), put("0.message.usage.input_tokens", -1)),
    spoiled("block.some", [start(), *end()]),
    spoiled("block.index", text(), added(5, {"type": "content_block_stop"})),
    spoiled("block.no-gaps", text(), *[put(f"{at}.index", 1) for at in (1, 2, 3, 4)]),
    spoiled("block.no-gaps", text(), added(5, *said()), also="block.open"),
    spoiled("block.members", text(), drop("1.content_block.text")),
    spoiled("block.members", agent(), put("9.content_block.input", "{}")),
    spoiled("block.members", text(), drop("1.content_block.type")),
    spoiled("block.open", text(), added(5, _PIECE)),
    spoiled("block.open", text(), added(1, _PIECE)),
    spoiled("block.stopped", text(), drop("4")),
    spoiled("block.one-open", agent(), moved(8, 12)),
    spoiled("delta.known", text(), put("2.delta", {"type": "shout_delta", "text": "Hello"})),
    spoiled("delta.kind", text(), put("2.delta", {"type": "thinking_delta", "thinking": "Hm."})),
    spoiled("delta.kind", agent(), put("10.delta", {"type": "text_delta", "text": "x"}), also="call.arguments"),
    spoiled("delta.member", text(), put("2.delta.text", None)),
    spoiled("delta.member", text(), put("2.delta", {"type": "citations_delta", "citation": "x"})),
    spoiled("signature.last", agent(), moved(3, 2)),
    spoiled("signature.last", agent(), again(3, 3)),
    spoiled("signature.present", agent(), drop("3")),
    spoiled("call.id", agent(), put("13.content_block.id", "toolu_1")),
    spoiled("call.id", agent(), put("9.content_block.name", "")),
    spoiled("call.arguments", agent(), drop("11")),
    spoiled("stop.once", text(), again(6, 6)),
    spoiled("stop.reason", text(), put("6.delta.stop_reason", "stop")),
    spoiled("stop.reason", text(), put("6.delta.stop_reason", None)),
    spoiled("stop.sequence", text(), put("6.delta.stop_sequence", "END")),
    spoiled("stop.sequence", text(), put("6.delta.stop_reason", "stop_sequence")),
    spoiled("stop.tool-use", agent(), put("15.delta.stop_reason", "end_turn")),
    spoiled("stop.tool-use", text(), put("6.delta.stop_reason", "tool_use")),
    spoiled("count.usage", text(), drop("6.usage")),
    spoiled("count.usage", text(), put("6.usage.output_tokens", "12")),
    spoiled("count.counts", text(), put("6.usage.cache_read_input_tokens", "0")),
    spoiled("count.grows", text(), put("0.message.usage.output_tokens", 20)),
    spoiled("error.object", failed(), put("3.error", "Overloaded")),
    spoiled("error.object", failed(), drop("3.error.message")),
    spoiled("error.type", failed(), put("3.error.type", "server_error")),
    in_whole("whole.members", drop("role")),
    in_whole("whole.members", put("type", "completion")),
    in_whole("whole.some", put("content", []), put("stop_reason", "end_turn")),
    in_whole("whole.content", put("content.1.input", "{}")),
    in_whole("whole.content", put("content.0", {"text": "Hello"})),
    in_whole("whole.stop-reason", put("stop_reason", "stop")),
    in_whole("whole.stop-reason", put("stop_reason", "end_turn")),
    in_whole("whole.usage", drop("usage")),
    in_failure("failure.object", drop("error.message")),
    in_failure("failure.object", drop("type")),
    in_failure("failure.type", put("error.type", "api_error")),
    in_failure("failure.type", status=500),
    in_failure("failure.status", status=200),
    Defect("header.request-id", recorded(written(text()), headers=HEADERS[:2])),
    in_bytes("framing.line-ends", lambda b: b.replace(b"\n", b"\r\n")),
    in_bytes("framing.json", lambda b: b.replace(b'"Hello"', b'"Hello')),
    Defect("header.stream-type", recorded(written(text()), headers=(("content-type", "text/plain"), *HEADERS[1:]))),
]

REFUSED = {
    "unknown-model": (404, "not_found_error"),
    "unknown-model-streamed": (404, "not_found_error"),
    "wrong-key": (401, "authentication_error"),
    "no-key": (401, "authentication_error"),
    "not-json": (400, "invalid_request_error"),
    "wrong-type": (400, "invalid_request_error"),
    "no-messages": (400, "invalid_request_error"),
    "no-max-tokens": (400, "invalid_request_error"),
}
SessionChange = Callable[[dict[str, ObservedExchange]], None]


def right_exchanges() -> dict[str, ObservedExchange]:
    """What a right endpoint answers to the whole plan."""
    made = {}
    for number, request in enumerate(MESSAGES_PLAN.requests(MESSAGES_PLAN.options("m"))):
        recording = _right(request.name, streamed=request.is_streamed, id=f"msg_{number}")
        headers = tuple(
            (name, f"req_{number}" if name == "request-id" else value) for name, value in recording.headers or ()
        )
        recording = structs.replace(recording, headers=headers, name=request.name)
        made[request.name] = ObservedExchange(name=request.name, probe_request=request, recording=recording)
    return made


def _right(name: str, *, streamed: bool, id: str) -> Recording:
    if name in REFUSED:
        status, kind = REFUSED[name]
        return document({**failure(), "error": {"type": kind, "message": "No."}}, status)
    if not streamed:
        content = [{"type": "text", "text": "Hello there."}] if name == "buffered" else whole()["content"]
        reason = "end_turn" if name == "buffered" else "tool_use"
        return document({**whole(), "id": id, "content": content, "stop_reason": reason})
    documents = agent() if name in ("tool", "thinking") else text()
    documents[0]["message"]["id"] = id
    if name == "limited":
        documents[6]["delta"]["stop_reason"] = "max_tokens"
    return stream(documents)


def becomes(name: str, recording: Recording, **known: Any) -> SessionChange:
    def change(exchanges: dict[str, ObservedExchange]) -> None:
        before = exchanges[name]
        assert before.recording is not None
        told = before.recording.headers or () if recording.kind == before.recording.kind else recording.headers or ()
        own = ("request-id", before.recording.header("request-id") or "")
        headers = (*(each for each in told if each[0] != "request-id"), own)
        answer = structs.replace(recording, name=name, headers=headers)
        exchanges[name] = structs.replace(before, recording=answer, **known)

    return change


def refused_with(name: str, status: int, kind: str) -> SessionChange:
    return becomes(name, document({**failure(), "error": {"type": kind, "message": "No."}}, status))


def _same_id(exchanges: dict[str, ObservedExchange]) -> None:
    streamed = exchanges["streamed"].recording
    assert streamed is not None
    becomes("x-api-key", streamed)(exchanges)


def _same_request_id(exchanges: dict[str, ObservedExchange]) -> None:
    for name, each in exchanges.items():
        assert each.recording is not None
        headers = tuple((n, "req_1" if n == "request-id" else v) for n, v in each.recording.headers or ())
        exchanges[name] = structs.replace(each, recording=structs.replace(each.recording, headers=headers))


def _known(name: str, **known: Any) -> SessionChange:
    def change(exchanges: dict[str, ObservedExchange]) -> None:
        exchanges[name] = structs.replace(exchanges[name], **known)

    return change


def _tool_named(name: str) -> Recording:
    documents = agent()
    documents[9]["content_block"]["name"] = documents[13]["content_block"]["name"] = name
    return stream(documents)


def _buffered(**members: Any) -> Recording:
    return document(
        {**whole(), "content": [{"type": "text", "text": "Hello there."}], "stop_reason": "end_turn", **members}
    )


SESSION_DEFECTS: dict[str, SessionChange] = {
    "refused.unknown-model": refused_with("unknown-model", 400, "invalid_request_error"),
    "refused.wrong-key": refused_with("wrong-key", 403, "permission_error"),
    "refused.no-key": refused_with("no-key", 403, "permission_error"),
    "refused.not-json": refused_with("not-json", 413, "request_too_large"),
    "refused.wrong-type": refused_with("wrong-type", 404, "not_found_error"),
    "refused.no-messages": refused_with("no-messages", 404, "not_found_error"),
    "refused.no-max-tokens": becomes("no-max-tokens", stream(text())),
    "refused.before-stream": becomes("unknown-model-streamed", stream(failed())),
    "refused.keeps-secrets": _known("wrong-key", leaked_key=True),
    "asked.stream": becomes("streamed", _buffered()),
    "asked.whole": becomes("buffered", stream(text())),
    "asked.key-header": refused_with("x-api-key", 401, "authentication_error"),
    "asked.limit": becomes("limited", stream(text())),
    "asked.tool": becomes("tool", _tool_named("get_time")),
    "asked.ids-differ": _same_id,
    "buffered.text": becomes("buffered", _buffered(content=[{"type": "text", "text": "Bye."}])),
    "buffered.usage": becomes("buffered", _buffered(usage={**USAGE, "input_tokens": 10})),
    "connection.complete": _known("thinking", failure_kind=FailureKind.CUT, failure="the endpoint broke off"),
    "connection.request-ids": _same_request_id,
}
