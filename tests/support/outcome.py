"""The expected result of a request: for its caller, in its record, and at the upstream.

    async with serving(stream(openai_stream())) as (gate, up):
        reply = await gate.ask(path=path_of(dialect), model="up/m", stream=True)
        assert_completed(reply, dialect)
        await assert_record(gate, "completed", usage=(7, 5))

The values of each dialect are written here a second time, from the specification and not from the program. No answer
and no record may contain the word "canary": it is in data of providers that must not be passed on.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from msgspec import structs

from streamweir.server.telemetry.record import RequestRecord
from support.answers import TEXTS
from support.dialect_rules import BY_NAME, NAMES
from support.gateway import Gate, chat_request, frames_of, gateway, providers, text_of
from support.messages import read_stream, said_in
from support.raw_client import Reply
from support.responses import read_stream as read_response
from support.responses import said_in as said_in_response
from support.responses import text_so_far
from support.script import Script
from support.scripted_upstream import ScriptedUpstream

ALIAS = """
[[models]]
id = "either"
targets = [{ provider = "first", model = "m" }, { provider = "second", model = "n" }]
"""
"""TOML: a model with a second choice."""
DIALECTS = (*NAMES, "messages", "responses")
"""Those of chat completions; the Messages API and the Responses API are other frontends."""
BUFFERING = tuple(name for name in DIALECTS if name not in BY_NAME or not BY_NAME[name].is_bitseek)
ALWAYS_TOLD = (*(rules.name for rules in BY_NAME.values() if rules.usage_always), "messages", "responses")
"""Those that have the usage in every stream."""
TEXT = "".join(TEXTS)
CANARY = "Denied for sk-canary-4f9a8b7c6d5e4f9a8b7c6d5e at https://canary.example.com/v1 on host canary.internal"

ESTIMATED_PROMPT = 3
"""Four bytes are about one token, and the harness asks "Say hello."."""


class Words(NamedTuple):
    status: int
    type: str
    may_retry: bool = True


WORDS = {
    "context_length_exceeded": Words(400, "invalid_request_error", may_retry=False),
    "invalid_value": Words(400, "invalid_request_error", may_retry=False),
    "upstream_rate_limited": Words(429, "rate_limit_error"),
    "upstream_connect_failed": Words(502, "upstream_error"),
    "upstream_dns_failed": Words(502, "upstream_error"),
    "upstream_tls_failed": Words(502, "upstream_error"),
    "upstream_auth_failed": Words(502, "upstream_error", may_retry=False),
    "upstream_bad_response": Words(502, "upstream_error"),
    "upstream_bad_encoding": Words(502, "upstream_error"),
    "upstream_empty_response": Words(502, "upstream_error"),
    "upstream_redirect_blocked": Words(502, "upstream_error", may_retry=False),
    "upstream_model_not_found": Words(502, "upstream_error", may_retry=False),
    "upstream_server_error": Words(502, "upstream_error"),
    "upstream_stream_truncated": Words(502, "upstream_error"),
    "upstream_stream_reset": Words(502, "upstream_error"),
    "upstream_invalid_frame": Words(502, "upstream_error"),
    "upstream_frame_too_large": Words(502, "upstream_error"),
    "response_too_large": Words(502, "upstream_error", may_retry=False),
    "no_available_deployment": Words(503, "upstream_error"),
    "upstream_overloaded": Words(503, "upstream_error"),
    "upstream_quota_exhausted": Words(503, "upstream_error", may_retry=False),
    "upstream_timeout": Words(504, "upstream_error"),
    "stream_idle_timeout": Words(504, "upstream_error"),
    "stream_deadline_exceeded": Words(504, "upstream_error"),
}
_MESSAGES_TYPES = {
    400: "invalid_request_error",
    429: "rate_limit_error",
    502: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_OPENTOKEN_CODES = {"no_available_deployment": "no_supplier", "upstream_timeout": "upstream_timeout"}
_MEMBERS = {
    **{rules.name: list(rules.error_members) for rules in BY_NAME.values()},
    "responses": ["message", "type", "param", "code"],
}
_RESPONSES_WORDS = {
    # Type and code inside a stream, by our code; by them agents decide whether to go on.
    "context_length_exceeded": ("invalid_request_error", "context_length_exceeded"),
    "budget_exceeded": ("insufficient_quota", "insufficient_quota"),
    "upstream_overloaded": ("service_unavailable_error", "server_is_overloaded"),
    "overloaded": ("service_unavailable_error", "server_is_overloaded"),
    "upstream_rate_limited": ("rate_limit_error", "rate_limit_exceeded"),
}
_STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
    "transfer-encoding": "chunked",
}


@asynccontextmanager
async def serving(
    script: Script, kind: str = "openai", toml: str = "", own: str = ""
) -> AsyncIterator[tuple[Gate, ScriptedUpstream]]:
    """The gateway before one scripted upstream, its provider `up`. `own` is TOML inside that provider.

    When the gateway is gone, the upstream has no connection left.
    """
    async with ScriptedUpstream(script) as up:
        async with gateway(providers(kind, up=up.base_url) + own + "\n" + toml) as gate:
            yield gate, up
        await up.vacated()


async def ask_and_signal(gate: Gate, mark: bytes, seen: asyncio.Event, **members: Any) -> Reply:
    """A streamed answer; `seen` is set as soon as the caller has read the mark in it."""
    async with await gate.connect() as client:
        await client.send(chat_request(stream=True, **members))
        reply = await client.head()
        assert reply.header("transfer-encoding") == "chunked", reply
        body = b""
        while chunk := await client.chunk():
            body += chunk
            if mark in body:
                seen.set()
        return Reply(reply.status, reply.headers, reply.head, body)


def path_of(dialect: str) -> str:
    own = {"messages": "/anthropic/v1/messages", "responses": "/v1/responses"}
    return own.get(dialect) or f"/{dialect}/v1/chat/completions"


def status_of(code: str, dialect: str) -> int:
    return 529 if dialect == "messages" and code == "upstream_overloaded" else WORDS[code].status


def assert_refused(
    reply: Reply, code: str, dialect: str = "openai", *, param: str | None = None, retry_after: str | None = None
) -> str:
    """A failure with a status, and nothing but that. Gives its message."""
    words = WORDS[code]
    assert reply.status == status_of(code, dialect)
    assert reply.header("content-type") == "application/json"
    document = json.loads(reply.body)
    error = document["error"]
    if dialect == "messages":
        assert list(document) == ["type", "error", "request_id"]
        assert document["type"] == "error"
        assert_messages_error(error, code)
        assert document["request_id"] == reply.header("request-id") == reply.header("x-request-id")
    else:
        assert list(document) == ["error"]
        assert list(error) == _MEMBERS[dialect]
        expected = _refusal_words(code, words, dialect, param)
        assert {name: error[name] for name in error if name != "message"} == expected
    if words.status == 429:
        assert reply.header("x-should-retry") is None
    else:
        assert reply.header("x-should-retry") == ("true" if words.may_retry else "false")
    if words.status == 503 and words.may_retry and retry_after is None:
        retry_after = "2"  # so that clients do not retry at once
    assert reply.header("retry-after") == retry_after
    _assert_discreet(reply)
    message = error["message"]
    assert isinstance(message, str)
    assert message
    return message


def assert_quoted(reply: Reply, status: int, kind: str) -> None:
    """A failure of an upstream that speaks the caller's API: its own status and word, and its text without secrets."""
    assert reply.status == status
    document = json.loads(reply.body)
    assert (document["type"], document["error"]["type"]) == ("error", kind)
    _assert_discreet(reply)


