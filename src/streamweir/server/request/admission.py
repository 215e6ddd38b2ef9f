"""Decides by the head of a request alone, before its body is read, whether it is admitted.

The checks have a fixed order: the path and the method (404, 405), whether the gateway accepts requests (503), the key
(401, 403), the form of the body (415), the rate (429, as far as it is known before the size of the request is). So a
body is never read, and no `100 Continue` is sent, for a request that cannot succeed. Nothing here waits.
"""

import ipaddress
import re
import time
from collections.abc import Iterator, Mapping
from enum import StrEnum

from msgspec import Struct

from streamweir.core.errors import CallerError, GatewayFault
from streamweir.frontends.base import Frontend
from streamweir.frontends.table import FRONTENDS, unknown_url
from streamweir.policy.access import Key, check, read_secret
from streamweir.server.accounting.accounting import Accounting
from streamweir.server.accounting.keys import KeyDirectory
from streamweir.server.http.answers import Refusal
from streamweir.server.http.message import Request
from streamweir.server.request.runtime.config import RuntimeConfig
from streamweir.server.request.tracing import new_trace
from streamweir.server.telemetry.record import RequestRecord
from streamweir.store.db.clock import now_ms

_MAX_ID = 200
_MAX_LEVELS = 4
"""Of a path that are looked at for the API that it belongs to."""
_CLIENT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Resource(StrEnum):
    CHAT = "chat"
    MODELS = "models"
    COUNT = "count_tokens"
    KEY = "key"
    GENERATIONS = "generations"
    STREAMS = "streams"


WITHOUT_BODY = frozenset({Resource.MODELS, Resource.KEY, Resource.GENERATIONS, Resource.STREAMS})
_METHODS = {Resource.CHAT: ("POST",), Resource.COUNT: ("POST",), Resource.STREAMS: ("GET", "DELETE")}
_OF_THE_KEY_ITSELF = frozenset({Resource.KEY, Resource.GENERATIONS, Resource.STREAMS})
"""For every valid key, whatever its scopes."""


class ResourcePath(Struct, frozen=True):
    """A path of the data plane. `item` is the id in `/v1/models/{id}`, `/v1/generations/{id}` or `/v1/streams/{id}`."""

    frontend: Frontend | None
    """None: the key's frontend, else the configured one."""
    resource: Resource | None
    item: str = ""


class Admission(Struct, frozen=True, kw_only=True):
    runtime: RuntimeConfig
    frontend: Frontend
    key: Key
    where: ResourcePath
    generation: int
    """Generation of the key directory when the key was found."""


def parse_path(path: str) -> ResourcePath | None:
    """None: the path does not belong to the data plane."""
    if path in FRONTENDS.by_path:
        return ResourcePath(FRONTENDS.by_path[path], Resource.CHAT)
    if path in FRONTENDS.by_count_path:
        return ResourcePath(FRONTENDS.by_count_path[path], Resource.COUNT)
    first, _, rest = path[1:].partition("/")
    frontend = FRONTENDS.by_prefix.get(first)
    if frontend is not None:
        first, _, rest = rest.partition("/")
    if first != "v1":
        return None
    # A path below one that only one API has belongs to that API, also behind a prefix.
    frontend = next(filter(None, map(FRONTENDS.by_path.get, _above(path))), frontend)
    if rest == "models" or rest.startswith("models/"):
        return ResourcePath(frontend, Resource.MODELS, rest.removeprefix("models").removeprefix("/"))
    if rest == "key":
        return ResourcePath(frontend, Resource.KEY)
    if rest.startswith("generations/"):
        return ResourcePath(frontend, Resource.GENERATIONS, rest.removeprefix("generations/"))
    if rest.startswith("streams/"):
        return ResourcePath(frontend, Resource.STREAMS, rest.removeprefix("streams/"))
    return ResourcePath(frontend, None)


