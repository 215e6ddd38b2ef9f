"""The playground of the console, on the gateway's side: a chat request with a key whose secret was not sent.

After the admission it is a request like those to `/v1`, with the same limits, accounting, frames and errors.
`server.control.api.playground` has checked before that the user may use that key. What the browser sent for the
console alone (cookie, token, secret) is dropped here: the request gets only the headers that it needs. The answer has
the console's security headers.
"""

import time
from collections.abc import Callable, Iterable
from functools import partial

from msgspec import Struct

from streamweir.core.errors import GatewayFault, StreamweirError
from streamweir.frontends.base import Frontend
from streamweir.policy.access import Key
from streamweir.server.accounting.accounting import Accounting
from streamweir.server.http.answers import Refusal
from streamweir.server.http.asgi import RequestHandover
from streamweir.server.http.message import Answer, Headers, Request, Response
from streamweir.server.http.security_headers import SecuredResponse
from streamweir.server.request.admission import Admission, admit_as, own_frontend
from streamweir.server.request.runtime import RuntimeConfig

_KEPT = ("content-type", "idempotency-key", "user-agent", "x-forwarded-for", "x-request-id")
_HIDDEN = "***"


class PlaygroundChat(Struct, frozen=True, kw_only=True):
    """What somebody wants to say as a key."""

    key: Key
    frontend: Frontend | None
    """None: the key's own, or the gateway's."""
    body: bytes
    """As it would have been sent to `/v1`."""
    hidden: tuple[str, ...] = ()
    """What came along that nobody else must get to see."""


class Playground:
    def __init__(
        self,
        *,
        accounting: Accounting,
        runtime: Callable[[], RuntimeConfig],
        why_closed: Callable[[], GatewayFault | None],
        refuse: Callable[[Request, StreamweirError, Headers, Frontend, Key], Answer],
        begin: Callable[[Request, Response, Admission], None],
        is_secure: bool,
    ) -> None:
        """`refuse` gives the answer to what is refused, and has it on record; `begin` begins a conversation.

        `is_secure`: callers come by TLS.
        """
        self._accounting = accounting
        self._runtime = runtime
        self._why_closed = why_closed
        self._refuse = refuse
        self._begin = begin
        self._is_secure = is_secure

    def admit(self, played: PlaygroundChat, request: Request) -> Admission:
        """Raises `Refusal`."""
        key, frontend, closed = played.key, played.frontend, self._why_closed()
        return admit_as(key, frontend, request.headers, self._runtime(), self._accounting, closed, time.time())

    def begin(self, played: PlaygroundChat, admission: Admission) -> RequestHandover:
        return partial(self._take, played, admission)

    def refuse(self, played: PlaygroundChat, refusal: Refusal) -> RequestHandover:
        return partial(self._take_refused, played, refusal)

    def _take(self, played: PlaygroundChat, admission: Admission, request: Request, response: Response) -> None:
        directory, closed = self._accounting.directory, self._why_closed()
        if closed is not None or admission.generation != directory.generation:  # it may have been revoked since
            key = directory.find_id(played.key.id) or played.key
            try:
                admission = admit_as(
                    key, admission.frontend, request.headers, admission.runtime, self._accounting, closed, time.time()
                )
            except Refusal as refusal:
                self._take_refused(played, refusal, request, response)
                return
        self._begin(stripped(request, played), self._sealed(response), admission)

    def _take_refused(self, played: PlaygroundChat, refusal: Refusal, request: Request, response: Response) -> None:
        frontend = played.frontend or own_frontend(played.key) or self._runtime().frontend
        answer = self._refuse(stripped(request, played), refusal.error, refusal.headers, frontend, played.key)
        self._sealed(response).send(answer)

    def _sealed(self, response: Response) -> SecuredResponse:
        return SecuredResponse(response, is_secure=self._is_secure)


def stripped(request: Request, played: PlaygroundChat) -> Request:
    """The request that it would have been to `/v1`, whose path it does not pretend to."""
    return Request(
        id=request.id,
        method=request.method,
        path=request.path,
        headers={name: _without(request.headers[name], played.hidden) for name in _KEPT if name in request.headers},
        body=played.body,
        peer=request.peer,
        arrived_s=request.arrived_s,
    )


def _without(text: str, hidden: Iterable[str]) -> str:
    for each in hidden:
        text = text.replace(each, _HIDDEN)
    return text
