"""An operation of the API as a value: the router and the OpenAPI document use the same one.

A handler gets validated, typed parameters: an unknown member is an error (docs/spec/security.md S19). It returns a
value, which becomes JSON, or a `Stream`, or delegates the answer to another function. Every operation declares who may
call it; there is no default.
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
from streamweir.core.text import cut
from streamweir.policy.permission import Permission
from streamweir.server.control.api.actor import Actor
from streamweir.server.control.api.authentication import actor_of
from streamweir.server.control.api.context import Context
from streamweir.server.control.routing import (
    Access,
    OpenRoute,
    body_of,
    delegated_response,
    json_response,
    request_of,
    stream_response,
)
from streamweir.server.http.asgi import RequestDelegate
from streamweir.server.http.message import Headers, Request
from streamweir.server.request.body_parsing import MAX_BYTES_ON_LOOP
from streamweir.wire.jsonio import decode_body

S = TypeVar("S", bound=Struct)
Q = TypeVar("Q")
B = TypeVar("B")
R = TypeVar("R")
T = TypeVar("T")

JSON = "application/json"
MAX_BODY_BYTES = 1 << 20
_MAX_TEXT_LENGTH = 160
"""The maximum length of a value that is repeated in a message."""
_PLACE = re.compile(r"(?P<message>.*?)(?: - at `\$\.?(?P<place>[^`]*)`)?", re.DOTALL)
_FIELD = re.compile(r"Object (?P<what>contains unknown|missing required) field `(?P<name>.*)`", re.DOTALL)


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """No members."""


class Page(Struct, Generic[T], kw_only=True):
    """`next`: the parameter for the next page, if there is one."""

    data: list[T]
    next: str | int | None = None


def page_of(rows: Sequence[R], limit: int, view: Callable[[R], T], mark: Callable[[R], str | int]) -> Page[T]:
    """`rows` has one row more than the page if there is a next page: `mark` of the last row that is shown leads to
    it."""
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
    """An answer with its own headers."""

    value: object
    headers: Headers = ()


class Stream(Struct, frozen=True, kw_only=True):
    """An answer in pieces. Errors must be found before it starts: after that they can only cut it."""

    pieces: AsyncGenerator[bytes, None]
    headers: Headers
    """Including its `content-type`."""
    status: int = 200


class Delegated(Struct, frozen=True, kw_only=True):
    """The answer is sent by another function, with the original request and response."""

    handler: RequestDelegate


def read_members(body: bytes, kind: type[S]) -> S:
    decode_body(body)  # refuses a body that two parsers could read differently
    return decode_members(body, kind)


class Operation(Struct, frozen=True, kw_only=True):
    method: str
    path: str
    access: Access | Permission
    about: str
    handler: Callable[[Call[Any, Any]], Awaitable[object]]
    query: type[Struct] = Nothing
    body: type[Struct] = Nothing
    answer: Any
    """The type of its JSON answer."""
    media: tuple[str, ...] = (JSON,)
    """The media types of its answer. Except for JSON it is text, for any `answer`."""
    status: int = 200
    max_body_bytes: int | None = MAX_BODY_BYTES
    """None: the limit for all requests."""
    read: Callable[[bytes, type[Struct]], Struct] = read_members
    """Parses the body into members; in a thread if it is large."""

    @property
    def name(self) -> str:
        return self.handler.__name__


def route_of(operation: Operation, context: Context) -> OpenRoute:
    async def endpoint(http: HttpRequest) -> HttpResponse:
        body = await body_of(http, operation.max_body_bytes) if operation.method != "GET" else b""
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
        if isinstance(answer, Delegated):
            return delegated_response(answer.handler)
        reply = answer if isinstance(answer, Reply) else Reply(value=answer)
        return json_response(reply.value, operation.status, reply.headers)

    return OpenRoute(operation.path, endpoint, access=operation.access, method=operation.method)


def read_query(kind: type[S], sent: list[tuple[str, str]]) -> S:
    """Each parameter at most once; text is converted to the declared type."""
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
    """An empty body has no members."""
    if body and content_type.partition(";")[0].strip().lower() != JSON:
        message = "The request body must be JSON: send 'Content-Type: application/json'."
        raise CallerError("unsupported_media_type", message)
    if len(body) <= MAX_BYTES_ON_LOOP:
        return operation.read(body or b"{}", operation.body)
    return await asyncio.to_thread(operation.read, body, operation.body)


def decode_members(body: bytes, kind: type[S]) -> S:
    try:
        # From the text itself, because it has an amount of money exactly.
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as reason:
        raise invalid_value(str(reason)) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise CallerError("invalid_json", "The request body is not valid JSON.") from None


def invalid_value(reason: str) -> CallerError:
    """A validation error with the path of the value."""
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
    return cut(text, _MAX_TEXT_LENGTH)
