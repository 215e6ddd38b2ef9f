"""A small endpoint that answers rightly in one dialect, but for ONE defect, on a real socket.

    async with BrokenEndpoint(OPENAI, DEFECTS["errors.unknown-model"]) as endpoint:
        ...                             # check endpoint.base_url

It is a server of its own, made of asyncio's streams and the tables of `support.dialect_rules`, and
has nothing of the gateway in it. A request is answered by what it says (its key, its body, its model), as
a real one would; the answer is a `ScriptedResponse`, which a defect may change before it goes out.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from types import TracebackType
from typing import Any, Self

from support.dialect_rules import Rules

KEY = "sk-Good5qP8mXvB2nL7dRtYw3Kc"
MODEL = "maker/small-1"
PATH = "/v1/chat/completions"
_SHORT = ("Hello", " there,", " how", " are", " you", " today", "?")
_LONG = tuple(f" {number}," for number in range(1, 61))
_INVALID = "invalid_request_error"

Words = tuple[int, str, str | None]
"""Of an error: status, type, code."""
_OPENAI_WORDS: dict[str, Words] = {
    "unknown-path": (404, _INVALID, "unknown_url"),
    "method": (405, _INVALID, "method_not_allowed"),
    "no-key": (401, _INVALID, "missing_api_key"),
    "wrong-key": (401, _INVALID, "invalid_api_key"),
    "json": (400, _INVALID, "invalid_json"),
    "type": (400, _INVALID, "invalid_type"),
    "missing": (400, _INVALID, "missing_required_parameter"),
    "value": (400, _INVALID, "invalid_value"),
    "model": (404, _INVALID, "model_not_found"),
}
_WORDS: dict[str, dict[str, Words]] = {
    "opentoken": {
        **_OPENAI_WORDS,
        "unknown-path": (404, _INVALID, "not_found"),
        "no-key": (401, "authentication_error", "missing_auth"),
        "wrong-key": (401, "authentication_error", "invalid_key"),
        "model": (400, _INVALID, "model_not_found"),
        **dict.fromkeys(("json", "type", "missing", "value"), (400, _INVALID, None)),
    },
    "aivene": {
        **{case: (status, kind, None) for case, (status, kind, _) in _OPENAI_WORDS.items()},
        "no-key": (401, "authentication_error", None),
        "wrong-key": (401, "authentication_error", None),
    },
}
"""Of the dialects that do not have those of openai."""


@dataclass(frozen=True)
class ReceivedRequest:
    """A request as it came."""

    number: int
    method: str
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        """Empty where it is none."""
        try:
            document = json.loads(self.raw)
        except ValueError:
            return {}
        return document if isinstance(document, dict) else {}

    def with_body(self, body: dict[str, Any]) -> "ReceivedRequest":
        return replace(self, raw=json.dumps(body).encode())

    def with_key(self, key: str) -> "ReceivedRequest":
        return replace(self, headers={**self.headers, "authorization": f"Bearer {key}"})


@dataclass
class ScriptedResponse:
    """What is answered."""

    status: int = 200
    fields: dict[str, str] = field(default_factory=dict)
    document: dict[str, Any] | None = None
    """Of an answer in one piece."""
    frames: list[Any] = field(default_factory=list)
    """Of a stream: documents, or frames as bytes."""
    pieces: list[bytes] | None = None
    """In place of both, what goes out as it stands."""
    pause_s: float = 0.0
    """Before each piece."""
    wait_s: float = 0.0
    """Before the first."""
    is_cut: bool = False
    """The connection ends, and the answer does not."""
    closes: bool = False
    """The connection ends with the answer, which does not say so."""
    is_gone: bool = False
    """The connection ends before the answer."""

    @property
    def is_stream(self) -> bool:
        return bool(self.frames)

    def written(self) -> list[bytes]:
        if self.pieces is not None:
            return self.pieces
        if self.is_stream:
            return [each if isinstance(each, bytes) else _frame(each) for each in self.frames]
        return [_json(self.document)]


Defect = Callable[[ReceivedRequest, ScriptedResponse], None]


class BrokenEndpoint:
    def __init__(self, rules: Rules, defect: Defect | None = None, *, pause_s: float = 0.0) -> None:
        """`pause_s`: before each frame of a long answer, so that it can be seen how it is delivered."""
        self.rules = rules
        self.requests: list[ReceivedRequest] = []
        self._defect = defect
        self._pause_s = pause_s
        self._numbers = count()
        self._open: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open)
        await self._server.wait_closed()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            while await self._answer(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # asyncio's streams log a task that was cancelled
        finally:
            self._open.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-2])}
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        request = ReceivedRequest(next(self._numbers), method, path, headers, raw)
        self.requests.append(request)
        response = answer(request, self.rules)
        response.fields.setdefault("x-request-id", f"req_{request.number:08d}")
        if response.is_stream and "sixty" in str(request.body.get("messages")):
            response.pause_s = self._pause_s
        if self._defect is not None:
            self._defect(request, response)
        if response.is_gone:
            return False
        await _write(writer, response)
        return not response.is_cut and not response.closes


async def _write(writer: asyncio.StreamWriter, response: ScriptedResponse) -> None:
    pieces = response.written()
    fields = dict(response.fields)
    is_chunked = response.is_stream and "content-length" not in fields
    if is_chunked:
        fields["transfer-encoding"] = "chunked"
    else:
        fields.setdefault("content-length", str(sum(map(len, pieces))))
    lines = [f"HTTP/1.1 {response.status} Played", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    writer.write("\r\n".join(lines).encode("latin-1"))
    await asyncio.sleep(response.wait_s)
    for piece in pieces:
        await asyncio.sleep(response.pause_s)
        if writer.is_closing():
            raise ConnectionResetError
        if piece:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece)
        await writer.drain()
    if is_chunked and not response.is_cut:
        writer.write(b"0\r\n\r\n")
    await writer.drain()


def answer(request: ReceivedRequest, rules: Rules) -> ScriptedResponse:
    """The right one."""
    body = request.body
    secret = request.headers.get("authorization")
    refused: tuple[str, str | None] | None = None
    if request.path != PATH:
        refused = ("unknown-path", None)
    elif request.method != "POST":
        refused = ("method", None)
    elif secret is None:
        refused = ("no-key", None)
    elif secret != f"Bearer {KEY}":
        refused = ("wrong-key", None)
    elif not body:
        refused = ("json", None)
    elif "messages" not in body:
        refused = ("missing", "messages")
    elif not isinstance(body["messages"], list):
        refused = ("type", "messages")
    elif "model" not in body and not rules.is_bitseek:
        refused = ("missing", "model")
    elif body.get("model", MODEL) != MODEL:
        refused = ("model", "model")
    elif "stream_options" in body and not body.get("stream") and rules.name in ("openai", "aivene"):
        refused = ("value", "stream_options")
    elif rules.is_bitseek and body.get("n", 1) > 1:
        refused = ("value", "n")
    if refused is not None:
        return refusal(*refused, rules)
    if rules.is_bitseek or body.get("stream"):
        fields = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
        return ScriptedResponse(fields=fields, frames=_stream(request, rules))
    return ScriptedResponse(fields={"content-type": "application/json"}, document=_whole(request, rules))


def refusal(case: str, param: str | None, rules: Rules) -> ScriptedResponse:
    status, kind, code = _WORDS.get(rules.name, _OPENAI_WORDS)[case]
    members = {"message": f"This request cannot be answered: {case}.", "type": kind, "param": param, "code": code}
    error = {name: members[name] for name in rules.error_members}
    fields = {"content-type": "application/json"}
    if case == "method":
        fields["allow"] = "POST"
    return ScriptedResponse(status=status, fields=fields, document={"error": error})


def _stream(request: ReceivedRequest, rules: Rules) -> list[Any]:
    body = request.body
    wants_usage = (body.get("stream_options") or {}).get("include_usage") is True
    head = {**_head(request, rules, rules.chunk_object), "choices": []}
    frames: list[dict[str, Any]] = []
    for index in range(body.get("n", 1)):
        if rules.first_delta is not None:
            frames.append({**head, "choices": [_choice(index, dict(rules.first_delta))]})
        frames += [{**head, "choices": [_choice(index, delta)]} for delta in _deltas(body, rules)]
        finish = rules.finish_reasons[_finish(body)]
        frames.append({**head, "choices": [_choice(index, dict(rules.finish_delta), finish)]})
    if rules.includes_usage(wants_usage) and rules.usage_on_finish:
        frames[-1]["usage"] = _usage(body, rules)
    elif rules.includes_usage(wants_usage):
        if rules.null_usage:
            frames = [{**frame, "usage": None} for frame in frames]
        frames.append({**head, "usage": _usage(body, rules)})
    return [*frames, b"data: [DONE]\n\n"] if rules.has_terminator else list(frames)


def _whole(request: ReceivedRequest, rules: Rules) -> dict[str, Any]:
    body = request.body
    message: dict[str, Any] = {"role": "assistant", "content": "".join(_texts(body)) or None}
    if thoughts := _thoughts(body, rules):
        message["reasoning_content"] = "".join(thoughts)
    if calls := _calls(body):
        message["tool_calls"] = [{"id": id, "type": "function", "function": function} for id, function in calls]
    finish = rules.finish_reasons[_finish(body)]
    choices = [{"index": index, "message": message, "finish_reason": finish} for index in range(body.get("n", 1))]
    return {**_head(request, rules, "chat.completion"), "choices": choices, "usage": _usage(body, rules)}


def _head(request: ReceivedRequest, rules: Rules, kind: str) -> dict[str, Any]:
    return {
        "id": rules.made_id(request.number),
        "object": kind,
        "created": 1_760_000_000,
        "model": request.body.get("model", ""),
    }


def _choice(index: int, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": finish}


def _deltas(body: dict[str, Any], rules: Rules) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"reasoning_content": text} for text in _thoughts(body, rules)]
    deltas += [{"content": text} for text in _texts(body)]
    for index, (id, function) in enumerate(_calls(body)):
        opener = {"index": index, "id": id, "type": "function"}
        if rules.is_bitseek:
            deltas.append({"tool_calls": [{**opener, "function": function}]})
            continue
        deltas.append({"tool_calls": [{**opener, "function": {"name": function["name"], "arguments": ""}}]})
        text = function["arguments"]
        for piece in (text[:4], text[4:]):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    return deltas


def _texts(body: dict[str, Any]) -> tuple[str, ...]:
    if _calls(body):
        return ()
    texts = _LONG if "sixty" in str(body["messages"]) else _SHORT
    return texts[: body.get("max_tokens", len(texts))]


def _thoughts(body: dict[str, Any], rules: Rules) -> tuple[str, ...]:
    return ("Let", " me", " think.") if body.get("reasoning_effort") and not rules.is_bitseek else ()


def _calls(body: dict[str, Any]) -> list[tuple[str, dict[str, str]]]:
    if "tools" not in body:
        return []
    cities = ("Paris", "Tokyo") if body.get("tool_choice") == "required" else ("Paris",)
    name = body["tools"][0]["function"]["name"]
    return [(f"call_{n}", {"name": name, "arguments": json.dumps({"city": city})}) for n, city in enumerate(cities)]


def _finish(body: dict[str, Any]) -> str:
    if _calls(body):
        return "tool_calls"
    return "length" if len(_texts(body)) == body.get("max_tokens") else "stop"


def _usage(body: dict[str, Any], rules: Rules) -> dict[str, Any]:
    prompt = len(str(body["messages"]).split())
    answered = (len(_texts(body)) + len(_thoughts(body, rules)) + 3 * len(_calls(body))) * body.get("n", 1)
    usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": answered, "total_tokens": prompt + answered}
    if rules.is_openai:
        names = ("reasoning_tokens", "audio_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens")
        usage["completion_tokens_details"] = dict.fromkeys(names, 0)
        usage["prompt_tokens_details"] = {"cached_tokens": 0, "audio_tokens": 0}
    return usage


def _frame(document: Any) -> bytes:
    return b"data: %b\n\n" % _json(document)


def _json(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
