"""One defect for each rule over an endpoint: what is changed in its right answers, and what else that must break.

A defect is a function that changes the `ScriptedResponse` to a request. Some keep state between requests, so
a new one is made for each endpoint.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from support.broken_endpoint import KEY, Defect, ReceivedRequest, ScriptedResponse, answer, refusal
from support.dialect_rules import BITSEEK, OPENAI, OPENTOKEN, Rules

PAUSE_S = 0.005
"""Before each of the sixty frames of a long answer."""


@dataclass(frozen=True)
class Case:
    rule: str
    make: Callable[[], Defect]
    rules: Rules = OPENAI
    also: frozenset[str] = frozenset()
    """What must break with it."""
    pause_s: float = 0.0


def _with_status(case: str, status: int) -> Callable[[], Defect]:
    """What would be refused as `case` has another status."""

    def change(_: ReceivedRequest, response: ScriptedResponse) -> None:
        if response.document is not None and f": {case}." in str(response.document.get("error")):
            response.status = status

    return lambda: change


def _for(holds: Callable[[ReceivedRequest, ScriptedResponse], bool], change: Defect) -> Callable[[], Defect]:
    def defect(request: ReceivedRequest, response: ScriptedResponse) -> None:
        if holds(request, response):
            change(request, response)

    return lambda: defect


def _where(holds: Callable[[dict[str, Any]], bool], change: Defect) -> Callable[[], Defect]:
    """By the request's body alone."""
    return _for(lambda request, _: holds(request.body), change)


def _answer_without(*members: str, rules: Rules) -> Defect:
    """As if these members had not been sent."""

    def change(request: ReceivedRequest, response: ScriptedResponse) -> None:
        body = {name: value for name, value in request.body.items() if name not in members}
        _become(response, answer(request.with_body(body), rules))

    return change


def _become(response: ScriptedResponse, other: ScriptedResponse) -> None:
    response.status, response.document, response.frames = other.status, other.document, other.frames
    response.fields = {**other.fields, "x-request-id": response.fields["x-request-id"]}


def _set_status(status: int) -> Defect:
    def change(_: ReceivedRequest, response: ScriptedResponse) -> None:
        response.status = status

    return change


def _is_ok(_: ReceivedRequest, response: ScriptedResponse) -> bool:
    return response.status == 200


def _is_refused(_: ReceivedRequest, response: ScriptedResponse) -> bool:
    return response.status >= 400


def _is_stream(_: ReceivedRequest, response: ScriptedResponse) -> bool:
    return response.is_stream


def _is_whole(request: ReceivedRequest, response: ScriptedResponse) -> bool:
    return response.status == 200 and not request.body.get("stream")


def _is_hello(request: ReceivedRequest) -> bool:
    return (
        "hello" in str(request.body.get("messages"))
        and request.body.get("max_tokens") == 64
        and "n" not in request.body
    )


def _is_long(request: ReceivedRequest) -> bool:
    return "sixty" in str(request.body.get("messages"))


def _is_unknown_streamed(request: ReceivedRequest, response: ScriptedResponse) -> bool:
    return (
        _is_refused(request, response)
        and "no-such" in str(request.body.get("model"))
        and bool(request.body.get("stream"))
    )


def _error(response: ScriptedResponse) -> dict[str, object]:
    assert response.document is not None
    error: dict[str, object] = response.document["error"]
    return error


def _reply_page(_: ReceivedRequest, response: ScriptedResponse) -> None:
    response.status, response.pieces = 200, [b"ok\n"]
    response.fields = {"content-type": "text/plain", "x-request-id": response.fields["x-request-id"]}


def _stream_the_error(_: ReceivedRequest, response: ScriptedResponse) -> None:
    response.status, response.frames = 200, [response.document, b"data: [DONE]\n\n"]
    response.fields["content-type"] = "text/event-stream"
    response.fields["cache-control"] = "no-cache"


def _finish_with(word: str) -> Defect:
    def change(_: ReceivedRequest, response: ScriptedResponse) -> None:
        for frame in response.frames:
            for choice in frame["choices"] if isinstance(frame, dict) else ():
                choice["finish_reason"] = choice["finish_reason"] and word

    return change