def _above(path: str) -> Iterator[str]:
    """The paths above it, the nearest first."""
    for _ in range(_MAX_LEVELS):
        path = path.rpartition("/")[0]
        if not path:
            return
        yield path


def admit(
    request: Request,
    where: ResourcePath,
    runtime: RuntimeConfig,
    accounting: Accounting,
    closed: GatewayFault | None,
    now: float,
) -> Admission:
    """`closed`: why no request is admitted at the moment. Raises `Refusal`."""
    if where.resource is None:
        frontend = where.frontend or runtime.frontend
        raise Refusal(frontend.unknown_path(request.method, request.path) or unknown_url(request.method, request.path))
    allowed = _METHODS.get(where.resource, ("GET", "HEAD"))
    if request.method not in allowed:
        if request.headers.get("upgrade", "").lower() == "websocket":  # by this status Codex uses HTTP at once
            message = f"WebSockets are not served here: use {' or '.join(allowed)}."
            raise Refusal(CallerError("upgrade_required", message))
        error = CallerError("method_not_allowed", f"Not allowed here: {request.method}. Use {' or '.join(allowed)}.")
        raise Refusal(error, (("allow", ", ".join(allowed)),))
    if closed is not None:
        raise Refusal(closed)
    key = authenticate(request.headers, accounting.directory, now)
    return _admit_key(key, where.resource, where, request.headers, runtime, accounting)


def admit_as(
    key: Key,
    frontend: Frontend | None,
    headers: Mapping[str, str],
    runtime: RuntimeConfig,
    accounting: Accounting,
    closed: GatewayFault | None,
    now: float,
) -> Admission:
    """Admits a chat request for a key without its secret, as the playground needs it. Raises `Refusal`, as `admit`."""
    if closed is not None:
        raise Refusal(closed)
    _check_key(key, accounting.directory, now)
    return _admit_key(key, Resource.CHAT, ResourcePath(frontend, Resource.CHAT), headers, runtime, accounting)


def _admit_key(
    key: Key,
    resource: Resource,
    where: ResourcePath,
    headers: Mapping[str, str],
    runtime: RuntimeConfig,
    accounting: Accounting,
) -> Admission:
    scope = Resource.CHAT if resource is Resource.COUNT else resource
    if scope not in key.scopes and scope not in _OF_THE_KEY_ITSELF:
        raise Refusal(CallerError("insufficient_permissions", f"This key has no scope '{scope}'."))
    if resource is Resource.COUNT:
        _check_body_format(headers)
    elif resource is Resource.CHAT:
        _check_body_format(headers)
        if "idempotency-key" not in headers:  # it may repeat another request, and is checked later if it does not
            accounting.check_rate(key)
    return Admission(
        runtime=runtime,
        frontend=where.frontend or _frontend_of_client(where, headers) or own_frontend(key) or runtime.frontend,
        key=key,
        where=where,
        generation=accounting.directory.generation,
    )


def authenticate(headers: Mapping[str, str], directory: KeyDirectory, now: float) -> Key:
    secret = read_secret(headers)
    if secret is None:
        raise Refusal(CallerError("missing_api_key", "No API key was sent: use 'Authorization: Bearer KEY'."))
    key = directory.find(secret, now)
    if key is None:
        raise Refusal(CallerError("invalid_api_key", "The API key is not valid."))
    _check_key(key, directory, now)
    return key


def _check_key(key: Key, directory: KeyDirectory, now: float) -> None:
    error = check(key, now) or directory.stale_reason(key)
    if error is not None:
        raise Refusal(error)


def frontend_of(request: Request, runtime: RuntimeConfig, directory: KeyDirectory) -> Frontend:
    """The frontend for the answer to a request that was not admitted: by its path, else by a header that only clients
    of one API send, else by its key if that is valid."""
    where = parse_path(request.path)
    frontend = None if where is None else where.frontend or _frontend_of_client(where, request.headers)
    if frontend is not None:
        return frontend
    key = key_of(request, directory)
    return (own_frontend(key) if key is not None else None) or runtime.frontend


