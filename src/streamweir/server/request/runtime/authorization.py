"""How requests to a cloud are authorized, where the operator's file has no key: by a signature or a token.

One function for each cloud turns the provider's settings into those of its `upstream.cloud` module, which is imported
when a provider needs it: most gateways have no cloud, and start sooner without. What such a module reports about a
credential that could not be refreshed is logged here.
"""

from collections.abc import Callable
from functools import partial

from msgspec import structs

from streamweir.config.address import base_url_of
from streamweir.config.cloud import AwsAuth, EntraAuth, GoogleAuth
from streamweir.config.model import Provider as ProviderConfig
from streamweir.config.secret import secrets_in
from streamweir.server.telemetry.log import logger
from streamweir.upstream.authorized import Authorizer
from streamweir.upstream.credential import RefreshFailure

_AWS_SERVICES = {"bedrock": "bedrock", "bedrock-mantle": "bedrock-mantle"}
"""By the kind of provider: the name of the service in signatures."""


def is_authorized(provider: ProviderConfig) -> bool:
    """Its requests need headers that are made for each of them. A key, or the operator's own header, is enough."""
    has_key = any(each.key for each in provider.credentials)
    has_header = any(name.lower() == "authorization" for name in provider.headers)
    is_cloud = provider.kind in _CLOUDS and (provider.kind != "azure" or provider.entra is not None)
    return is_cloud and not has_key and not has_header


def authorizer_for(provider: ProviderConfig) -> Authorizer | None:
    """None: it needs none. Raises `ValueError` for settings that cannot be used."""
    return _CLOUDS[provider.kind](provider) if is_authorized(provider) else None


def _aws(provider: ProviderConfig) -> Authorizer:
    from streamweir.upstream.cloud import aws

    if provider.region is None:
        raise ValueError("region is missing: requests are signed for a region")
    own = structs.asdict(provider.aws or AwsAuth())
    settings = aws.AwsSettings(region=provider.region, proxy=provider.proxy, ca_file=provider.ca_file, **own)
    return aws.authorizer_of(
        settings,
        base_url=base_url_of(provider) or "",
        service=_AWS_SERVICES[provider.kind],
        headers=tuple(provider.headers.items()),
        on_failure=partial(_log, provider),
    )


def _google(provider: ProviderConfig) -> Authorizer:
    from streamweir.upstream.cloud import google

    own = provider.google or GoogleAuth()
    settings = google.GoogleSettings(
        source="file" if own.credentials_file is not None else own.source,
        credentials_file=own.credentials_file,
        token_url=own.token_url,
        metadata_url=own.metadata_url,
        proxy=provider.proxy,
        ca_file=provider.ca_file,
    )
    return google.authorizer_of(settings, on_failure=partial(_log, provider))


def _entra(provider: ProviderConfig) -> Authorizer:
    from streamweir.upstream.cloud import entra

    own = structs.asdict(provider.entra or EntraAuth())
    settings = entra.EntraSettings(**own, proxy=provider.proxy, ca_file=provider.ca_file)
    return entra.authorizer_of(settings, on_failure=partial(_log, provider))


_CLOUDS: dict[str, Callable[[ProviderConfig], Authorizer]] = {
    **dict.fromkeys(_AWS_SERVICES, _aws),
    "vertex": _google,
    "azure": _entra,
}
"""By the kind of provider."""


def _log(provider: ProviderConfig, failure: RefreshFailure) -> None:
    error = failure.error
    logger.warning(
        "credential not refreshed",
        provider=provider.name,
        service=failure.service,
        code=error.code,
        reason=error.message,
        detail=error.report.message(secrets_in(provider)) if error.report is not None else None,
        is_valid=failure.is_valid,
        pause_s=failure.pause_s,
    )
