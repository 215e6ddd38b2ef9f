"""`GET /api/oidc/callback`: where the identity provider sends the browser back to.

Anyone can send something here. It counts only with the cookie and the state of a sign-in that this browser has begun,
once; then the code is exchanged for an ID token, which is verified, and the person's session is opened as by a
password. The browser is always sent on to the console, by a path of this module's own; a failure is named in the
fragment, which the page shows in words of the gateway. Neither code nor token is logged.
"""

from sqlalchemy import Connection
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse

from streamweir.config.oidc import Oidc
from streamweir.core.errors import CallerError, StreamweirError
from streamweir.server.control.api.actor import ANONYMOUS
from streamweir.server.control.api.authentication import cookie_named, session_cookie
from streamweir.server.control.api.context import Context
from streamweir.server.control.api.login_counts import LoginOutcome
from streamweir.server.control.api.operation import Call, Nothing
from streamweir.server.control.api.people.login import open_session_of
from streamweir.server.control.api.people.oidc import cookie_name, sign_in_cookie
from streamweir.server.control.identity import RETURN_PATH, account_of, redirect_uri
from streamweir.server.control.identity_failure import SignInFailure
from streamweir.server.control.routing import Access, OpenRoute, request_of
from streamweir.server.telemetry.log import logger
from streamweir.store.keys.federated_people import Account, NotAdmitted, admit
from streamweir.store.keys.sessions import LoginWay
from streamweir.store.keys.sign_ins import SignIn, forget_attempt, take_sign_in
from streamweir.upstream.oidc.documents import ProviderFault
from streamweir.upstream.oidc.provider import Challenge, ProviderAway

_MAX_CODE_LENGTH = 4096
_DENIED = frozenset({"access_denied", "login_required", "consent_required", "interaction_required"})
_ERRORS = _DENIED | {"invalid_request", "unauthorized_client", "unsupported_response_type", "invalid_scope"}
_ERRORS |= {"server_error", "temporarily_unavailable"}
"""RFC 6749, section 4.1.2.1; OpenID Connect Core 1.0, section 3.1.2.6. Others are not logged: they may be any text."""


class _Failed(Exception):
    def __init__(self, failure: SignInFailure, reason: str = "") -> None:
        super().__init__(reason)
        self.failure = failure


def return_routes(context: Context) -> list[OpenRoute]:
    async def come_back(http: HttpRequest) -> HttpResponse:
        oidc = context.runtime().config.oidc
        if oidc is None:
            raise HTTPException(404)
        call = Call(
            context=context,
            actor=ANONYMOUS,
            request=request_of(http.scope),
            path={},
            query=_once(http.query_params.multi_items()),
            body=Nothing(),
            at_ms=context.clock_ms(),
        )
        try:
            token = await _finish(call, oidc)
        except _Failed as failed:
            return _refused(call, oidc, failed)
        except StreamweirError as error:  # the database
            return _refused(call, oidc, _Failed(SignInFailure.BUSY, error.code))
        context.logins.count(LoginWay.OIDC, LoginOutcome.OPENED)
        response = _sent_on("/console", oidc)
        response.headers.append("set-cookie", session_cookie(token, context.is_secure))
        return response

    return [OpenRoute(RETURN_PATH, come_back, access=Access.ANYONE)]


async def _finish(call: Call[dict[str, str], Nothing], oidc: Oidc) -> str:
    """The token of the new session."""
    cookie = cookie_named(call.request, cookie_name(oidc))
    begun = await _taken(call, oidc, cookie)
    account = await _account(call, oidc, begun)

    def work(conn: Connection) -> str | NotAdmitted:
        person = admit(conn, account, at_ms=call.at_ms)
        if isinstance(person, NotAdmitted):
            return person
        forget_attempt(conn, cookie or "")
        return open_session_of(conn, call, person, LoginWay.OIDC)[1]

    try:
        opened = await call.context.change(work)
    except CallerError as error:
        raise _Failed(SignInFailure.WORKSPACE, error.message) from None
    if isinstance(opened, NotAdmitted):
        raise _Failed(SignInFailure(opened.value))
    return opened


async def _taken(call: Call[dict[str, str], Nothing], oidc: Oidc, cookie: str | None) -> SignIn:
    state = call.query.get("state")
    if not cookie or not state:
        raise _Failed(SignInFailure.EXPIRED)
    begun = await call.context.write(lambda conn: take_sign_in(conn, cookie, state, call.at_ms))
    if begun is None or begun.issuer != oidc.issuer:
        raise _Failed(SignInFailure.EXPIRED)
    return begun


async def _account(call: Call[dict[str, str], Nothing], oidc: Oidc, begun: SignIn) -> Account:
    provider, query = call.context.identity.provider(oidc), call.query
    challenge = Challenge(nonce=begun.nonce, verifier=begun.verifier, redirect_uri=redirect_uri(oidc))
    with call.context.identity.exchange() as is_free:
        if not is_free:
            raise _Failed(SignInFailure.BUSY, "too many sign-ins at a time")
        try:
            needs_issuer = (await provider.metadata()).sends_issuer
            if query.get("iss", None if needs_issuer else oidc.issuer) != oidc.issuer:  # RFC 9207
                raise _Failed(SignInFailure.UNTRUSTED, "the answer is of another issuer")
            claims = await provider.claims(_code_in(query), challenge, call.at_ms / 1000)
        except ProviderAway as fault:
            raise _Failed(SignInFailure.AWAY, str(fault)) from None
        except ProviderFault as fault:
            raise _Failed(SignInFailure.UNTRUSTED, str(fault)) from None
    account = account_of(oidc, claims)
    if isinstance(account, SignInFailure):
        raise _Failed(account)
    return account


def _code_in(query: dict[str, str]) -> str:
    error, code = query.get("error"), query.get("code", "")
    if error is not None:
        reason = error if error in _ERRORS else "an error of its own"
        raise _Failed(SignInFailure.DENIED if error in _DENIED else SignInFailure.PROVIDER, reason)
    if not 0 < len(code) <= _MAX_CODE_LENGTH or not code.isascii() or not code.isprintable():
        raise _Failed(SignInFailure.UNTRUSTED, "the answer has no code")
    return code


def _once(sent: list[tuple[str, str]]) -> dict[str, str]:
    """Empty if a parameter was sent twice: two readers could understand it in two ways."""
    found = dict(sent)
    return found if len(found) == len(sent) else {}


def _refused(call: Call[dict[str, str], Nothing], oidc: Oidc, failed: _Failed) -> HttpResponse:
    call.context.logins.count(LoginWay.OIDC, LoginOutcome.WRONG)
    if failed.failure is not SignInFailure.EXPIRED:  # those can be sent in any number
        logger.warning("sign-in refused", failure=failed.failure.value, reason=str(failed))
    return _sent_on(f"/console#sign-in={failed.failure.value}", oidc)


def _sent_on(path: str, oidc: Oidc) -> HttpResponse:
    """A path: the caller's `Host` is not trusted, and nothing of the request is in it."""
    response = HttpResponse(b"", 303, {"location": path, "cache-control": "no-store"})
    response.headers.append("set-cookie", sign_in_cookie(oidc, ""))
    return response
