"""What an operation of the API is: a value that says everything about it, for the router and the document alike.

A handler gets what was sent as types, already held against them: an unknown member is an error, not
a surprise (spec/security.md S19). It gives a value, which becomes JSON. Who may call it stands on the
operation, and has no default.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct
from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse

from streamweir.core.errors import CallerError
from streamweir.server.api.actor import Actor
from streamweir.server.api.context import Context
from streamweir.server.api.gate import actor_of
from streamweir.server.control import Access, OpenRoute, json_response, request_of
from streamweir.server.message import Headers, Request
from streamweir.wire.jsonio import decode_body

S = TypeVar("S", bound=Struct)
Q = TypeVar("Q")
B = TypeVar("B")
R = TypeVar("R")
T = TypeVar("T")

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


class Operation(Struct, frozen=True, kw_only=True):
    method: str
    path: str
    access: Access
    about: str
    handler: Callable[[Call[Any, Any]], Awaitable[object]]
    query: type[Struct] = Nothing
    body: type[Struct] = Nothing
    answer: Any
    """The type of what it gives."""
    status: int = 200
    most_bytes: int = MOST_BODY_BYTES

    @property
    def name(self) -> str:
        return self.handler.__name__


def route_of(operation: Operation, context: Context) -> OpenRoute:
    async def endpoint(http: HttpRequest) -> HttpResponse:
        body = await http.body()
        call = Call(
            context=context,
            actor=actor_of(http.scope),
            request=request_of(http.scope),
            path=dict(http.path_params),
            query=read_query(operation.query, http.query_params.multi_items()),
            body=read_body(operation, body, http.headers.get("content-type", "")),
            at_ms=context.clock_ms(),
        )
        answer = await operation.handler(call)
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
        raise complaint(str(reason)) from None


def read_body(operation: Operation, body: bytes, content_type: str) -> Struct:
    """A body that is empty is one without members."""
    if len(body) > operation.most_bytes:
        raise CallerError("request_too_large", f"The body is larger than {operation.most_bytes} bytes.")
    if body and content_type.partition(";")[0].strip().lower() != "application/json":
        message = "The request body must be JSON: send 'Content-Type: application/json'."
        raise CallerError("unsupported_media_type", message)
    decode_body(body or b"{}")  # refuses what two readers could read in two ways
    try:
        # From the text itself, for it says an amount of money exactly.
        return msgspec.json.decode(body or b"{}", type=operation.body)
    except msgspec.ValidationError as reason:
        raise complaint(str(reason)) from None
    except msgspec.DecodeError:
        raise CallerError("invalid_json", "The request body is not valid JSON.") from None


def complaint(reason: str) -> CallerError:
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