def assert_broken(reply: Reply, code: str, dialect: str = "openai", *, text: str) -> None:
    """A stream that began and failed: so much text, no finish, one error frame, the terminator."""
    if dialect == "messages":
        _assert_stream(reply, dialect)
        message = read_stream(reply.body)
        assert_messages_error(message["error"], code)
        assert (message.get("stop_reason"), said_in(message)) == (None, text)
        return
    if dialect == "responses":
        _assert_stream(reply, dialect)
        assert_responses_error(read_response(reply.body), code)
        assert text_so_far(reply.body) == text
        return
    documents = _stream_of(reply)
    if dialect != "bitseek":
        assert documents.pop() == "[DONE]"
    assert_error_frame(documents.pop(), code, dialect)
    assert all(is_chunk_without_finish(each) for each in documents)
    assert text_of(reply.body) == text


def assert_error_frame(document: Any, code: str, dialect: str) -> None:
    if dialect == "bitseek":
        assert list(document) == ["id", "object", "created", "model", "choices", "error"]
        assert document["id"].startswith("stream:chat:")
        assert (document["object"], document["choices"]) == ("chat.completion", [])
    else:
        assert list(document) == ["error"]
    error = document["error"]
    assert list(error) == _MEMBERS[dialect]
    words = {"param": None, "code": code, **BY_NAME[dialect].stream_error}
    assert error == {"message": error["message"], **{name: words[name] for name in words if name in error}}
    assert error["message"]


