"""Reads the documents and the keys of the identity provider as a sign-in does, and compares its time with ours."""

from msgspec import structs

from streamweir.cli.commands.doctor.finding import Finding, fail, ok, warn
from streamweir.config.model import Config
from streamweir.server.control.identity import provider_settings, redirect_uri
from streamweir.upstream.oidc.documents import ProviderFault
from streamweir.upstream.oidc.id_token import LEEWAY_S
from streamweir.upstream.oidc.provider import IdentityProvider

_SUBJECT = "identity provider"
_WARN_SKEW_S = 5.0


async def check_identity(config: Config, timeout_s: float) -> list[Finding]:
    oidc = config.oidc
    if oidc is None:
        return []
    settings = provider_settings(oidc)
    provider = IdentityProvider(structs.replace(settings, timeout_s=min(settings.timeout_s, timeout_s)))
    try:
        await provider.metadata()
        keys = await provider.keys()
    except ProviderFault as fault:
        return [fail(_SUBJECT, str(fault), "check oidc.issuer, and whether this machine may reach it")]
    if not keys:
        reason = "it publishes no key that a token can be verified with"
        return [fail(_SUBJECT, reason, "have it sign ID tokens by RS256, PS256 or ES256")]
    skew_s = provider.skew_s or 0.0
    message = f"reached, {len(keys)} keys; the redirect URI to register is {redirect_uri(oidc)}"
    if abs(skew_s) < _WARN_SKEW_S:
        return [ok(_SUBJECT, message)]
    message += f"; its clock is {abs(skew_s):.0f} s {'ahead of' if skew_s > 0 else 'behind'} ours"
    outcome = warn if abs(skew_s) < LEEWAY_S else fail
    return [outcome(_SUBJECT, message, f"set the clock: tokens are refused from {LEEWAY_S:.0f} s on")]
