"""Right answers of the Responses API, each with one defect, and the rule that must report it.

`DEFECTS` has at least one for every rule over a recorded answer, `SESSION_DEFECTS` for every rule over an endpoint.
`also` are the rules that cannot hold either: no answer breaks the one without the other.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from streamweir.conformance import Recording
from streamweir.conformance.probe_session import FailureKind, ObservedExchange
from streamweir.conformance.responses.plan import NOTE, RESPONSES_PLAN
from streamweir.core.errors import CallerError
from support.answer_changes import Change, again, drop, put
from support.responses_answers import (
    CALL,
    CUSTOM,
    HEADERS,
    USAGE,
    Documents,
    agent,
    begun,
    call,
    cut_short,
    document,
    end,
    failed,
    failure,
    recorded,
    stream,
    text,
    whole,
    written,
)


@dataclass(frozen=True)
class Defect:
    rule: str
    recording: Recording
    also: frozenset[str] = frozenset()


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


def in_both(path: str, value: Any, *places: int) -> list[Change]:
    """The same member of several documents."""
    return [put(f"{place}.{path}", value) for place in places]


_KEEPALIVE = {"type": "keepalive"}
_ERROR = {"type": "error", "error": {"type": "server_error", "code": "server_error", "message": "No.", "param": None}}
DEFECTS = [
    in_bytes("event.typed", lambda b: b + b'data: {"a": 0}\n\n', also="event.nothing-after-the-end"),
    in_bytes("event.name", lambda b: b.replace(b"event: keepalive\n", b"")),
    in_bytes("event.name", lambda b: b.replace(b"event: response.output_text.delta", b"event: delta", 1)),
    spoiled("event.known", text(), added(6, {"type": "response.progress"})),
    spoiled("event.created-first", text(), moved(6, 0)),
    spoiled("event.created-first", text(), drop("0")),
    spoiled("event.created-once", text(), again(0, 1)),
    spoiled("event.end", text(), drop("10")),
    spoiled("event.nothing-after-the-end", text(), added(11, _KEEPALIVE)),
    spoiled("event.nothing-after-the-end", text(), added(11, end())),
    spoiled("event.nothing-after-the-end", failed(), added(6, _KEEPALIVE)),
    in_bytes("event.no-done", lambda b: b + b"data: [DONE]\n\n"),
    spoiled("sequence.present", text(), put("3.sequence_number", None)),
    spoiled("sequence.no-gaps", text(), put("6.sequence_number", 7)),
    spoiled("sequence.no-gaps", text(), *[put(f"{at}.sequence_number", at + 1) for at in range(11)]),
    spoiled("response.members", text(), drop("10.response.tools")),
    spoiled("response.members", text(), put("0.response.object", "chat.completion")),
    spoiled("response.id", text(), *in_both("response.id", "chatcmpl-1", 0, 1, 10)),
    spoiled("response.same-id", text(), put("10.response.id", "resp_2")),
    spoiled("response.same-id", text(), put("1.response.created_at", 2)),
    spoiled("response.status", text(), put("10.response.status", "in_progress")),
    spoiled("response.empty", text(), put("1.response.usage", {"input_tokens": 1})),
    spoiled("response.incomplete", cut_short(), put("9.response.incomplete_details", None)),
    spoiled("response.incomplete", cut_short(), put("9.response.incomplete_details.reason", "length")),
    spoiled("response.incomplete", text(), put("10.response.incomplete_details", {"reason": "content_filter"})),
    spoiled("response.error", failed(), put("6.response.error", None)),
    spoiled("response.error", text(), put("10.response.error", {"code": "server_error", "message": "No."})),
    spoiled("item.index", agent(), drop("10.output_index"), also="delta.sum"),
    spoiled("item.no-gaps", text(), *in_both("output_index", 1, 2, 3, 4, 5, 7, 8, 9)),
    spoiled("item.no-gaps", agent(), again(8, 9)),
    spoiled("item.members", text(), drop("2.item.content")),
    spoiled("item.members", agent(), put("20.item.call_id", 7)),
    spoiled("item.members", text(), put("9.item.type", None)),
    spoiled("item.id-form", text(), *in_both("item_id", "1", 3, 4, 5, 7, 8), *in_both("item.id", "1", 2, 9)),
    spoiled(
        "item.own-id",
        agent(),
        *in_both("item_id", "ctc_1", 16, 17, 18),
        *in_both("item.id", "ctc_1", 15, 19),
        also="item.id-form",
    ),
    spoiled("item.same-id", text(), put("5.item_id", "msg_7")),
    spoiled("item.same-id", text(), put("9.item.id", "msg_7")),
    spoiled("item.same-id", agent(), drop("16.item_id")),
    spoiled("item.same-kind", agent(), put("19.item.name", "get_time")),
    spoiled("item.empty", agent(), put("15.item.arguments", "{}")),
    spoiled("item.status", text(), put("2.item.status", "completed")),
    spoiled("item.status", text(), put("9.item.status", "in_progress")),
    spoiled("item.open", agent(), moved(19, 16), also="call.done call.spelled"),
    spoiled("item.open", agent(), again(16, 19)),
    spoiled("item.done", text(), drop("9")),
    spoiled("part.index", text(), drop("5.content_index"), also="delta.sum"),
    spoiled("part.no-gaps", text(), *in_both("content_index", 1, 3, 4, 5, 7, 8), also="delta.repeated"),
    spoiled("part.no-gaps", agent(), again(9, 10)),
    spoiled("part.members", text(), drop("3.part.text")),
    spoiled("part.members", agent(), put("3.part.text", "Hm.")),
    spoiled("part.members", text(), drop("8.part.type")),
    spoiled("part.open", text(), drop("3")),
    spoiled("part.open", agent(), moved(13, 11), also="part.done"),
    spoiled("part.done", text(), drop("8")),
    spoiled("part.done", text(), drop("7")),
    spoiled("delta.member", text(), put("5.delta", None), also="delta.sum"),
    spoiled("delta.member", agent(), drop("18.arguments")),
    spoiled("delta.kind", agent(), put("16.type", "response.custom_tool_call_input.delta")),
    spoiled("delta.kind", text(), put("4.type", "response.refusal.delta")),
    spoiled("delta.sum", text(), put("4.delta", "Hullo")),
    spoiled("delta.repeated", text(), put("8.part.text", "Hello.")),
    spoiled("delta.repeated", text(), put("9.item.content", [])),
    spoiled("call.id", agent(), *in_both("item.call_id", "call_1", 20, 23)),
    spoiled("call.id", agent(), *in_both("item.name", "", 15, 19)),
    spoiled("call.sum", agent(), put("23.item.input", "*** End")),
    spoiled("call.sum", agent(), put("16.delta", "{")),
    spoiled("call.done", agent(), drop("18")),
    spoiled("call.spelled", agent(), drop("21")),
    spoiled(
        "call.arguments",
        agent(),
        put("17.delta", '"Paris"'),
        put("18.arguments", '{"city":"Paris"'),
        put("19.item.arguments", '{"city":"Paris"'),
    ),
    spoiled("output.some", [*begun(), end()]),
    spoiled("output.same", text(), put("10.response.output", [])),
    spoiled(
        "output.same",
        agent(),
        lambda documents: put("24.response.output", whole()["output"])(documents),
        put("7.item.id", "rs_0"),
        put("7.item.summary", []),
        also="delta.repeated",
    ),
    spoiled("output.complete", text(), put("9.item.status", "incomplete")),
    spoiled("count.usage", text(), put("10.response.usage", None)),
    spoiled("count.usage", text(), drop("10.response.usage.total_tokens")),
    spoiled("count.details", text(), drop("10.response.usage.output_tokens_details")),
    spoiled("count.sum", text(), put("10.response.usage.total_tokens", 22)),
    spoiled("count.parts", text(), put("10.response.usage.input_tokens_details.cached_tokens", 10)),
    spoiled("error.object", failed(), lambda documents: documents[5].update(documents[5].pop("error"), type="error")),
    spoiled("error.both", failed(), drop("6")),
    spoiled("error.both", failed(), drop("5")),
    spoiled("error.code", failed(), put("6.response.error.code", "upstream_error")),
    in_whole("whole.members", drop("parallel_tool_calls")),
    in_whole("whole.members", put("object", "chat.completion")),
    in_whole("whole.id", put("id", "chatcmpl-1")),
    in_whole("whole.status", put("status", "done")),
    in_whole("whole.status", put("status", "incomplete")),
    in_whole("whole.some", put("output", [])),
    in_whole("whole.items", drop("output.0.summary")),
    in_whole("whole.items", put("output.1", 7)),
    in_whole("whole.calls", put("output.2.arguments", "{")),
    in_whole("whole.calls", put("output.3.call_id", "call_1")),
    in_whole("whole.usage", put("usage", None)),
    in_whole("whole.usage", put("usage.total_tokens", 3)),
    in_failure("failure.object", drop("error.message")),
    in_failure("failure.code", drop("error.param")),
    in_failure("failure.status", status=200),
    Defect("header.request-id", recorded(written(text()), headers=HEADERS[:2])),
    in_bytes("framing.line-ends", lambda b: b.replace(b"\n", b"\r\n")),
    in_bytes(
        "framing.json", lambda b: b.replace(b'"delta": "Hello"', b'"delta": "Hello'), also="delta.sum sequence.no-gaps"
    ),
]

REFUSED = {
    "unknown-model": ("model_not_found", "model"),
    "unknown-model-streamed": ("model_not_found", "model"),
    "wrong-key": ("invalid_api_key", None),
    "no-key": ("missing_api_key", None),
    "not-json": ("invalid_json", None),
    "wrong-type": ("invalid_type", "input"),
    "no-input": ("missing_required_parameter", "input"),
    "previous": ("previous_response_not_found", "previous_response_id"),
    "unknown-response": ("not_found", None),
    "websocket": ("not_found", None),
}
SessionChange = Callable[[dict[str, ObservedExchange]], None]


def right_exchanges() -> dict[str, ObservedExchange]:
    """What a right endpoint answers to the whole plan."""
    made = {}
    for number, request in enumerate(RESPONSES_PLAN.requests(RESPONSES_PLAN.options("m"))):
        recording = _right(request.name, streamed=request.is_streamed, id=f"resp_{number}")
        headers = tuple(
            (name, f"req_{number}" if name == "x-request-id" else value) for name, value in recording.headers or ()
        )
        recording = structs.replace(recording, headers=headers, name=request.name)
        made[request.name] = ObservedExchange(name=request.name, probe_request=request, recording=recording)
    return made


def refusal(code: str, param: str | None, status: int | None = None) -> Recording:
    spec = CallerError(code, "").spec
    value = failure(code, param)
    value["error"]["type"] = spec.type
    return document(value, status or spec.status)


def _right(name: str, *, streamed: bool, id: str) -> Recording:
    if name in REFUSED:
        return refusal(*REFUSED[name])
    if not streamed:
        return document(whole(id=id, output=whole()["output"] if name == "tool-buffered" else whole()["output"][1:2]))
    documents = {"limited": cut_short, "tool": called, "custom-tool": called_custom, "reasoning": agent}.get(
        name, text
    )()
    for each in documents:
        if "response" in each:
            each["response"]["id"] = id
    if name == "long":
        documents[-1]["response"]["usage"] |= {"output_tokens": 60, "total_tokens": 69}
    return stream(documents)


def called() -> Documents:
    return [*begun(), *call(0, CALL, "response.function_call_arguments", "arguments", '{"city":"Paris"}'), end()]


def called_custom() -> Documents:
    return [*begun(), *call(0, {**CUSTOM, "name": NOTE}, "response.custom_tool_call_input", "input", "Hello."), end()]


def becomes(name: str, recording: Recording, **known: Any) -> SessionChange:
    def change(exchanges: dict[str, ObservedExchange]) -> None:
        before = exchanges[name]
        assert before.recording is not None
        own = ("x-request-id", before.recording.header("x-request-id") or "")
        headers = (*(each for each in recording.headers or () if each[0] != "x-request-id"), own)
        exchanges[name] = structs.replace(
            before, recording=structs.replace(recording, name=name, headers=headers), **known
        )

    return change


def refused_with(name: str, code: str, param: str | None = None) -> SessionChange:
    return becomes(name, refusal(code, param))


def _same_request_id(exchanges: dict[str, ObservedExchange]) -> None:
    for name, each in exchanges.items():
        assert each.recording is not None
        headers = tuple((n, "req_1" if n == "x-request-id" else v) for n, v in each.recording.headers or ())
        exchanges[name] = structs.replace(each, recording=structs.replace(each.recording, headers=headers))


def _known(name: str, **known: Any) -> SessionChange:
    def change(exchanges: dict[str, ObservedExchange]) -> None:
        exchanges[name] = structs.replace(exchanges[name], **known)

    return change


def _same_id(exchanges: dict[str, ObservedExchange]) -> None:
    streamed = exchanges["streamed"].recording
    assert streamed is not None
    becomes("string", streamed)(exchanges)


def _buffered(**members: Any) -> Recording:
    return document(whole(**{"output": whole()["output"][1:2], **members}))


SESSION_DEFECTS: dict[str, SessionChange] = {
    "refused.unknown-model": refused_with("unknown-model", "invalid_value", "model"),
    "refused.wrong-key": refused_with("wrong-key", "model_not_found"),
    "refused.no-key": refused_with("no-key", "model_not_found"),
    "refused.not-json": refused_with("not-json", "model_not_found"),
    "refused.wrong-type": refused_with("wrong-type", "model_not_found", "input"),
    "refused.no-input": refused_with("no-input", "model_not_found", "input"),
    "refused.previous": becomes("previous", _buffered()),
    "refused.unknown-response": becomes("unknown-response", _buffered()),
    "refused.param": refused_with("no-input", "missing_required_parameter"),
    "refused.before-stream": becomes("unknown-model-streamed", stream(failed())),
    "refused.websocket": _known("websocket", recording=None, failure_kind=FailureKind.TIMED_OUT, failure="late"),
    "refused.keeps-secrets": _known("wrong-key", leaked_key=True),
    "asked.stream": becomes("streamed", _buffered(id="resp_0")),
    "asked.whole": becomes("buffered", stream(text())),
    "asked.string": refused_with("string", "invalid_type", "input"),
    "asked.limit": becomes("limited", stream(text())),
    "asked.tool": becomes("tool", stream(called_custom())),
    "asked.custom-tool": becomes("custom-tool", stream(called())),
    "asked.ids-differ": _same_id,
    "buffered.text": becomes("buffered", _buffered(output=whole()["output"][:1])),
    "buffered.usage": becomes("buffered", _buffered(usage={**USAGE, "input_tokens": 10, "total_tokens": 22})),
    "connection.complete": _known("reasoning", failure_kind=FailureKind.CUT, failure="the endpoint broke off"),
    "connection.request-ids": _same_request_id,
}