def _silence_a_choice(_: ReceivedRequest, response: ScriptedResponse) -> None:
    response.frames = [frame for frame in response.frames if not (isinstance(frame, dict) and _says_second(frame))]


def _says_second(frame: dict[str, Any]) -> bool:
    return any(choice["index"] == 1 and choice["delta"].get("content") for choice in frame["choices"])


def _replace(old: bytes, new: bytes) -> Defect:
    def change(_: ReceivedRequest, response: ScriptedResponse) -> None:
        response.pieces = [piece.replace(old, new) for piece in response.written()]

    return change


def _same_id(_: ReceivedRequest, response: ScriptedResponse) -> None:
    for document in [*response.frames, response.document]:
        if isinstance(document, dict) and "id" in document:
            document["id"] = "chatcmpl-" + "z" * 29


def _more_tokens(response: ScriptedResponse, name: str) -> None:
    for document in [*response.frames, response.document]:
        if isinstance(document, dict) and document.get("usage"):
            document["usage"][name] += 1
            document["usage"]["total_tokens"] += 1


def _count_otherwise_again() -> Defect:
    """The same request, sent again, counts one token more."""
    seen: set[bytes] = set()

    def defect(request: ReceivedRequest, response: ScriptedResponse) -> None:
        if request.raw in seen:
            _more_tokens(response, "prompt_tokens")
        seen.add(request.raw)

    return defect


def _change_message(member: str, value: str) -> Defect:
    def change(_: ReceivedRequest, response: ScriptedResponse) -> None:
        assert response.document is not None
        (choice,) = response.document["choices"]
        (choice if member == "finish_reason" else choice["message"])[member] = value

    return change


def _in_one_lump(_: ReceivedRequest, response: ScriptedResponse) -> None:
    response.pieces, response.wait_s = [b"".join(response.written())], 0.5


def _cut(_: ReceivedRequest, response: ScriptedResponse) -> None:
    response.is_cut = True


def _close_silently(_: ReceivedRequest, response: ScriptedResponse) -> None:
    response.closes = True


def _set(name: str, value: str) -> Defect:
    def change(_: ReceivedRequest, response: ScriptedResponse) -> None:
        response.fields[name] = value

    return change


def _set_error(name: str, value: object) -> Defect:
    def change(_: ReceivedRequest, response: ScriptedResponse) -> None:
        _error(response)[name] = value

    return change


def _repeat_key(request: ReceivedRequest, response: ScriptedResponse) -> None:
    _error(response)["message"] = f"This key is wrong: {request.headers['authorization']}"


def _refuse_after_a_leave() -> Defect:
    """After the long answer that nobody counts, which is the one that is left, the place stays taken."""
    is_taken = False

    def defect(request: ReceivedRequest, response: ScriptedResponse) -> None:
        nonlocal is_taken
        if is_taken and _is_hello(request):
            response.status, response.frames = 409, []
            response.document = {"error": {"message": "busy", "type": "conflict_error", "param": None, "code": "busy"}}
            response.fields["content-type"] = "application/json"
        is_taken = _is_long(request) and "stream_options" not in request.body

    return defect


def _wait_after_a_leave() -> Defect:
    """The answer that was left goes on for as long as the one that was not, and the next one waits for it."""
    asked_at_s, took_s, is_taken = 0.0, 0.0, False

    def defect(request: ReceivedRequest, response: ScriptedResponse) -> None:
        nonlocal asked_at_s, took_s, is_taken
        if is_taken:
            response.wait_s = took_s + 1.0
        took_s = took_s or (time.monotonic() - asked_at_s if asked_at_s else 0.0)
        is_counted = "stream_options" in request.body
        if _is_long(request) and is_counted:
            asked_at_s = time.monotonic()
        is_taken = _is_long(request) and not is_counted

    return defect


def _is_wrong_key(request: ReceivedRequest, _: ScriptedResponse) -> bool:
    return request.headers.get("authorization") not in (None, f"Bearer {KEY}")


