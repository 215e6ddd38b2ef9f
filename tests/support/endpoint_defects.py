"""One defect for each rule over an endpoint: what is changed in its right answers, and what else that must break.

A defect is a function over a request and the `Play` that would answer it. Some remember what they have seen;
so each is made anew for each endpoint.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from support.broken_endpoint import KEY, Asked, Defect, Play, answer, refusal
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

    def change(_: Asked, play: Play) -> None:
        if play.document is not None and f": {case}." in str(play.document.get("error")):
            play.status = status

    return lambda: change


def _for(holds: Callable[[Asked, Play], bool], change: Defect) -> Callable[[], Defect]:
    def defect(asked: Asked, play: Play) -> None:
        if holds(asked, play):
            change(asked, play)

    return lambda: defect


def _where(holds: Callable[[dict[str, Any]], bool], change: Defect) -> Callable[[], Defect]:
    """By the request's body alone."""
    return _for(lambda asked, _: holds(asked.body), change)


def _answer_without(*members: str, rules: Rules) -> Defect:
    """As if these members had not been sent."""

    def change(asked: Asked, play: Play) -> None:
        body = {name: value for name, value in asked.body.items() if name not in members}
        _become(play, answer(asked.with_body(body), rules))

    return change


def _become(play: Play, other: Play) -> None:
    play.status, play.document, play.frames = other.status, other.document, other.frames
    play.fields = {**other.fields, "x-request-id": play.fields["x-request-id"]}


def _set_status(status: int) -> Defect:
    def change(_: Asked, play: Play) -> None:
        play.status = status

    return change


def _is_ok(_: Asked, play: Play) -> bool:
    return play.status == 200


def _is_refused(_: Asked, play: Play) -> bool:
    return play.status >= 400


def _is_stream(_: Asked, play: Play) -> bool:
    return play.is_stream


def _is_whole(asked: Asked, play: Play) -> bool:
    return play.status == 200 and not asked.body.get("stream")


def _is_hello(asked: Asked) -> bool:
    return "hello" in str(asked.body.get("messages")) and asked.body.get("max_tokens") == 64 and "n" not in asked.body


def _is_long(asked: Asked) -> bool:
    return "sixty" in str(asked.body.get("messages"))


def _is_unknown_streamed(asked: Asked, play: Play) -> bool:
    return _is_refused(asked, play) and "no-such" in str(asked.body.get("model")) and bool(asked.body.get("stream"))


def _error(play: Play) -> dict[str, object]:
    assert play.document is not None
    error: dict[str, object] = play.document["error"]
    return error


def _reply_page(_: Asked, play: Play) -> None:
    play.status, play.pieces = 200, [b"ok\n"]
    play.fields = {"content-type": "text/plain", "x-request-id": play.fields["x-request-id"]}


def _stream_the_error(_: Asked, play: Play) -> None:
    play.status, play.frames = 200, [play.document, b"data: [DONE]\n\n"]
    play.fields["content-type"] = "text/event-stream"
    play.fields["cache-control"] = "no-cache"


def _finish_with(word: str) -> Defect:
    def change(_: Asked, play: Play) -> None:
        for frame in play.frames:
            for choice in frame["choices"] if isinstance(frame, dict) else ():
                choice["finish_reason"] = choice["finish_reason"] and word

    return change


def _silence_a_choice(_: Asked, play: Play) -> None:
    play.frames = [frame for frame in play.frames if not (isinstance(frame, dict) and _says_second(frame))]


def _says_second(frame: dict[str, Any]) -> bool:
    return any(choice["index"] == 1 and choice["delta"].get("content") for choice in frame["choices"])


def _replace(old: bytes, new: bytes) -> Defect:
    def change(_: Asked, play: Play) -> None:
        play.pieces = [piece.replace(old, new) for piece in play.written()]

    return change


def _same_id(_: Asked, play: Play) -> None:
    for document in [*play.frames, play.document]:
        if isinstance(document, dict) and "id" in document:
            document["id"] = "chatcmpl-" + "z" * 29


def _more_tokens(play: Play, name: str) -> None:
    for document in [*play.frames, play.document]:
        if isinstance(document, dict) and document.get("usage"):
            document["usage"][name] += 1
            document["usage"]["total_tokens"] += 1


def _count_otherwise_again() -> Defect:
    """The same request, sent again, counts one token more."""
    seen: set[bytes] = set()

    def defect(asked: Asked, play: Play) -> None:
        if asked.raw in seen:
            _more_tokens(play, "prompt_tokens")
        seen.add(asked.raw)

    return defect


def _change_message(member: str, value: str) -> Defect:
    def change(_: Asked, play: Play) -> None:
        assert play.document is not None
        (choice,) = play.document["choices"]
        (choice if member == "finish_reason" else choice["message"])[member] = value

    return change


def _in_one_lump(_: Asked, play: Play) -> None:
    play.pieces, play.wait_s = [b"".join(play.written())], 0.5


def _cut(_: Asked, play: Play) -> None:
    play.is_cut = True


def _close_silently(_: Asked, play: Play) -> None:
    play.closes = True


def _set(name: str, value: str) -> Defect:
    def change(_: Asked, play: Play) -> None:
        play.fields[name] = value

    return change


def _set_error(name: str, value: object) -> Defect:
    def change(_: Asked, play: Play) -> None:
        _error(play)[name] = value

    return change


def _repeat_key(asked: Asked, play: Play) -> None:
    _error(play)["message"] = f"This key is wrong: {asked.headers['authorization']}"


def _refuse_after_a_leave() -> Defect:
    """After the long answer that nobody counts, which is the one that is left, the place stays taken."""
    is_taken = False

    def defect(asked: Asked, play: Play) -> None:
        nonlocal is_taken
        if is_taken and _is_hello(asked):
            play.status, play.frames = 409, []
            play.document = {"error": {"message": "busy", "type": "conflict_error", "param": None, "code": "busy"}}
            play.fields["content-type"] = "application/json"
        is_taken = _is_long(asked) and "stream_options" not in asked.body

    return defect


def _wait_after_a_leave() -> Defect:
    """The answer that was left goes on for as long as the one that was not, and the next one waits for it."""
    asked_at_s, took_s, is_taken = 0.0, 0.0, False

    def defect(asked: Asked, play: Play) -> None:
        nonlocal asked_at_s, took_s, is_taken
        if is_taken:
            play.wait_s = took_s + 1.0
        took_s = took_s or (time.monotonic() - asked_at_s if asked_at_s else 0.0)
        is_counted = "stream_options" in asked.body
        if _is_long(asked) and is_counted:
            asked_at_s = time.monotonic()
        is_taken = _is_long(asked) and not is_counted

    return defect


def _is_wrong_key(asked: Asked, _: Play) -> bool:
    return asked.headers.get("authorization") not in (None, f"Bearer {KEY}")


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
