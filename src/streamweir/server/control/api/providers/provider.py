"""The health of the providers, over the processes of all nodes. Addresses, keys and headers are not shown: of several
keys of a provider (credentials) the names that the operator gave them, to those who see all workspaces.

Targets without an alias are known from callers' requests. Only the operator sees their names, because callers of other
workspaces have chosen them.
"""

from typing import Literal

from msgspec import Struct

from streamweir.policy.permission import Permission
from streamweir.policy.routing.credentials import CredentialPool
from streamweir.policy.routing.health import TargetId
from streamweir.server.control.api.operation import Call, Nothing, Operation, Page
from streamweir.server.control.api.providers.node import WithFailure, failure_of, nodes_of
from streamweir.server.control.api.providers.target_limit import TargetLimitView, limits_by_provider
from streamweir.server.nodes.health import Nodes
from streamweir.server.request.runtime.config import RuntimeConfig

_MAX_OTHERS = 200
"""The maximum for a provider."""

WireName = Literal["chat", "responses", "messages", "converse", "gemini"]


class CredentialView(WithFailure, kw_only=True):
    """`away`: the provider refused it."""

    name: str
    weight: int


class TargetView(WithFailure, kw_only=True):
    model: str
    credential: str
    """The name of the provider's credential. Empty: it has only one, or the caller sees only its own workspace: then
    the state is that of the best."""
    is_in_alias: bool
    wire: WireName
    """Through which API the next request goes. `chat`: the provider's own, where it has one."""
    is_limited: bool
    """It is ejected only because it requested a pause."""
    ttft_s: float | None
    """The recent time to the first token: the mean of all processes."""
    running: int
    """Attempts that run now."""


class ProviderView(Struct, kw_only=True):
    name: str
    kind: str
    credentials: list[CredentialView]
    """If it has several. Only for those who see all workspaces."""
    targets: list[TargetView]
    """The targets of aliases, with each of its credentials, and other targets that have failed."""
    limits: list[TargetLimitView]
    """Those that are configured for it, its targets and its credentials. Only for those who see all workspaces."""


async def list_providers(call: Call[Nothing, Nothing]) -> Page[ProviderView]:
    runtime, nodes = call.context.runtime(), await nodes_of(call.context)
    sees_all = call.actor.sees_all
    targets: dict[str, list[TargetView]] = {name: [] for name in runtime.providers}
    for provider, found in _targets(runtime, nodes, sees_all).items():
        targets[provider] = [_view(runtime, nodes, each, call.at_ms, sees_all) for each in found]
    limiter = call.context.accounting.targets
    target_limits = runtime.target_limits if sees_all else None
    limits = await limits_by_provider(target_limits, limiter) if target_limits is not None else {}
    data = [
        ProviderView(
            name=name,
            kind=place.config.kind,
            credentials=_credentials(runtime.router.pools.get(name), nodes, call.at_ms) if sees_all else [],
            targets=targets[name],
            limits=limits.get(name, []),
        )
        for name, place in runtime.providers.items()
    ]
    return Page(data=data)


class _Shown(Struct, frozen=True):
    target: TargetId
    credential: str | None
    """None: all of them."""
    is_in_alias: bool


def _targets(runtime: RuntimeConfig, nodes: Nodes, sees_all: bool) -> dict[str, list[_Shown]]:
    """Those of aliases in the order of the configuration, then others, as this and other processes know them."""
    router = runtime.router
    own = {candidate: is_routed for candidate, _, is_routed in router.known()}
    routed = [candidate for candidate, is_routed in own.items() if is_routed]
    if not sees_all:
        merged = dict.fromkeys(candidate.target for candidate in routed)
        return _by_provider(runtime, [_Shown(target, None, True) for target in merged])
    reported = [each for each in nodes.candidates() if not own.get(each)]
    shown = [_Shown(candidate.target, candidate.credential, True) for candidate in routed]
    others = _by_provider(runtime, [_Shown(each.target, each.credential, False) for each in reported])
    found = _by_provider(runtime, shown)
    for provider, entries in others.items():
        found[provider] += entries[:_MAX_OTHERS]
    return found


def _by_provider(runtime: RuntimeConfig, shown: list[_Shown]) -> dict[str, list[_Shown]]:
    found: dict[str, list[_Shown]] = {name: [] for name in runtime.providers}
    for each in shown:
        if each.target.provider in found:  # another node may have another configuration
            found[each.target.provider].append(each)
    return found


def _credentials(pool: CredentialPool | None, nodes: Nodes, at_ms: int) -> list[CredentialView]:
    if pool is None:
        return []
    return [
        CredentialView(
            name=each.name, weight=each.weight, **failure_of(nodes.credential(pool.provider, each.name), at_ms)
        )
        for each in pool.credentials
    ]


def _view(runtime: RuntimeConfig, nodes: Nodes, shown: _Shown, at_ms: int, sees_all: bool) -> TargetView:
    target = shown.target
    names = credentials_of(runtime, target) if shown.credential is None else [shown.credential]
    health = nodes.target(target.provider, target.model, names)
    return TargetView(
        model=target.model,
        credential=shown.credential or "",
        is_in_alias=shown.is_in_alias,
        wire=runtime.wires.wire_of(target).value,
        is_limited=health.is_limited,
        ttft_s=health.ttft_ms / 1000 if health.ttft_ms is not None else None,
        running=health.running,
        **failure_of(health, at_ms, is_shown=sees_all),
    )


def credentials_of(runtime: RuntimeConfig, target: TargetId) -> list[str]:
    """The names of the credentials with which a target may be asked."""
    pool = runtime.router.pools.get(target.provider)
    return pool.names() if pool is not None else [""]


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/providers",
        access=Permission.ROUTING_READ,
        about="List the providers and the health of their targets in all nodes",
        handler=list_providers,
        answer=Page[ProviderView],
    ),
)