def _frontend_of_client(where: ResourcePath, headers: Mapping[str, str]) -> Frontend | None:
    """Not for a chat: its path determines the API, or several dialects share it."""
    if where.resource is Resource.CHAT:
        return None
    return next((each for header, each in FRONTENDS.by_client_header.items() if header in headers), None)


def key_of(request: Request, directory: KeyDirectory) -> Key | None:
    """The key of the secret that was sent, valid or not."""
    secret = read_secret(request.headers)
    return directory.find(secret) if secret is not None else None


def peer_of(request: Request, runtime: RuntimeConfig) -> str:
    """The caller's address: the peer of the connection or, if that is a trusted proxy, the address that it reports."""
    trusted = runtime.config.server.trusted_proxies
    if not trusted or not _is_in(request.peer, trusted):
        return request.peer
    named = [part.strip() for part in request.headers.get("x-forwarded-for", "").split(",") if part.strip()]
    for address in reversed(named):
        if not _is_address(address):
            break
        if not _is_in(address, trusted):
            return address
    return request.peer


def is_local(request: Request) -> bool:
    """Whether it comes from this machine, and not through a proxy."""
    if "x-forwarded-for" in request.headers or "forwarded" in request.headers:
        return False
    return _is_in(request.peer, ("127.0.0.0/8", "::1/128"))


def client_id_of(request: Request) -> str | None:
    sent = request.headers.get("x-request-id", "")
    return _without_key(sent, request) if _CLIENT_ID.fullmatch(sent) else None


def _without_key(text: str, request: Request) -> str:
    """Masks the key in a header where some clients put it by mistake."""
    secret = read_secret(request.headers)
    return text if secret is None or secret not in text else text.replace(secret, "***")


def new_record(request: Request, runtime: RuntimeConfig, frontend: Frontend, key: Key | None) -> RequestRecord:
    """The record of a new request."""
    age_s = time.monotonic() - request.arrived_s
    client = request.headers.get("user-agent")
    record = RequestRecord(
        id=request.id,
        client_id=client_id_of(request),
        method=request.method,
        path=request.path,
        peer=peer_of(request, runtime),
        client=_without_key(client, request) if client is not None else None,
        dialect=frontend.name,
        key=key.name if key is not None else None,
        key_id=key.id if key is not None else None,
        workspace_id=key.workspace_id if key is not None else None,
        at_ms=now_ms() - round(age_s * 1000),
        arrived_s=request.arrived_s,
        duration_s=age_s,
        bytes_in=len(request.body) if key is not None else 0,
    )
    if key is None:
        record.has_row = parse_path(request.path) is not None
    elif runtime.tracing is not None:
        record.trace = new_trace(runtime.tracing, request.headers)
    if frontend.logged_headers:
        record.client_ids = _client_ids_of(request, frontend.logged_headers)
    return record


def _client_ids_of(request: Request, names: tuple[str, ...]) -> dict[str, str]:
    sent = {name: request.headers.get(name, "") for name in names}
    return {name: _without_key(value[:_MAX_ID], request) for name, value in sent.items() if value}


def _check_body_format(headers: Mapping[str, str]) -> None:
    if headers.get("content-encoding", "identity").lower() != "identity":
        message = "The request body must not be compressed."
        raise Refusal(CallerError("unsupported_content_encoding", message))
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        message = "The request body must be JSON: send 'Content-Type: application/json'."
        raise Refusal(CallerError("unsupported_media_type", message))


def own_frontend(key: Key) -> Frontend | None:
    return FRONTENDS.by_name[key.dialect] if key.dialect is not None else None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_in(address: str, networks: tuple[str, ...]) -> bool:
    if not _is_address(address):
        return False
    found = ipaddress.ip_address(address)
    return any(found in ipaddress.ip_network(network, strict=False) for network in networks)
