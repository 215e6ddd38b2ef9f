"""An upstream whose requests need headers that are made for each of them: a signature, or a token that expires.

    request -> Authorizer.headers_for -> Http1Upstream -> answer, directly to the receiver

The authorizer's headers replace those of the request with the same names; the operator's replace both. If the provider
refuses them as invalid or expired (`is_refusal`), the authorizer gets others, and the request is sent once more, before
the receiver has been called. Else the receiver gets the refusal, unchanged. Once the head of an answer is accepted, its
body goes from the connection to the receiver: no call of this module per chunk.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from msgspec import structs

from streamweir.core.call_trace import CallTrace
from streamweir.core.errors import GatewayFault, StreamweirError
from streamweir.providers.base import UpstreamRequest
from streamweir.upstream.base import Receiver, Upstream
from streamweir.upstream.credential import RefreshedCredential
from streamweir.upstream.head import Fields
from streamweir.upstream.http1 import Http1Call, Http1Upstream

_STALE = ("expiredtoken", "unrecognizedclient", "invalidclienttokenid")
"""How AWS names a refusal that other credentials can avert. The status (403, of some services 400) is that of many."""


class Authorizer(Protocol):
    async def headers_for(self, request: UpstreamRequest, /) -> Fields:
        """Raises `StreamweirError` if there is no valid credential."""
        ...

    async def refused(self) -> bool:
        """The provider has refused its headers. Waits for a new credential; False if there is none."""
        ...

    async def close(self) -> None:
        """Requests that began earlier may still ask for headers."""
        ...


class BearerAuthorizer:
    """`authorization: Bearer TOKEN`, and headers that do not change."""

    def __init__(self, token: RefreshedCredential[str], more: Fields = ()) -> None:
        self._token = token
        self._more = more

    async def headers_for(self, _request: UpstreamRequest, /) -> Fields:
        return (("authorization", f"Bearer {await self._token.get()}"), *self._more)

    async def refused(self) -> bool:
        return await self._token.refused()

    async def close(self) -> None:
        await self._token.close()


class AuthorizedUpstream:
    """See `upstream.base.Upstream`."""

    def __init__(self, inner: Http1Upstream, authorizer: Authorizer) -> None:
        self.inner = inner
        self._authorizer = authorizer

    async def open(self, request: UpstreamRequest, receiver: Receiver, /) -> "AuthorizedCall":
        call = AuthorizedCall(self.inner, self._authorizer, request, receiver)
        await call.open()
        return call

    async def close(self) -> None:
        await self.inner.close()
        await self._authorizer.close()


def connections_in(upstream: Upstream) -> Http1Upstream | None:
    """The upstream with the connections, if it has any."""
    if isinstance(upstream, AuthorizedUpstream):
        return upstream.inner
    return upstream if isinstance(upstream, Http1Upstream) else None


def is_refusal(status: int, headers: Mapping[str, str]) -> bool:
    """The provider refuses the credential as invalid or expired: another one may be accepted."""
    if status in (403, 400):
        name = headers.get("x-amzn-errortype", "").lower()
        return name.startswith(_STALE)
    return status == 401


class AuthorizedCall:
    """See `upstream.base.Call`; until the head of the answer, and while a refusal is held, also the receiver."""

    __slots__ = (
        "_authorizer",
        "_body",
        "_call",
        "_end",
        "_head",
        "_inner",
        "_is_over",
        "_is_paused",
        "_receiver",
        "_renewal",
        "_request",
        "_resends",
    )

    _call: Http1Call

    def __init__(
        self, inner: Http1Upstream, authorizer: Authorizer, request: UpstreamRequest, receiver: Receiver
    ) -> None:
        self._inner = inner
        self._authorizer = authorizer
        self._request: UpstreamRequest | None = request
        """Kept until it is known that it is not sent again."""
        self._receiver = receiver
        self._resends = 0
        self._is_paused = False
        self._is_over = False
        self._renewal: asyncio.Task[None] | None = None
        # A refusal that is held: its head, the rest of the read that it was in, and its end if that was in there too.
        self._head: tuple[int, Mapping[str, str]] = (0, {})
        self._body = b""
        self._end: StreamweirError | bool = False

    async def open(self) -> None:
        assert self._request is not None  # noqa: S101 (it is sent by this call)
        self._call = await self._send(self._request, self)

    @property
    def resends(self) -> int:
        return self._resends + self._call.resends

    @property
    def is_refused(self) -> bool:
        return self._renewal is not None

    @property
    def trace(self) -> CallTrace | None:
        return self._call.trace

    def pause(self) -> None:
        self._is_paused = True
        self._call.pause()

    def resume(self) -> None:
        self._is_paused = False
        if self._renewal is None:
            self._call.resume()

    def abort(self) -> None:
        self._is_over = True
        self._request = None
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None
        self._call.abort()

    def release(self) -> None:
        if self._renewal is not None:
            self.abort()
            return
        self._is_over = True
        self._call.release()

    # The receiver of the first answer.

    def head_received(self, status: int, headers: Mapping[str, str], /) -> None:
        if is_refusal(status, headers):
            self._head = status, headers
            self._call.pause()
            self._renewal = asyncio.get_running_loop().create_task(self._renew())
            return
        self._request = None
        self._call.hand_over(self._receiver)
        self._receiver.head_received(status, headers)

    def body_received(self, data: bytes, /) -> None:
        self._body += data  # at most one slice of a read: the connection is paused

    def body_ended(self) -> None:
        self._end = True

    def call_failed(self, error: StreamweirError, /) -> None:
        if self._renewal is not None:
            self._end = error
        else:
            self._receiver.call_failed(error)

    # After a refusal.

    async def _renew(self) -> None:
        request = self._request
        assert request is not None  # noqa: S101 (it is kept until the head of an answer is accepted)
        try:
            if not await self._authorizer.refused():
                self._pass_refusal_on()
                return
            self._resends += self._call.resends
            self._call.abort()
            self._call = await self._send(request, self._receiver)
        except StreamweirError as error:
            self._fail(error)
        except BaseException:
            # Cancelled by `abort`, which handles the rest, or by the end of the loop; or a bug, maybe of the receiver.
            self._call.abort()
            self._fail(GatewayFault("internal_error", "The gateway failed to authorize the request."))
            raise
        else:
            self._renewal = self._request = None
            if self._is_paused:
                self._call.pause()

    async def _send(self, request: UpstreamRequest, receiver: Receiver) -> Http1Call:
        own = await self._authorizer.headers_for(request)
        names = {name.lower() for name, _ in own}
        kept = [field for field in request.headers if field[0].lower() not in names]
        return await self._inner.open(structs.replace(request, headers=(*kept, *own)), receiver)

    def _pass_refusal_on(self) -> None:
        """As if it had just arrived. The receiver may end the call at each step."""
        receiver, self._renewal, self._request = self._receiver, None, None
        self._call.hand_over(receiver)
        receiver.head_received(*self._head)
        if self._body and not self._is_over:
            receiver.body_received(self._body)
        if self._is_over:
            return
        if isinstance(self._end, StreamweirError):
            receiver.call_failed(self._end)
        elif self._end:
            receiver.body_ended()
        elif not self._is_paused:
            self._call.resume()

    def _fail(self, error: StreamweirError) -> None:
        if self._renewal is not None:
            self._renewal = self._request = None
            self._call.abort()
            self._receiver.call_failed(error)
