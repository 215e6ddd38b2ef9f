"""Sends the requests of a plan to an endpoint and records the answers: every byte, with its time of arrival.

This is the only module of the checker that uses a socket. It sends one request at a time, on one connection if the
endpoint keeps it open. Limits apply to the number of requests, to the time of each and of all, and to the size of an
answer. Rules are not evaluated here. The key is sent in one header. If an answer repeats the key, the recording and
the failure messages contain asterisks instead.
"""

import asyncio
import re
from collections.abc import Callable
from typing import NamedTuple

import httpx2
from msgspec import Struct, structs

from streamweir import __version__
from streamweir.conformance.plan import CHAT_PLAN, KeyUse, Plan, ProbeRequest, RequestOptions
from streamweir.conformance.probe_session import FailureKind, ObservedExchange, ProbeSession
from streamweir.conformance.recording import Piece, Recording, RequestInfo
from streamweir.wire import jsonio

_UNKNOWN_PATH = "/streamweir-check-nothing-is-here"
_WRONG_KEY = "sk-streamweir-check-a-key-that-nobody-has"
_MIN_SECRET_LENGTH = 8
"""A shorter key (`none`, `x`) is not secret, and is part of many words."""
_FRAMES_TO_BEGIN = 2
"""A request that cancels closes the connection after this many frames."""
_FRAME_END = re.compile(rb"\n\n|\r\n\r\n|\r\r")
_MAX_VARIANTS = 4
_STOPPED_BY_US = (FailureKind.TIMED_OUT, FailureKind.TOO_LARGE, FailureKind.UNDECODABLE)


class InvalidAddress(ValueError):
    """The address cannot be used. The text is shown to the user."""


class ProbeLimits(Struct, frozen=True, kw_only=True):
    requests: int = 32
    total_s: float = 180.0
    answer_s: float = 60.0
    answer_bytes: int = 1024 * 1024


class Endpoint(NamedTuple):
    url: httpx2.URL
    unknown_path: httpx2.URL
    """An address of the same server at which nothing is served."""

    @property
    def shown_url(self) -> str:
        """Without the query, which may contain a secret."""
        return str(self.url.copy_with(query=None))


def find_endpoint(text: str, api: Plan = CHAT_PLAN) -> Endpoint:
    """Accepts the address of the endpoint, its base URL (`https://host/v1`), or the host alone."""
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL as reason:
        raise InvalidAddress(f"not an address: {reason}") from None
    if url.scheme not in ("http", "https") or not url.host or not 0 < (url.port or 80) < 65_536:
        raise InvalidAddress("an address begins with http:// or https://, and has a host, and a port below 65536")
    if url.userinfo:
        raise InvalidAddress("an address with a name or a password in it is not used: give the key with --key")
    path = api.path
    base = url.path.rstrip("/").removesuffix(path) or ("" if url.path.rstrip("/") == path else "/v1")
    url = url.copy_with(fragment=None)
    return Endpoint(url.copy_with(path=base + path), url.copy_with(path=base + _UNKNOWN_PATH))


async def probe(
    endpoint: Endpoint,
    model: str,
    key: str | None = None,
    limits: ProbeLimits = ProbeLimits(),  # noqa: B008 (a frozen value)
    on_request: Callable[[str], None] = lambda _: None,
    api: Plan = CHAT_PLAN,
) -> ProbeSession:
    """Sends all requests of the plan. `on_request` is called with the name of each request before it is sent."""
    async with httpx2.AsyncClient(timeout=None, follow_redirects=False) as client:
        return await _Prober(client, endpoint, key, limits, on_request, api).run(api.options(model))


