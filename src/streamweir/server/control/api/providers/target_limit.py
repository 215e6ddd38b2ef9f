"""The limits of targets, providers and their credentials, with what is used of them, for the API.

Counted by all processes that share a Valkey, else by this one.
"""

from collections import defaultdict
from typing import Literal

from msgspec import Struct

from streamweir.policy.limits.key_limits import limits_of
from streamweir.policy.limits.target_limits import LimitScope, TargetLimits
from streamweir.server.accounting.target_limiter import TargetLimiter

Scope = Literal["target", "provider", "credential"]


class TargetLimitView(Struct, kw_only=True):
    scope: Scope
    name: str
    """Of the model or the credential; that of the provider if the limits are its own."""
    rpm: int | None
    tpm: int | None
    max_streams: int | None
    requests: int | None
    """In the last minute. None: not known now."""
    tokens: int | None
    """In the last minute: of running requests as estimated."""
    streams: int | None


async def limits_by_provider(limits: TargetLimits, limiter: TargetLimiter) -> dict[str, list[TargetLimitView]]:
    scopes = list(limits.all_scopes())
    found: dict[str, list[TargetLimitView]] = defaultdict(list)
    for scope, used in zip(scopes, await limiter.usage(scopes), strict=True):
        kind, provider, name = _parts(scope)
        requests, tokens, streams = used if used is not None else (None, None, None)
        view = TargetLimitView(
            scope=kind, name=name, requests=requests, tokens=tokens, streams=streams, **limits_of(scope)
        )
        found[provider].append(view)
    return found


def _parts(scope: LimitScope) -> tuple[Scope, str, str]:
    kind, _, path = scope.id.partition(":")
    provider, _, name = path.partition("/")  # a provider's name has no slash
    if kind == "target":
        return "target", provider, name
    return ("credential", provider, name) if kind == "credential" else ("provider", provider, provider)