CASES = (
    Case("refused.unknown-model", _with_status("model", 400)),
    Case("refused.wrong-key", _with_status("wrong-key", 403)),
    Case("refused.no-key", _with_status("no-key", 403)),
    Case("refused.not-json", _with_status("json", 422)),
    Case("refused.wrong-type", _with_status("type", 422)),
    Case(
        "refused.no-messages",
        _where(lambda body: "messages" not in body and "model" in body, _set_error("type", "bad_request")),
    ),
    Case(
        "refused.no-model",
        _where(lambda body: "messages" in body and "model" not in body, _set_status(422)),
    ),
    Case(
        "refused.lone-options",
        _where(
            lambda body: "stream_options" in body and not body.get("stream"),
            _answer_without("stream_options", rules=OPENAI),
        ),
    ),
    Case(
        "refused.too-many-choices",
        _where(lambda body: body.get("n", 1) > 1, _answer_without("n", rules=BITSEEK)),
        rules=BITSEEK,
    ),
    Case("refused.wrong-method", _for(lambda a, _: a.method == "GET", _reply_page)),
    Case("refused.elsewhere", _for(lambda a, p: p.status == 404 and "nothing" in a.path, _reply_page)),
    Case("refused.code", _for(_is_wrong_key, _set_error("code", "oops"))),
    Case(
        "refused.param",
        _for(lambda a, p: _is_refused(a, p) and "no-such" in str(a.body.get("model")), _set_error("param", None)),
    ),
    Case("refused.before-stream", _for(_is_unknown_streamed, _stream_the_error)),
    Case("refused.same-when-streamed", _for(_is_unknown_streamed, _set_error("code", "no_such_model"))),
    Case("refused.keeps-secrets", _for(_is_wrong_key, _repeat_key)),
    Case(
        "asked.whole",
        _for(
            _is_whole,
            lambda a, p: _become(p, answer(a.with_body({**a.body, "stream": True}), OPENAI)),
        ),
    ),
    Case(
        "asked.limit",
        _where(lambda body: body.get("max_tokens") == 4, _answer_without("max_tokens", rules=OPENAI)),
    ),
    Case("asked.limit-finish", _where(lambda body: body.get("max_tokens") == 4, _finish_with("stop"))),
    Case("asked.choices", _where(lambda body: "n" in body, _silence_a_choice)),
    Case("asked.choices", _where(lambda body: "n" in body, _answer_without("n", rules=OPENAI))),
    Case("asked.tool", _where(lambda body: "tools" in body, _replace(b"get_weather", b"get_time"))),
    Case(
        "asked.parallel-tools",
        _where(lambda body: body.get("tool_choice") == "required", _replace(b"Tokyo", b"Paris")),
    ),
    Case(
        "asked.no-model",
        _for(
            lambda a, p: "model" not in a.body and _is_stream(a, p),
            lambda _, p: _become(p, refusal("missing", "model", BITSEEK)),
        ),
        rules=BITSEEK,
    ),
    Case(
        "asked.options-ignored",
        _where(
            lambda body: "stream_options" in body and not body.get("stream"),
            lambda _, p: _become(p, refusal("value", "stream_options", OPENTOKEN)),
        ),
        rules=OPENTOKEN,
    ),
    Case("asked.prompt-count", _count_otherwise_again),
    Case("asked.ids-differ", _for(_is_ok, _same_id)),
    Case("buffered.text", _for(_is_whole, _change_message("content", "Something else."))),
    Case("buffered.finish", _for(_is_whole, _change_message("finish_reason", "length"))),
    Case("buffered.usage", _for(_is_whole, lambda _, p: _more_tokens(p, "completion_tokens"))),
    Case("delivery.as-made", _for(lambda a, p: _is_stream(a, p) and _is_long(a), _in_one_lump)),
    Case(
        "connection.complete",
        _for(lambda a, p: _is_stream(a, p) and _is_hello(a) and "stream_options" not in a.body, _cut),
    ),
    Case("connection.after-error", _for(_is_refused, _close_silently)),
    Case("connection.after-stream", _for(_is_stream, _close_silently)),
    Case("connection.request-ids", lambda: _set("x-request-id", "the-same")),
    Case("connection.origin", _for(lambda a, _: "origin" in a.headers, _set("access-control-allow-origin", "*"))),
    Case("cancel.next-answer", _refuse_after_a_leave, pause_s=PAUSE_S),
    Case("cancel.frees-the-model", _wait_after_a_leave, pause_s=0.02),
)
