"""Right answers, each with one defect, and the rule that must report it.

`DEFECTS` has at least one for every rule over a recorded answer. `also` are the rules that cannot hold
either: no answer breaks the one without the other.
"""

from typing import Any

from streamweir.conformance import RequestInfo
from streamweir.conformance.rules.framing import MAX_FRAME_BYTES
from support.answer_changes import Change, Defect, again, drop, in_bytes, put, replaced, spoiled
from support.valid_answers import (
    HEADERS,
    JSON_HEADERS,
    REQUEST,
    failed,
    failure,
    failure_document,
    legacy,
    logprobs,
    reasoning,
    recorded,
    refusal,
    stream,
    text,
    tool,
    whole,
    whole_document,
)

DELTA = "choices.0.delta"
FIRST = f"0.{DELTA}"
TEXT = f"1.{DELTA}"
CALL = f"1.{DELTA}.tool_calls.0"
PIECE = f"2.{DELTA}.tool_calls.0"
FINISH = "3.choices.0"
TOOL_FINISH = "4.choices.0"

FRAMING = [
    in_bytes("framing.event-stream", lambda _: b""),
    in_bytes("framing.event-stream", lambda _: b": keep-alive\n"),
    in_bytes("framing.utf-8", replaced(b"Hello", b"H\xff"), also="framing.json"),
    in_bytes("framing.no-bom", lambda body: b"\xef\xbb\xbf" + body),
    in_bytes("framing.line-ends", lambda body: body.replace(b"\n", b"\r\n")),
    in_bytes("framing.line-ends", lambda body: body.replace(b"\n", b"\r")),
    in_bytes("framing.blank-line", replaced(b"\n\n", b"\n")),
    in_bytes("framing.last-frame", lambda body: body[:-1]),
    in_bytes("framing.last-frame", lambda body: body[:-2], dialect="bitseek"),
    in_bytes("framing.spare-blank-lines", replaced(b"\n\n", b"\n\n\n")),
    in_bytes("framing.one-line", replaced(b',"choices"', b'\ndata: ,"choices"')),
    in_bytes("framing.data-prefix", replaced(b"data: ", b"data:", 9)),
    in_bytes("framing.data-prefix", replaced(b"data: [", b"data:  [")),
    in_bytes("framing.no-event-field", replaced(b"data: ", b"event: chunk\ndata: ")),
    in_bytes("framing.no-id-or-retry", replaced(b"data: ", b"id: 1\ndata: ")),
    in_bytes("framing.no-id-or-retry", lambda body: b"retry: 10\n" + body),
    in_bytes("framing.known-fields", replaced(b"data: ", b"error: oops\ndata: ")),
    in_bytes("framing.no-empty-data", lambda body: b"data:\n\n" + body),
    in_bytes("framing.no-empty-data", lambda body: b"data: \n\n" + body),
    in_bytes("framing.json", replaced(b'"Hello"', b'"Hello')),
    in_bytes("framing.json", replaced(b'"Hello"', b'"Hello","x":NaN')),
    in_bytes("framing.object", lambda body: b'data: ["ping"]\n\n' + body),
    in_bytes("framing.unique-members", replaced(b'"index":0', b'"index":0,"index":0')),
    in_bytes("framing.whole-characters", replaced(b"Hello", b"Hello \\ud83d")),
    in_bytes("framing.size", replaced(b"Hello", b"Hello" * (MAX_FRAME_BYTES // 5))),
    in_bytes("keepalive.one-newline", lambda body: b": ping\n\n" + body),
    in_bytes("keepalive.between-frames", replaced(b"}\n\n", b"}\n: ping\n\n")),
    spoiled("keepalive.says-something", text(), again(1, 1, put(DELTA, {}))),
]

IDENTITY = [
    spoiled("identity.id", text(), drop("1.id")),
    spoiled("identity.id", text(), put("1.id", "")),
    spoiled("identity.id-is-constant", text(), put("1.id", "chatcmpl-4")),
    spoiled("identity.id-form", text("aivene"), *[put(f"{at}.id", "ilbs_1") for at in range(5)], dialect="aivene"),
    spoiled("identity.object", text(), put("1.object", "chat.completion")),
    spoiled("identity.object", text("bitseek"), put("1.object", "chat.completion.chunk"), dialect="bitseek"),
    spoiled("identity.created", text(), put("1.created", 1716825600.5)),
    spoiled("identity.created", text(), put("1.created", "now")),
    spoiled("identity.created", text("bitseek"), drop("1.created"), dialect="bitseek"),
    spoiled("identity.created-in-seconds", text(), *[put(f"{at}.created", 1716825600000) for at in range(5)]),
    spoiled("identity.created-is-constant", text(), put("1.created", 1716825601)),
    spoiled("identity.created-is-constant", text(), put("0.created", 0), also=""),
    spoiled("identity.created-runs-forward", text("bitseek"), put("2.created", 1716825600), dialect="bitseek"),
    spoiled("identity.model", text(), drop("1.model")),
    spoiled("identity.model-is-named", text(), put("1.model", "")),
    spoiled("identity.model-is-constant", text(), put("1.model", "other")),
    spoiled("identity.model-asked", text("aivene"), *[put(f"{at}.model", "x") for at in range(5)], dialect="aivene"),
    spoiled("identity.labels", text(), put("1.system_fingerprint", 4)),
    spoiled(
        "identity.fingerprint-is-constant",
        text(),
        put("0.system_fingerprint", "fp_1"),
        put("1.system_fingerprint", "fp_2"),
    ),
    spoiled("identity.no-labels", text("opentoken"), put("1.service_tier", "default"), dialect="opentoken"),
]

ORDER = [
    in_bytes("order.answer", lambda _: b"data: [DONE]\n\n"),
    in_bytes("order.answer", lambda body: body[body.rindex(b'data: {"id"') :]),
    spoiled("order.role-first", text(), drop("0")),
    spoiled("order.role-once", text(), put(f"{TEXT}.role", "assistant")),
    spoiled("order.role-word", text(), put(f"{FIRST}.role", "model")),
    spoiled("order.no-role", text("bitseek"), put(f"{FIRST}.role", "assistant"), dialect="bitseek"),
    spoiled("order.role-alone", text(), put(f"{FIRST}.content", "Oh. ")),
    spoiled("order.nothing-after-finish", text(), again(1, 4)),
    spoiled("finish.present", text(), drop("3")),
    spoiled("finish.once", text(), again(3, 4)),
    spoiled("finish.word", text(), put(f"{FINISH}.finish_reason", "end_turn")),
    spoiled("finish.word", text("bitseek"), put("2.choices.0.finish_reason", "length"), dialect="bitseek"),
    spoiled("finish.delta", text(), put(f"{FINISH}.delta", {"content": "!"})),
    spoiled("finish.calls-were-sent", text(), put(f"{FINISH}.finish_reason", "tool_calls")),
    spoiled("finish.says-calls", tool(), put(f"{TOOL_FINISH}.finish_reason", "stop")),
    in_bytes("end.done", replaced(b"data: [DONE]\n\n", b"")),
    in_bytes("end.done-spelling", replaced(b"[DONE]", b'"[DONE]"')),
    in_bytes("end.done-spelling", replaced(b"[DONE]", b"[done]")),
    in_bytes("end.done-once", lambda body: body + b"data: [DONE]\n\n"),
    in_bytes(
        "end.done-last",
        lambda body: body + body.split(b"\n\n")[1] + b"\n\n",
        also="usage.last order.nothing-after-finish",
    ),
    in_bytes("end.no-done", lambda body: body + b"data: [DONE]\n\n", dialect="bitseek"),
    spoiled(
        "end.finish-last",
        text("bitseek"),
        again(0, 3, put("created", 1716825602), put(DELTA, {"content": ""})),
        dialect="bitseek",
    ),
]

DELTAS = [
    spoiled("delta.choices", text(), drop("1.choices")),
    spoiled("delta.choices", text(), put("1.choices", ["Hello"])),
    spoiled("delta.empty-choices", text(), put("1.choices", [])),
    spoiled(
        "delta.empty-choices",
        text("aivene"),
        dialect="aivene",
        also="usage.uninvited",
        request=RequestInfo(stream=True, include_usage=False),
    ),
    spoiled("delta.index", text(), drop("1.choices.0.index")),
    spoiled("delta.index", text(), put("1.choices.0.index", "0")),
    spoiled("delta.index-range", text(), *[put(f"{at}.choices.0.index", 1) for at in range(4)]),
    spoiled("delta.object", text(), put("1.choices.0.delta", None)),
    spoiled("delta.object", text(), again(1, 2, drop("choices.0.delta"))),
    spoiled("delta.finish-reason-type", text(), put("1.choices.0.finish_reason", False)),
    spoiled("delta.finish-reason-type", text(), put("1.choices.0.finish_reason", "")),
    spoiled("delta.finish-reason-stands", text(), drop("1.choices.0.finish_reason")),
    spoiled("delta.content", text(), put(f"{TEXT}.content", [{"type": "text", "text": "Hello"}])),
    spoiled("delta.no-null", text(), put(f"{TEXT}.tool_calls", None)),
    spoiled("delta.no-null", text("aivene"), put(f"{FIRST}.content", None), dialect="aivene"),
    spoiled(
        "delta.only-new",
        text(),
        put(f"{TEXT}.content", "Hello there"),
        put(f"2.{DELTA}.content", "Hello there, you"),
        again(2, 3, put(f"{DELTA}.content", "Hello there, you two")),
        again(3, 4, put(f"{DELTA}.content", "Hello there, you two there")),
    ),
    spoiled("delta.no-message", text(), put("1.choices.0.message", {"role": "assistant", "content": "Hello"})),
    spoiled("reasoning.text", reasoning(), put(f"{TEXT}.reasoning_content", ["Hm."]), dialect="aivene"),
    spoiled("reasoning.member", reasoning(), put(TEXT, {"reasoning": "Hm."}), dialect="aivene"),
    spoiled("reasoning.not-in-content", text(), put(f"{TEXT}.content", "<think>")),
    spoiled("reasoning.none", text("bitseek"), put(f"{TEXT}.reasoning_content", "Hm."), dialect="bitseek"),
    spoiled("reasoning.details", reasoning("openai"), put(f"{TEXT}.reasoning_details", "Hm.")),
    spoiled("reasoning.no-details", reasoning(), put(f"{TEXT}.reasoning_details", [{}]), dialect="aivene"),
    spoiled("refusal.text", refusal(), put(f"{TEXT}.refusal", True)),
    spoiled("refusal.in-content", text("opentoken"), put(TEXT, {"refusal": "No."}), dialect="opentoken"),
    spoiled("logprobs.shape", logprobs(), put("1.choices.0.logprobs", [])),
    spoiled("logprobs.shape", logprobs(), put("1.choices.0.logprobs.content", {})),
    spoiled("logprobs.shape", logprobs(), put("1.choices.0.logprobs.content.0", "Hello")),
    spoiled("logprobs.shape", logprobs(), put("1.choices.0.logprobs.content.0.logprob", "-1")),
    spoiled("logprobs.none", text("aivene"), put("1.choices.0.logprobs", None), dialect="aivene"),
]

TOOLS = [
    spoiled(
        "tool.list",
        tool(),
        put(f"1.{DELTA}.tool_calls", {"index": 0}),
        also="tool.id tool.type tool.name tool.opener-arguments",
    ),
    spoiled("tool.list", tool(), drop(f"{PIECE}.function"), also="tool.arguments-json"),
    spoiled("tool.index", tool(), drop(f"{PIECE}.index"), also="tool.arguments-json"),
    spoiled("tool.index-order", tool(), *[put(f"{at}.{DELTA}.tool_calls.0.index", 1) for at in (1, 2, 3)]),
    spoiled("tool.id", tool(), drop(f"{CALL}.id")),
    spoiled("tool.id-is-constant", tool(), put(f"{PIECE}.id", "call_2"), also="tool.opener-only"),
    spoiled(
        "tool.id-is-unique",
        tool(),
        again(1, 4, put(f"{DELTA}.tool_calls.0.index", 1)),
        again(2, 5, put(f"{DELTA}.tool_calls.0", {"index": 1, "function": {"arguments": "{}"}})),
    ),
    spoiled("tool.type", tool(), drop(f"{CALL}.type")),
    spoiled("tool.name", tool(), put(f"{CALL}.function.name", "")),
    spoiled("tool.name-once", tool(), put(f"{PIECE}.function.name", "get_weather")),
    spoiled("tool.opener-only", tool(), put(f"{PIECE}.type", "function")),
    spoiled("tool.opener-only", tool(), put(f"{PIECE}.function.name", "")),
    spoiled("tool.arguments", tool(), put(f"{PIECE}.function.arguments", {"city": "Tokyo"})),
    spoiled("tool.opener-arguments", tool(), put(f"{CALL}.function.arguments", " ")),
    spoiled("tool.opener-arguments", tool(), drop(f"{CALL}.function.arguments")),
    spoiled("tool.arguments-json", tool(), drop("2")),
    spoiled(
        "tool.whole",
        tool("bitseek"),
        again(0, 1, put(f"{DELTA}.tool_calls.0", {"index": 0, "function": {"arguments": ""}})),
        dialect="bitseek",
    ),
    spoiled("tool.no-function-call", text("aivene"), put(TEXT, {"function_call": {"name": "f"}}), dialect="aivene"),
    spoiled("tool.function-call", legacy(), drop(f"{TEXT}.function_call.name")),
    spoiled("tool.function-call", legacy(), put(f"{TEXT}.function_call.arguments", {})),
]

USAGE = [
    spoiled("usage.present", text(), drop("4")),
    spoiled("usage.present", text("opentoken"), drop("4"), dialect="opentoken", request=RequestInfo()),
    spoiled("usage.present", text("bitseek"), drop("2.usage"), dialect="bitseek"),
    spoiled(
        "usage.uninvited",
        text("bitseek"),
        dialect="bitseek",
        request=RequestInfo(stream=True, include_usage=False),
    ),
    spoiled("usage.once", text(), again(4, 4)),
    spoiled(
        "usage.own-chunk",
        text(),
        put("3.usage", {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}),
        drop("4"),
    ),
    spoiled(
        "usage.on-finish",
        text("bitseek"),
        put("1.usage", {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}),
        drop("2.usage"),
        dialect="bitseek",
    ),
    spoiled("usage.last", text(), again(4, 3), drop("5")),
    spoiled("usage.counts", text(), drop("4.usage.total_tokens")),
    spoiled("usage.counts", text(), put("4.usage.prompt_tokens", -9)),
    spoiled("usage.counts", text(), put("4.usage", "21")),
    spoiled("usage.sum", text(), put("4.usage.total_tokens", 22)),
    spoiled("usage.some", text(), put("4.usage.completion_tokens", 0), put("4.usage.total_tokens", 9)),
    spoiled("usage.details", text(), put("4.usage.prompt_tokens_details", 3)),
    spoiled("usage.details", text(), put("4.usage.prompt_tokens_details", {"cached_tokens": "3"})),
    spoiled("usage.details-are-parts", text(), put("4.usage.prompt_tokens_details", {"cached_tokens": 10})),
    spoiled(
        "usage.details-known",
        text("aivene"),
        put("4.usage.prompt_tokens_details", {"audio_tokens": 1}),
        dialect="aivene",
    ),
    spoiled("usage.details-known", text("opentoken"), put("4.usage.prompt_tokens_details", {}), dialect="opentoken"),
    spoiled("usage.details-known", text("bitseek"), put("2.usage.cost", 1), dialect="bitseek"),
    spoiled("usage.null-before", text(), drop("1.usage")),
    spoiled("usage.no-null", text("aivene"), put("1.usage", None), dialect="aivene"),
    spoiled("usage.no-null", text(), drop("4"), request=RequestInfo(stream=True, include_usage=False)),
]

ERRORS = [
    spoiled("error.object", failed(), put("2.error", "upstream timeout")),
    spoiled("error.members", failed(), drop("2.error.param")),
    spoiled("error.members", failed("aivene"), drop("2.error.type"), dialect="aivene"),
    spoiled("error.message", failed(), put("2.error.message", "")),
    spoiled("error.message", failed(), put("2.error.type", None)),
    spoiled("error.code", failed(), put("2.error.code", 504)),
    spoiled("error.type-word", failed("aivene"), put("2.error.type", "upstream_error"), dialect="aivene"),
    spoiled("error.alone", failed(), put("2.choices", [])),
    spoiled("error.in-chunk", failed("bitseek"), drop("2.model"), dialect="bitseek"),
    spoiled("error.in-chunk", failed("bitseek"), put("2.choices", [{"index": 0}]), dialect="bitseek"),
    spoiled("error.last", failed(), again(1, 3)),
    in_bytes("error.no-event", replaced(b"data: ", b"event: error\ndata: ")),
]


def with_headers(rule: str, *headers: tuple[str, str], without: str = "", status: int = 200) -> Defect:
    kept = tuple((name, value) for name, value in HEADERS if name.lower() != without)
    return Defect(rule, "openai", stream(text(), headers=(*kept, *headers), status=status))


HEADER = [
    with_headers("header.stream-type", ("content-type", "application/json"), without="content-type"),
    with_headers("header.stream-type", without="content-type"),
    Defect("header.json-type", "openai", whole(whole_document(), headers=(("x-request-id", "1"),))),
    Defect("header.json-type", "openai", failure(failure_document(), headers=(("x-request-id", "1"),))),
    with_headers("header.charset", ("content-type", "text/event-stream; charset=latin-1"), without="content-type"),
    with_headers("header.stream-status", status=201),
    with_headers("header.no-cache", without="cache-control"),
    with_headers("header.no-content-length", ("content-length", "4")),
    with_headers("header.no-encoding", ("content-encoding", "gzip")),
    with_headers("header.request-id", without="x-request-id"),
]


def in_whole(rule: str, *changes: Change, dialect: str = "openai", **known: Any) -> Defect:
    document = whole_document(dialect)
    for change in changes:
        change(document)
    return Defect(rule, dialect, whole(document, **known))


def in_failure(rule: str, *changes: Change, dialect: str = "openai", **known: Any) -> Defect:
    document = failure_document(dialect)
    for change in changes:
        change(document)
    return Defect(rule, dialect, failure(document, **known))


MESSAGE = "choices.0.message"
WHOLE = [
    in_whole("whole.never", dialect="bitseek"),
    Defect("whole.json", "openai", whole(["Hello"])),
    Defect("whole.json", "openai", recorded(b"{", request=RequestInfo(stream=False), headers=JSON_HEADERS)),
    in_whole("whole.not-asked", request=REQUEST),
    in_whole("whole.object", put("object", "chat.completion.chunk")),
    in_whole("whole.identity", drop("id")),
    in_whole("whole.identity", put("created", "now")),
    in_whole("whole.id-form", put("id", "ilbs_1"), dialect="aivene"),
    in_whole("whole.choices", put("choices", [])),
    in_whole("whole.choices", drop("choices.0.index")),
    in_whole("whole.message", put(f"{MESSAGE}.role", "model")),
    in_whole("whole.message", drop(f"{MESSAGE}.content")),
    in_whole("whole.says-something", put(f"{MESSAGE}.content", None), drop(f"{MESSAGE}.tool_calls")),
    in_whole("whole.finish", put("choices.0.finish_reason", None)),
    in_whole("whole.tool-calls", put(f"{MESSAGE}.tool_calls", {"name": "f"})),
    in_whole("whole.tool-calls", put(f"{MESSAGE}.tool_calls.0", "f")),
    in_whole("whole.tool-calls", drop(f"{MESSAGE}.tool_calls.0.id")),
    in_whole("whole.tool-calls", drop(f"{MESSAGE}.tool_calls.0.function")),
    in_whole("whole.tool-calls", put(f"{MESSAGE}.tool_calls.0.function.arguments", {})),
    in_whole("whole.tool-calls", put(f"{MESSAGE}.tool_calls.0.function.arguments", "{"), dialect="aivene"),
    in_whole("whole.usage", drop("usage")),
    in_whole("whole.usage", put("usage.total_tokens", 1)),
]

FAILURE = [
    Defect("failure.json", "openai", failure("Unauthorized")),
    Defect("failure.json", "openai", failure({"error": "Unauthorized"})),
    Defect("failure.json", "openai", recorded(b"<html>Unauthorized</html>", status=401, headers=JSON_HEADERS)),
    in_failure("failure.members", drop("error.param")),
    in_failure("failure.message", put("error.message", "")),
    in_failure("failure.code", put("error.code", 401)),
    in_failure("failure.status", status=200, dialect="aivene"),
]

DEFECTS = [*FRAMING, *IDENTITY, *ORDER, *DELTAS, *TOOLS, *USAGE, *ERRORS, *HEADER, *WHOLE, *FAILURE]