def assert_completed(
    reply: Reply, dialect: str = "openai", *, text: str = TEXT, usage: tuple[int, int] | None = None
) -> None:
    """A stream that is whole: the text, one finish, the usage where it is due, one terminator, nothing behind it."""
    if dialect == "messages":
        _assert_stream(reply, dialect)
        message = read_stream(reply.body)
        assert ("error" in message, message["stop_reason"], said_in(message)) == (False, "end_turn", text)
        told = message["usage"]
        assert usage in (None, (told["input_tokens"], told["output_tokens"]))
        return
    if dialect == "responses":
        _assert_stream(reply, dialect)
        assert_response(read_response(reply.body), text, usage)
        return
    documents = _stream_of(reply)
    if dialect != "bitseek":
        assert documents.pop() == "[DONE]"
    assert "[DONE]" not in documents
    assert all("error" not in each for each in documents)
    finishes = [choice["finish_reason"] for each in documents for choice in each["choices"]]
    assert [word for word in finishes if word is not None] == ["stop"]
    assert text_of(reply.body) == text
    reports = [each["usage"] for each in documents if each.get("usage") is not None]
    if dialect == "opentoken" or usage is not None:
        assert len(reports) == 1
    if usage is not None:
        assert (reports[0]["prompt_tokens"], reports[0]["completion_tokens"]) == usage


def assert_whole(reply: Reply, *, text: str = TEXT, usage: tuple[int, int] | None = None) -> None:
    """A buffered answer."""
    assert reply.status == 200
    _assert_discreet(reply)
    document = json.loads(reply.body)
    if document.get("type") == "message":
        assert (document["stop_reason"], said_in(document)) == ("end_turn", text)
        told = document.get("usage", {})
        assert usage in (None, (told.get("input_tokens"), told.get("output_tokens")))
        return
    if document.get("object") == "response":
        assert_response(document, text, usage)
        return
    assert [choice["message"]["content"] for choice in document["choices"]] == [text]
    if usage is not None:
        assert (document["usage"]["prompt_tokens"], document["usage"]["completion_tokens"]) == usage


async def assert_record(
    gate: Gate,
    verdict: str,
    *,
    error: str | None = None,
    status: int = 200,
    attempts: Sequence[str | None] | None = None,
    usage: tuple[int, int] | None = None,
    source: str | None = "provider",
    count: int = 1,
) -> RequestRecord:
    """The record of the last of `count` requests. `attempts` are their codes: by default one, with the error."""
    record = (await gate.settled(count))[-1]
    assert (record.verdict, record.error, record.status) == (verdict, error, status)
    assert [each.error for each in record.attempts] == ([error] if attempts is None else list(attempts))
    if record.usage is None:
        assert record.usage_source is None
        assert usage is None
    else:
        assert record.usage_source == source
        if usage is not None:
            assert (record.usage.prompt_tokens, record.usage.completion_tokens) == usage
    # The operator is shown the provider's own message and request id, without secrets and addresses.
    attempts_without = [
        structs.replace(each, provider_message=None, provider_request_id=None) for each in record.attempts
    ]
    assert "canary" not in repr(structs.replace(record, attempts=attempts_without))
    assert not any(part in repr(record) for part in ("sk-canary", "canary.example", "canary.internal"))
    return record


def is_chunk_without_finish(document: Any) -> bool:
    return "error" not in document and all(choice["finish_reason"] is None for choice in document["choices"])


def _stream_of(reply: Reply) -> list[Any]:
    _assert_stream(reply, "openai")
    return frames_of(reply.body)


def _assert_stream(reply: Reply, dialect: str) -> None:
    assert reply.status == 200
    headers = dict(reply.headers)
    assert len(headers) == len(reply.headers)
    own = {"request-id"} if dialect == "messages" else set()
    assert headers.keys() == {*_STREAM_HEADERS, "date", "x-request-id", *own}
    assert _STREAM_HEADERS.items() <= headers.items()
    _assert_discreet(reply)


def assert_response(response: Any, text: str, usage: tuple[int, int] | None) -> None:
    """A whole one."""
    assert (response["status"], response["error"], said_in_response(response)) == ("completed", None, text)
    told = response["usage"]
    assert usage in (None, (told["input_tokens"], told["output_tokens"]))


def assert_responses_error(response: Any, code: str) -> None:
    """Of a response that failed, and of the frame before it."""
    assert response["status"] == "failed"
    error = response["error_frame"]
    words = _RESPONSES_WORDS.get(code, ("server_error", "server_error"))
    assert (error["type"], error["code"], error["param"]) == (*words, None)
    assert error["message"]


def assert_messages_error(error: Any, code: str) -> None:
    assert list(error) == ["type", "message"]
    assert error["type"] == _MESSAGES_TYPES[status_of(code, "messages")]
    assert error["message"]


def _assert_discreet(reply: Reply) -> None:
    assert reply.header("x-request-id")
    everything = (reply.head + reply.body).lower()
    assert not [word for word in (b"canary", b"<script", b"127.0.0.1", b"traceback") if word in everything]


def _refusal_words(code: str, words: Words, dialect: str, param: str | None) -> dict[str, str | None]:
    if dialect == "opentoken":
        if words.status == 400:
            return {"type": words.type, "code": None}
        return {"type": "upstream_error", "code": _OPENTOKEN_CODES.get(code, "upstream_error")}
    usual = {"type": words.type, "param": param, "code": code}
    return {name: usual[name] for name in usual if name in _MEMBERS[dialect]}
