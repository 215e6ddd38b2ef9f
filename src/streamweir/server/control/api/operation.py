"""What an operation of the API is: a value that says everything about it, for the router and the document alike.

A handler gets what was sent as types, already held against them: an unknown member is an error, not
a surprise (docs/spec/security.md S19). It gives a value, which becomes JSON, or a `Stream`, or hands the answer
over to somebody else. Who may call it stands on the operation, and has no default.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import unquote

import msgspec
from msgspec import Struct
from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse

from streamweir.core.errors import CallerError
from streamweir.server.control.api.actor import Actor
from streamweir.server.control.api.authentication import actor_of
from streamweir.server.control.api.context import Context
from streamweir.server.control.routing import (
    Access,
    OpenRoute,
    body_of,
    handed_over,
    json_response,
    request_of,
    stream_response,
)
from streamweir.server.http.asgi import RequestHandover
from streamweir.server.http.message import Headers, Request
from streamweir.server.request.body_parsing import MAX_BYTES_ON_LOOP
from streamweir.wire.jsonio import decode_body

S = TypeVar("S", bound=Struct)
Q = TypeVar("Q")
B = TypeVar("B")
R = TypeVar("R")
T = TypeVar("T")

JSON = "application/json"
MOST_BODY_BYTES = 1 << 20
_LONGEST_TEXT = 160
"""Of what a message repeats."""
_PLACE = re.compile(r"(?P<message>.*?)(?: - at `\$\.?(?P<place>[^`]*)`)?", re.DOTALL)
_FIELD = re.compile(r"Object (?P<what>contains unknown|missing required) field `(?P<name>.*)`", re.DOTALL)


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """No member at all."""


class Page(Struct, Generic[T], kw_only=True):
    """`next`, where there is more, is what to ask for the next page with."""

    data: list[T]
    next: str | int | None = None


def page_of(rows: Sequence[R], limit: int, view: Callable[[R], T], mark: Callable[[R], str | int]) -> Page[T]:
    """Of one row more than a page holds, if there is one: `mark` of the last that is shown leads on."""
    kept = rows[:limit]
    return Page(data=[view(row) for row in kept], next=mark(kept[-1]) if len(rows) > limit else None)


class Call(Struct, Generic[Q, B], frozen=True, kw_only=True):
    context: Context
    actor: Actor
    request: Request
    path: dict[str, str]
    query: Q
    body: B
    at_ms: int


class Reply(Struct, frozen=True, kw_only=True):
    """For an answer that is more than its value."""

    value: object
    headers: Headers = ()


class Stream(Struct, frozen=True, kw_only=True):
    """For an answer in pieces. What can be refused is refused before there is one: an error after that can only cut it
    off."""

    pieces: AsyncGenerator[bytes, None]
    headers: Headers
    """Its `content-type` among them."""
    status: int = 200


class Handover(Struct, frozen=True, kw_only=True):
    """For what somebody else answers, with the request and the response as they are."""

    take: RequestHandover


def read_members(body: bytes, kind: type[S]) -> S:
    decode_body(body)  # refuses what two readers could read in two ways
    return decode_members(body, kind)


class Operation(Struct, frozen=True, kw_only=True):
    method: str
    path: str
    access: Access
    about: str
    handler: Callable[[Call[Any, Any]], Awaitable[object]]
    query: type[Struct] = Nothing
    body: type[Struct] = Nothing
    answer: Any
    """The type of what it gives as JSON."""
    media: tuple[str, ...] = (JSON,)
    """What its answer may be. All but JSON is text, whatever `answer` is."""
    status: int = 200
    most_bytes: int | None = MOST_BODY_BYTES
    """None: as many as any request may have."""
    read: Callable[[bytes, type[Struct]], Struct] = read_members
    """What makes members of its body; in a thread where it is large."""

    @property
    def name(self) -> str:
        return self.handler.__name__


def route_of(operation: Operation, context: Context) -> OpenRoute:
    async def endpoint(http: HttpRequest) -> HttpResponse:
        body = await body_of(http, operation.most_bytes) if operation.method != "GET" else b""
        call = Call(
            context=context,
            actor=actor_of(http.scope),
            request=request_of(http.scope),
            path={name: unquote(value) for name, value in http.path_params.items()},
            query=read_query(operation.query, http.query_params.multi_items()),
            body=await read_body(operation, body, http.headers.get("content-type", "")),
            at_ms=context.clock_ms(),
        )
        answer = await operation.handler(call)
        if isinstance(answer, Stream):
            return stream_response(answer.pieces, answer.status, answer.headers)
        if isinstance(answer, Handover):
            return handed_over(answer.take)
        reply = answer if isinstance(answer, Reply) else Reply(value=answer)
        return json_response(reply.value, operation.status, reply.headers)

    return OpenRoute(operation.path, endpoint, access=operation.access, method=operation.method)


def read_query(kind: type[S], sent: list[tuple[str, str]]) -> S:
    """Each parameter once; text becomes what the type says."""
    found: dict[str, str] = {}
    for name, value in sent:
        if name in found:
            raise CallerError("duplicate_key", f"The parameter {_cut(name)} was sent twice.", param=_cut(name))
        found[name] = value
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as reason:
        raise invalid_value(str(reason)) from None


async def read_body(operation: Operation, body: bytes, content_type: str) -> Struct:
    """A body that is empty is one without members."""
    if body and content_type.partition(";")[0].strip().lower() != JSON:
        message = "The request body must be JSON: send 'Content-Type: application/json'."
        raise CallerError("unsupported_media_type", message)
    if len(body) <= MAX_BYTES_ON_LOOP:
        return operation.read(body or b"{}", operation.body)
    return await asyncio.to_thread(operation.read, body, operation.body)


def decode_members(body: bytes, kind: type[S]) -> S:
    try:
        # From the text itself, for it says an amount of money exactly.
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as reason:
        raise invalid_value(str(reason)) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise CallerError("invalid_json", "The request body is not valid JSON.") from None


def invalid_value(reason: str) -> CallerError:
    """What is wrong by the types, with the place where it is."""
    found = _PLACE.fullmatch(reason)
    message, place = (found["message"], found["place"] or "") if found is not None else (reason, "")
    field = _FIELD.fullmatch(message)
    if field is None:
        return CallerError("invalid_value", f"{_cut(message)}.", param=_cut(place) or None)
    param = f"{place}.{field['name']}" if place else field["name"]
    if field["what"] == "missing required":
        return CallerError("missing_required_parameter", f"Missing: {_cut(param)}.", param=_cut(param))
    return CallerError("unknown_parameter", f"Unknown: {_cut(param)}.", param=_cut(param))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."
