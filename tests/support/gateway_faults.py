"""The gateway's own faults in the words of each dialect, of the Messages API and of the Responses API, written down a
second time from docs/spec/dialects.md and docs/spec/messages.md.

`internal_error` carries the request's id as `event_id`; no other does.
"""

import json
from typing import Any, NamedTuple

from support.dialect_rules import BY_NAME, NAMES
from support.gateway import frames_of, text_of
from support.messages import read_stream, said_in
from support.raw_client import Reply
from support.responses import read_stream as read_response
from support.responses import text_so_far

DIALECTS = (*NAMES, "messages", "responses")
BUFFERING = tuple(name for name in DIALECTS if name not in BY_NAME or not BY_NAME[name].is_bitseek)


class Words(NamedTuple):
    status: int
    type: str
    opentoken: tuple[str, str | None]
    """Type and code there."""
    aivene: str


WORDS = {
    "internal_error": Words(500, "server_error", ("api_error", None), "api_error"),
    "overloaded": Words(503, "overloaded_error", ("overloaded_error", "overloaded"), "overloaded_error"),
    "server_shutting_down": Words(
        503, "overloaded_error", ("overloaded_error", "server_shutting_down"), "overloaded_error"
    ),
}


def error_of(code: str, dialect: str, message: str, event_id: str | None, *, in_stream: bool) -> dict[str, Any]:
    """The member `error`, in its order."""
    words = WORDS[code]
    usual = {"message": message, "type": words.type, "param": None, "code": code}
    members: dict[str, dict[str, Any]] = {
        **{rules.name: {name: usual[name] for name in rules.error_members} for rules in BY_NAME.values()},
        "opentoken": {"message": message, "type": words.opentoken[0], "code": words.opentoken[1]},
        "aivene": {"message": message, "type": "stream_error" if in_stream else words.aivene},
        "responses": usual,
        "messages": {"type": "api_error" if words.status == 500 else "overloaded_error", "message": message},
    }
    if dialect == "messages":  # it has the request's id in every error, beside it
        event_id = None
    return {**members[dialect], **({"event_id": event_id} if event_id is not None else {})}


def assert_refused_by_us(reply: Reply, code: str, dialect: str = "openai") -> None:
    """A status, an envelope, a word on when to come back, and nothing of the inside."""
    assert reply.status == WORDS[code].status
    assert reply.header("content-type") == "application/json"
    document = json.loads(reply.body)
    assert list(document) == (["type", "error", "request_id"] if dialect == "messages" else ["error"])
    event_id = reply.header("x-request-id") if code == "internal_error" else None
    expected = error_of(code, dialect, document["error"]["message"], event_id, in_stream=False)
    assert list(document["error"].items()) == list(expected.items())
    assert reply.header("x-should-retry") == "true"
    if reply.status == 503:
        assert 1 <= int(reply.header("retry-after") or "0") <= 5
    assert_discreet(reply)


def assert_ended_by_us(reply: Reply, code: str, dialect: str = "openai", *, text: str) -> None:
    """A stream that began: so much text, no finish, one error frame, the terminator."""
    assert reply.status == 200
    if dialect == "messages":
        message = read_stream(reply.body)
        expected = error_of(code, dialect, message["error"]["message"], None, in_stream=True)
        assert list(message["error"].items()) == list(expected.items())
        assert (message.get("stop_reason"), said_in(message)) == (None, text)
        assert_discreet(reply)
        return
    if dialect == "responses":
        response = read_response(reply.body)
        word = ("service_unavailable_error", "server_is_overloaded") if code == "overloaded" else ("server_error",) * 2
        assert (response["error_frame"]["type"], response["error_frame"]["code"]) == word
        assert (response["status"], text_so_far(reply.body)) == ("failed", text)
        assert_discreet(reply)
        return
    documents = frames_of(reply.body)
    if dialect != "bitseek":
        assert documents.pop() == "[DONE]"
    last = documents.pop()
    members = ["id", "object", "created", "model", "choices", "error"] if dialect == "bitseek" else ["error"]
    assert list(last) == members
    event_id = reply.header("x-request-id") if code == "internal_error" else None
    expected = error_of(code, dialect, last["error"]["message"], event_id, in_stream=True)
    assert list(last["error"].items()) == list(expected.items())
    assert all(choice["finish_reason"] is None for each in documents for choice in each["choices"])
    assert text_of(reply.body) == text
    assert_discreet(reply)


def assert_discreet(reply: Reply) -> None:
    assert reply.header("x-request-id")
    everything = (reply.head + reply.body).lower()
    assert not [word for word in (b"canary", b"127.0.0.1", b"traceback", b"error:", b".py") if word in everything]
