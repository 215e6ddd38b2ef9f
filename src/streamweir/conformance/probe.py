"""Sends the requests of a plan to an endpoint and writes down what comes back: every byte, and when it came.

The only part of the checker that touches a socket. One request at a time, on one connection where the endpoint
keeps it. Everything is bounded: how many requests, how long each and all of them, how much of an answer is read.
Nothing here judges. The key goes into one header; wherever an answer repeats it, the recording has stars in its
place, and so has every sentence about a failure.
"""

import asyncio
import re
from collections.abc import Callable
from typing import NamedTuple

import httpx2
from msgspec import Struct, structs

from streamweir import __version__
from streamweir.conformance.plan import KeyUse, ProbeRequest, RequestOptions, plan
from streamweir.conformance.probe_session import Loss, ObservedExchange, ProbeSession
from streamweir.conformance.recording import Asked, Piece, Recording
from streamweir.wire import jsonio

_PATH = "/chat/completions"
_NOWHERE = "/streamweir-check-nothing-is-here"
_WRONG_KEY = "sk-streamweir-check-a-key-that-nobody-has"
_SHORTEST_SECRET = 8
"""A shorter key (`none`, `x`) is no secret, and stands in many words."""
_BEGUN = 2
"""Frames after which an answer that is to be left has begun."""
_FRAME_END = re.compile(rb"\n\n|\r\n\r\n|\r\r")
_MOST_MANNERS = 4


class WrongAddress(ValueError):
    """The address cannot be asked. The text is for the person who typed it."""


class Bounds(Struct, frozen=True, kw_only=True):
    requests: int = 32
    total_s: float = 180.0
    answer_s: float = 60.0
    answer_bytes: int = 1024 * 1024


class Endpoint(NamedTuple):
    url: httpx2.URL
    nowhere: httpx2.URL
    """Beside it, where nothing is."""

    @property
    def shown(self) -> str:
        """Without what may be secret in an address."""
        return str(self.url.copy_with(query=None))


def find_endpoint(text: str) -> Endpoint:
    """From the address of the endpoint itself or of what it is below: `https://host/v1`, or the host alone."""
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL as reason:
        raise WrongAddress(f"not an address: {reason}") from None
    if url.scheme not in ("http", "https") or not url.host or not 0 < (url.port or 80) < 65_536:
        raise WrongAddress("an address begins with http:// or https://, and has a host, and a port below 65536")
    if url.userinfo:
        raise WrongAddress("an address with a name or a password in it is not used: give the key with --key")
    base = url.path.rstrip("/").removesuffix(_PATH) or ("" if url.path.rstrip("/") == _PATH else "/v1")
    url = url.copy_with(fragment=None)
    return Endpoint(url.copy_with(path=base + _PATH), url.copy_with(path=base + _NOWHERE))


async def interview(
    endpoint: Endpoint,
    model: str,
    key: str | None = None,
    bounds: Bounds = Bounds(),  # noqa: B008 (a frozen value)
    told: Callable[[str], None] = lambda _: None,
) -> ProbeSession:
    """`told` hears the name of each request before it is sent."""
    async with httpx2.AsyncClient(timeout=None, follow_redirects=False) as client:
        return await _Prober(client, endpoint, key, bounds, told).run(RequestOptions(model=model))