class _Prober:
    def __init__(
        self,
        client: httpx2.AsyncClient,
        endpoint: Endpoint,
        key: str | None,
        limits: ProbeLimits,
        on_request: Callable[[str], None],
        api: Plan,
    ) -> None:
        self._client = client
        self._endpoint = endpoint
        self._key = key
        self._limits = limits
        self._on_request = on_request
        self._plan = api.requests
        self._clock = asyncio.get_running_loop().time
        self._deadline = self._clock() + limits.total_s
        self._sent = 0
        self._connections: dict[object, int] = {}

    async def run(self, options: RequestOptions) -> ProbeSession:
        exchanges: list[ObservedExchange] = []
        not_sent: dict[str, str] = {}
        first, options = await self._send_first(options)
        if first is not None:
            exchanges.append(first)
        has_begun = first is not None and first.recording is not None and first.recording.status == 200
        for probe_request in self._plan(options)[len(exchanges) :]:
            reason = self._why_stopped() if has_begun else "the first request was not answered well"
            if reason is not None:
                not_sent[probe_request.name] = reason
            else:
                exchanges.append(await self._send(probe_request))
        return ProbeSession(exchanges, not_sent, request_count=self._sent)

    async def _send_first(self, options: RequestOptions) -> tuple[ObservedExchange | None, RequestOptions]:
        """Sends the first request, again with other options if the endpoint refuses it and names a member."""
        exchange: ObservedExchange | None = None
        for _ in range(_MAX_VARIANTS):
            if self._why_stopped() is not None:
                break
            exchange = await self._send(self._plan(options)[0])
            recording = exchange.recording
            if recording is None or recording.status not in (400, 422):
                break
            other = options.without(recording.body.decode(errors="replace"))
            if other is None:
                break
            options = other
        return exchange, options

    def _why_stopped(self) -> str | None:
        if self._sent >= self._limits.requests:
            return f"only {self._limits.requests} requests were allowed"
        if self._clock() >= self._deadline:
            return f"the {self._limits.total_s:g} s were over"
        return None

    async def _send(self, probe_request: ProbeRequest) -> ObservedExchange:
        exchange = await self._send_once(probe_request)
        if exchange.failure_kind is FailureKind.CUT and exchange.recording is None and self._why_stopped() is None:
            # The endpoint may close a kept connection at the moment when it is reused: one repetition is allowed.
            return await self._send_once(probe_request)
        return exchange

    async def _send_once(self, probe_request: ProbeRequest) -> ObservedExchange:
        self._sent += 1
        self._on_request(probe_request.name)
        recorder = _ResponseRecorder(probe_request, self._limits.answer_bytes, self._clock)
        failure_kind, failure = None, None
        request = self._build_request(probe_request)
        try:
            async with asyncio.timeout_at(min(self._clock() + self._limits.answer_s, self._deadline)):
                await self._receive(request, recorder)
        except TimeoutError:
            failure_kind, failure = FailureKind.TIMED_OUT, "it did not come to its end in the time that it was given"
        except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError) as reason:
            detail = f" ({reason})" if str(reason) else ""
            failure_kind, failure = FailureKind.CUT, f"the endpoint broke off{detail}"
        except httpx2.DecodingError:
            failure_kind, failure = FailureKind.UNDECODABLE, "its content encoding cannot be undone"
        except httpx2.TransportError as reason:
            failure_kind, failure = FailureKind.UNREACHABLE, f"the endpoint cannot be reached ({reason})"
        if recorder.is_too_large:
            failure_kind, failure = FailureKind.TOO_LARGE, f"it is larger than {self._limits.answer_bytes} bytes"
        return self._exchange(probe_request, request.content, recorder, failure_kind, failure)

    def _build_request(self, probe_request: ProbeRequest) -> httpx2.Request:
        headers = {
            "accept": "text/event-stream, application/json",
            "accept-encoding": "identity",
            "user-agent": f"streamweir-check/{__version__}",
        }
        content = probe_request.body if isinstance(probe_request.body, bytes) else None
        if isinstance(probe_request.body, dict):
            content = jsonio.encode(probe_request.body)
        if content is not None:
            headers["content-type"] = "application/json"
        if probe_request.origin is not None:
            headers["origin"] = probe_request.origin
        secret = self._key_for(probe_request)
        headers |= dict(probe_request.headers)
        if secret is not None:
            is_bearer = probe_request.key_header == "authorization"
            headers[probe_request.key_header] = f"Bearer {secret}" if is_bearer else secret
        url = self._endpoint.unknown_path if probe_request.is_unknown_path else self._endpoint.url
        url = url.copy_with(path=url.path + probe_request.path)
        return self._client.build_request(probe_request.method, url, content=content, headers=headers)

    def _key_for(self, probe_request: ProbeRequest) -> str | None:
        return {KeyUse.OWN: self._key, KeyUse.WRONG: _WRONG_KEY, KeyUse.NONE: None}[probe_request.key]

    async def _receive(self, request: httpx2.Request, recorder: "_ResponseRecorder") -> None:
        response = await self._client.send(request, stream=True)
        try:
            recorder.begin(response, self._connection(response))
            async for piece in response.aiter_bytes():
                if not recorder.add_piece(piece):
                    return
            recorder.is_whole = True
        finally:
            await response.aclose()  # before the end of an answer, this closes the connection
            recorder.end()

    def _connection(self, response: httpx2.Response) -> int | None:
        """A number per connection: each has its own local port."""
        stream = response.extensions.get("network_stream")
        address = stream.get_extra_info("client_addr") if stream is not None else None
        return self._connections.setdefault(address, len(self._connections)) if address is not None else None

    def _exchange(
        self,
        probe_request: ProbeRequest,
        sent: bytes,
        recorder: "_ResponseRecorder",
        failure_kind: FailureKind | None,
        failure: str | None,
    ) -> ObservedExchange:
        secrets = [text for text in (self._key_for(probe_request), self._key) if text is not None]
        recording = recorder.recording(stopped_by_us=failure_kind in _STOPPED_BY_US)
        unmasked = recording
        for secret in secrets:
            recording = _mask_recording(recording, secret) if recording is not None else None
            failure = _mask_text(failure, secret) if failure is not None else None
        return ObservedExchange(
            name=probe_request.name,
            probe_request=probe_request,
            request=sent,
            recording=recording,
            failure=failure,
            failure_kind=failure_kind,
            connection=recorder.connection,
            leaked_key=recording != unmasked,
        )


