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
from streamweir.server.http.asgi import RequestDelegate
from streamweir.server.http.message import Answer, Headers, Request, Response
from streamweir.server.http.security_headers import SecuredResponse
from streamweir.server.request.admission import Admission, admit_as, own_frontend
from streamweir.server.request.runtime.config import RuntimeConfig

_FORWARDED_HEADERS = ("content-type", "idempotency-key", "user-agent", "x-forwarded-for", "x-request-id")
_MASK = "***"


class PlaygroundChat(Struct, frozen=True, kw_only=True):
    """A chat request of the console, with the key that it uses."""

    key: Key
    frontend: Frontend | None
    """None: the key's own, or the gateway's."""
    body: bytes
    """As it would have been sent to `/v1`."""
    secrets: tuple[str, ...] = ()
    """Secrets of the console that are masked in the forwarded headers."""


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
        """`refuse` returns the answer to a refused request and records it; `begin` starts a request.

        `is_secure`: callers come by TLS.
        """
        self._accounting = accounting
        self._runtime = runtime
        self._why_closed = why_closed
        self._refuse = refuse
        self._begin = begin
        self._is_secure = is_secure

    def admit(self, chat: PlaygroundChat, request: Request) -> Admission:
        """Raises `Refusal`."""
        key, frontend, closed = chat.key, chat.frontend, self._why_closed()
        return admit_as(key, frontend, request.headers, self._runtime(), self._accounting, closed, time.time())

    def begin(self, chat: PlaygroundChat, admission: Admission) -> RequestDelegate:
        return partial(self._handle, chat, admission)

    def refuse(self, chat: PlaygroundChat, refusal: Refusal) -> RequestDelegate:
        return partial(self._handle_refused, chat, refusal)

    def _handle(self, chat: PlaygroundChat, admission: Admission, request: Request, response: Response) -> None:
        directory, closed = self._accounting.directory, self._why_closed()
        if closed is not None or admission.generation != directory.generation:  # it may have been revoked since
            key = directory.find_id(chat.key.id) or chat.key
            try:
                admission = admit_as(
                    key, admission.frontend, request.headers, admission.runtime, self._accounting, closed, time.time()
                )
            except Refusal as refusal:
                self._handle_refused(chat, refusal, request, response)
                return
        self._begin(without_console_headers(request, chat), self._secured(response), admission)

    def _handle_refused(self, chat: PlaygroundChat, refusal: Refusal, request: Request, response: Response) -> None:
        frontend = chat.frontend or own_frontend(chat.key) or self._runtime().frontend
        answer = self._refuse(
            without_console_headers(request, chat), refusal.error, refusal.headers, frontend, chat.key
        )
        self._secured(response).send(answer)

    def _secured(self, response: Response) -> SecuredResponse:
        return SecuredResponse(response, is_secure=self._is_secure)


def without_console_headers(request: Request, chat: PlaygroundChat) -> Request:
    """The same request without the headers for the console. It keeps its own path."""
    return Request(
        id=request.id,
        method=request.method,
        path=request.path,
        headers={
            name: _masked(request.headers[name], chat.secrets) for name in _FORWARDED_HEADERS if name in request.headers
        },
        body=chat.body,
        peer=request.peer,
        arrived_s=request.arrived_s,
    )


def _masked(text: str, secrets: Iterable[str]) -> str:
    for each in secrets:
        text = text.replace(each, _MASK)
    return text
