"""Beginning a sign-in at the identity provider. Its end is in `server.control.identity_return`.

The page asks for the address and goes there. The sign-in belongs to this browser by a cookie that it sends along when
the provider sends it back: so it cannot be `SameSite=Strict`. How many are begun is bounded (`store.keys.sign_ins`).
"""

from math import ceil
from secrets import token_urlsafe
from typing import Annotated

from msgspec import Meta, Struct

from streamweir.config.oidc import Oidc
from streamweir.core.errors import CallerError, UpstreamError
from streamweir.server.control.api.authentication import check_origin
from streamweir.server.control.api.login_counts import LoginOutcome
from streamweir.server.control.api.operation import Call, Nothing, Operation, Reply
from streamweir.server.control.identity import redirect_uri
from streamweir.server.control.identity_failure import SENTENCES, SignInFailure
from streamweir.server.control.routing import Access
from streamweir.server.request.admission import peer_of
from streamweir.server.telemetry.log import logger
from streamweir.store.keys.sessions import LoginWay
from streamweir.store.keys.sign_ins import LIFETIME_MS, SignIn, begin_sign_in
from streamweir.upstream.oidc.documents import ProviderFault
from streamweir.upstream.oidc.provider import Challenge

COOKIE = "streamweir-sign-in"
SECURE_COOKIE = "__Host-streamweir-sign-in"
_MAX_BODY_BYTES = 4096
_RANDOM_BYTES = 32


class OptionsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    failure: Annotated[str, Meta(max_length=64)] | None = None
    """With which a sign-in has come back."""


class LoginOptions(Struct, kw_only=True):
    oidc: str | None
    """The name of the identity provider, if people may log in there."""
    failure: str | None
    """What the failure means, and what to do. None: it is not known."""


class SignInAddress(Struct, kw_only=True):
    url: str
    """Where the browser goes on."""


async def show_login(call: Call[OptionsQuery, Nothing]) -> LoginOptions:
    oidc, failure = call.context.runtime().config.oidc, call.query.failure
    sentence = SENTENCES[SignInFailure(failure)] if failure in set(SignInFailure) else None
    return LoginOptions(oidc=oidc.name if oidc is not None else None, failure=sentence)


async def begin_oidc(call: Call[Nothing, Nothing]) -> Reply:
    context, oidc = call.context, call.context.runtime().config.oidc
    if "origin" in call.request.headers:
        check_origin(call.request)
    if oidc is None:
        raise CallerError("not_found", "There is no identity provider: set [oidc] in the configuration.")
    cookie, state, nonce, verifier = (token_urlsafe(_RANDOM_BYTES) for _ in range(4))
    begun, address = (
        SignIn(nonce=nonce, verifier=verifier, issuer=oidc.issuer),
        peer_of(call.request, context.runtime()),
    )
    wait_ms = await context.write(lambda conn: begin_sign_in(conn, begun, cookie, state, address, call.at_ms))
    if wait_ms:
        context.logins.count(LoginWay.OIDC, LoginOutcome.LIMITED)
        message = f"Too many attempts to log in. Try again in {ceil(wait_ms / 60_000)} minutes."
        raise CallerError("rate_limit_exceeded", message, retry_after_s=wait_ms / 1000)
    challenge = Challenge(nonce=nonce, verifier=verifier, redirect_uri=redirect_uri(oidc))
    try:
        url = await context.identity.provider(oidc).address(challenge, state)
    except ProviderFault as fault:
        logger.warning("sign-in not begun", reason=str(fault))
        raise UpstreamError("upstream_bad_response", SENTENCES[SignInFailure.AWAY]) from None
    return Reply(value=SignInAddress(url=url), headers=(("set-cookie", sign_in_cookie(oidc, cookie)),))


def cookie_name(oidc: Oidc) -> str:
    return SECURE_COOKIE if oidc.url.startswith("https://") else COOKIE


def sign_in_cookie(oidc: Oidc, value: str) -> str:
    """An empty `value` deletes it in the browser."""
    name, age = cookie_name(oidc), LIFETIME_MS // 1000 if value else 0
    mark = "; Secure" if name == SECURE_COOKIE else ""
    return f"{name}={value}; Path=/; HttpOnly; SameSite=Lax{mark}; Max-Age={age}"


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/login",
        access=Access.ANYONE,
        about="Show how people may log in, and what a failed sign-in means",
        handler=show_login,
        query=OptionsQuery,
        answer=LoginOptions,
        max_body_bytes=_MAX_BODY_BYTES,
    ),
    Operation(
        method="POST",
        path="/api/oidc",
        access=Access.ANYONE,
        about="Begin a sign-in at the identity provider: sets a cookie, and says where the browser goes on",
        handler=begin_oidc,
        answer=SignInAddress,
        max_body_bytes=_MAX_BODY_BYTES,
    ),
)