class _Prober:
    def __init__(
        self,
        client: httpx2.AsyncClient,
        endpoint: Endpoint,
        key: str | None,
        bounds: Bounds,
        told: Callable[[str], None],
    ) -> None:
        self._client = client
        self._endpoint = endpoint
        self._key = key
        self._bounds = bounds
        self._told = told
        self._clock = asyncio.get_running_loop().time
        self._ends_s = self._clock() + bounds.total_s
        self._sent = 0
        self._connections: dict[object, int] = {}

    async def run(self, manner: RequestOptions) -> ProbeSession:
        heard: list[ObservedExchange] = []
        unasked: dict[str, str] = {}
        first, manner = await self._first(manner)
        if first is not None:
            heard.append(first)
        has_begun = first is not None and first.recording is not None and first.recording.status == 200
        for ask in plan(manner)[len(heard) :]:
            reason = self._why_not() if has_begun else "the first request was not answered well"
            if reason is not None:
                unasked[ask.name] = reason
            else:
                heard.append(await self._put(ask))
        return ProbeSession(heard, unasked, sent=self._sent)

    async def _first(self, manner: RequestOptions) -> tuple[ObservedExchange | None, RequestOptions]:
        """The first request, again in another manner where the endpoint's refusal says which member is at fault."""
        heard: ObservedExchange | None = None
        for _ in range(_MOST_MANNERS):
            if self._why_not() is not None:
                break
            heard = await self._put(plan(manner)[0])
            recording = heard.recording
            if recording is None or recording.status not in (400, 422):
                break
            other = manner.without(recording.body.decode(errors="replace"))
            if other is None:
                break
            manner = other
        return heard, manner

    def _why_not(self) -> str | None:
        if self._sent >= self._bounds.requests:
            return f"only {self._bounds.requests} requests were allowed"
        if self._clock() >= self._ends_s:
            return f"the {self._bounds.total_s:g} s were over"
        return None

    async def _put(self, ask: ProbeRequest) -> ObservedExchange:
        heard = await self._put_once(ask)
        if heard.loss is Loss.CUT and heard.recording is None and self._why_not() is None:
            # A kept connection may be closed in the very moment in which it is used again: nobody's fault, once.
            return await self._put_once(ask)
        return heard

    async def _put_once(self, ask: ProbeRequest) -> ObservedExchange:
        self._sent += 1
        self._told(ask.name)
        taking = _Taking(ask, self._bounds.answer_bytes, self._clock)
        loss, failure = None, None
        request = self._request(ask)
        try:
            async with asyncio.timeout_at(min(self._clock() + self._bounds.answer_s, self._ends_s)):
                await self._take(request, taking)
        except TimeoutError:
            loss, failure = Loss.LATE, "it did not come to its end in the time that it was given"
        except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError) as reason:
            loss, failure = Loss.CUT, f"the endpoint broke off ({reason})" if str(reason) else "the endpoint broke off"
        except httpx2.DecodingError:
            loss, failure = Loss.CODED, "its content encoding cannot be undone"
        except httpx2.TransportError as reason:
            loss, failure = Loss.UNREACHABLE, f"the endpoint cannot be reached ({reason})"
        if taking.is_too_large:
            loss, failure = Loss.LARGE, f"it is larger than {self._bounds.answer_bytes} bytes"
        return self._heard(ask, request.content, taking, loss, failure)

    def _request(self, ask: ProbeRequest) -> httpx2.Request:
        headers = {
            "accept": "text/event-stream, application/json",
            "accept-encoding": "identity",
            "user-agent": f"streamweir-check/{__version__}",
        }
        content = ask.body if isinstance(ask.body, bytes) else None
        if isinstance(ask.body, dict):
            content = jsonio.encode(ask.body)
        if content is not None:
            headers["content-type"] = "application/json"
        if ask.origin is not None:
            headers["origin"] = ask.origin
        secret = self._secret(ask)
        if secret is not None:
            headers["authorization"] = f"Bearer {secret}"
        url = self._endpoint.nowhere if ask.is_elsewhere else self._endpoint.url
        return self._client.build_request(ask.method, url, content=content, headers=headers)

    def _secret(self, ask: ProbeRequest) -> str | None:
        return {KeyUse.OWN: self._key, KeyUse.WRONG: _WRONG_KEY, KeyUse.NONE: None}[ask.key]

    async def _take(self, request: httpx2.Request, taking: "_Taking") -> None:
        response = await self._client.send(request, stream=True)
        try:
            taking.begin(response, self._connection(response))
            async for piece in response.aiter_bytes():
                if not taking.wants_more(piece):
                    return
            taking.is_whole = True
        finally:
            await response.aclose()  # within an answer, this closes the connection
            taking.end()

    def _connection(self, response: httpx2.Response) -> int | None:
        """Each has a port of its own on this side."""
        stream = response.extensions.get("network_stream")
        address = stream.get_extra_info("client_addr") if stream is not None else None
        return self._connections.setdefault(address, len(self._connections)) if address is not None else None

    def _heard(
        self, ask: ProbeRequest, sent: bytes, taking: "_Taking", loss: Loss | None, failure: str | None
    ) -> ObservedExchange:
        secrets = [text for text in (self._secret(ask), self._key) if text is not None]
        recording = taking.recording(is_ours=loss in (Loss.LATE, Loss.LARGE, Loss.CODED))
        clear = recording
        for secret in secrets:
            recording = _masked(recording, secret) if recording is not None else None
            failure = _starred(failure, secret) if failure is not None else None
        return ObservedExchange(
            name=ask.name,
            ask=ask,
            request=sent,
            recording=recording,
            failure=failure,
            loss=loss,
            connection=taking.connection,
            has_leaked=recording != clear,
        )


class _Taking:
    """An answer in the making."""

    def __init__(self, ask: ProbeRequest, most_bytes: int, clock: Callable[[], float]) -> None:
        self.connection: int | None = None
        self.is_whole = False
        self.is_too_large = False
        self._ask = ask
        self._most_bytes = most_bytes
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

    def wants_more(self, piece: bytes) -> bool:
        if not piece:
            return True
        self._pieces.append(Piece(len(self._body), self._clock() - self._began_s))
        self._body += piece
        if len(self._body) > self._most_bytes:
            self.is_too_large = True
            del self._body[self._most_bytes :]
        return not self.is_too_large and not (self._ask.leaves and self._has_begun)

    @property
    def _has_begun(self) -> bool:
        return len(_FRAME_END.findall(self._body)) >= _BEGUN

    def end(self) -> None:
        self._ended_s = self._clock() - self._began_s

    def recording(self, *, is_ours: bool) -> Recording | None:
        """None: no answer has begun. `is_ours`: that it stopped is no fault of the endpoint's."""
        if self._status is None:
            return None
        return Recording(
            body=bytes(self._body),
            name=self._ask.name,
            asked=_asked(self._ask),
            status=self._status,
            headers=self._headers,
            pieces=tuple(self._pieces),
            ended_s=self._ended_s,
            was_cut=is_ours or (self._ask.leaves and not self.is_whole),
        )


def _asked(ask: ProbeRequest) -> Asked:
    if not isinstance(ask.body, dict):
        return Asked()
    model, choices = ask.body.get("model"), ask.body.get("n", 1)
    return Asked(
        stream=ask.is_streamed,
        include_usage=ask.includes_usage,
        model=model if isinstance(model, str) else None,
        choices=choices if isinstance(choices, int) else None,
        tools="tools" in ask.body,
        logprobs=False,
    )


def _masked(recording: Recording, secret: str) -> Recording:
    """With stars where the secret stood: as many, so that every other byte keeps its place."""
    if len(secret) < _SHORTEST_SECRET:
        return recording
    stars = "*" * len(secret)
    headers = tuple((name, value.replace(secret, stars)) for name, value in recording.headers or ())
    body = recording.body.replace(secret.encode(), stars.encode())
    return structs.replace(recording, body=body, headers=headers)


def _starred(text: str, secret: str) -> str:
    return text if len(secret) < _SHORTEST_SECRET else text.replace(secret, "***")