class _ResponseRecorder:
    """Collects one answer while it is received."""

    def __init__(self, probe_request: ProbeRequest, max_bytes: int, clock: Callable[[], float]) -> None:
        self.connection: int | None = None
        self.is_whole = False
        self.is_too_large = False
        self._probe_request = probe_request
        self._max_bytes = max_bytes
        self._clock = clock
        self._began_s = clock()
        self._ended_s: float | None = None
        self._status: int | None = None
        self._headers: tuple[tuple[str, str], ...] = ()
        self._body = bytearray()
        self._pieces: list[Piece] = []

    def begin(self, response: httpx2.Response, connection: int | None) -> None:
        self._status = response.status_code
        self._headers = tuple((name.lower(), value) for name, value in response.headers.multi_items())
        self.connection = connection

    def add_piece(self, piece: bytes) -> bool:
        """Returns whether to read on."""
        if not piece:
            return True
        self._pieces.append(Piece(len(self._body), self._clock() - self._began_s))
        self._body += piece
        if len(self._body) > self._max_bytes:
            self.is_too_large = True
            del self._body[self._max_bytes :]
        return not self.is_too_large and not (self._probe_request.cancels and self._has_begun)

    @property
    def _has_begun(self) -> bool:
        return len(_FRAME_END.findall(self._body)) >= _FRAMES_TO_BEGIN

    def end(self) -> None:
        self._ended_s = self._clock() - self._began_s

    def recording(self, *, stopped_by_us: bool) -> Recording | None:
        """None if no answer has begun. `stopped_by_us`: the endpoint is not the reason why it is incomplete."""
        if self._status is None:
            return None
        return Recording(
            body=bytes(self._body),
            name=self._probe_request.name,
            request=_request_info(self._probe_request),
            status=self._status,
            headers=self._headers,
            pieces=tuple(self._pieces),
            ended_s=self._ended_s,
            was_cut=stopped_by_us or (self._probe_request.cancels and not self.is_whole),
        )


def _request_info(probe_request: ProbeRequest) -> RequestInfo:
    if not isinstance(probe_request.body, dict):
        return RequestInfo()
    model, choices = probe_request.body.get("model"), probe_request.body.get("n", 1)
    return RequestInfo(
        stream=probe_request.is_streamed,
        include_usage=probe_request.includes_usage,
        model=model if isinstance(model, str) else None,
        choices=choices if isinstance(choices, int) else None,
        tools="tools" in probe_request.body,
        logprobs=False,
    )


def _mask_recording(recording: Recording, secret: str) -> Recording:
    """Replaces the secret by as many asterisks, so that the offsets of all other bytes stay the same."""
    if len(secret) < _MIN_SECRET_LENGTH:
        return recording
    mask = "*" * len(secret)
    headers = tuple((name, value.replace(secret, mask)) for name, value in recording.headers or ())
    body = recording.body.replace(secret.encode(), mask.encode())
    return structs.replace(recording, body=body, headers=headers)


def _mask_text(text: str, secret: str) -> str:
    return text if len(secret) < _MIN_SECRET_LENGTH else text.replace(secret, "***")
