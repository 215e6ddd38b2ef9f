"""The health of the providers, as this process has observed it. Addresses, keys and headers are not shown: of several
keys of a provider (credentials) the names that the operator gave them.

Targets without an alias are known from callers' requests. Only the operator sees their names, because callers of other
workspaces have chosen them.
"""

import time
from typing import Literal

from msgspec import Struct

from streamweir.policy.permission import Permission
from streamweir.policy.routing.credentials import CredentialPool
from streamweir.policy.routing.health import Candidate, Health, State
from streamweir.server.control.api.operation import Call, Nothing, Operation, Page
from streamweir.server.control.api.target_limit import TargetLimitView, limits_by_provider
from streamweir.server.request.runtime.config import RuntimeConfig

_MAX_OTHERS = 200
"""The maximum for a provider: those that failed last."""


Word = Literal["well", "probation", "away"]
WireName = Literal["chat", "responses", "messages", "converse", "gemini"]
WORDS: dict[State, Word] = {State.HEALTHY: "well", State.PROBING: "probation", State.UNAVAILABLE: "away"}


class CredentialView(Struct, kw_only=True):
    name: str
    weight: int
    state: Word
    """`away`: the provider refused it."""
    away_for_s: float
    ejections: int
    """How often it was ejected since this process started."""


class TargetView(Struct, kw_only=True):
    model: str
    credential: str
    """The name of the provider's credential. Empty: it has only one."""
    is_in_alias: bool
    wire: WireName
    """Through which API the next request goes. `chat`: the provider's own, where it has one."""
    state: Word
    is_limited: bool
    """It is ejected only because it requested a pause."""
    away_for_s: float
    ttft_s: float | None
    """The recent time to the first token."""
    ejections: int
    """How often it was ejected since this process started."""


class ProviderView(Struct, kw_only=True):
    name: str
    kind: str
    credentials: list[CredentialView]
    """If it has several."""
    targets: list[TargetView]
    """The targets of aliases, with each of its credentials, and other targets that have failed."""
    limits: list[TargetLimitView]
    """Those that are configured for it, its targets and its credentials. Only for those who see all workspaces."""


async def list_providers(call: Call[Nothing, Nothing]) -> Page[ProviderView]:
    runtime, now = call.context.runtime(), time.monotonic()
    targets: dict[str, list[TargetView]] = {name: [] for name in runtime.providers}
    others: dict[str, list[TargetView]] = {name: [] for name in runtime.providers}
    for candidate, health, is_own in runtime.router.known():
        target = candidate.target
        if is_own or call.actor.sees_all:
            view = _view(runtime, candidate, health, now, is_own)
            (targets if is_own else others)[target.provider].append(view)
    limiter = call.context.accounting.targets
    target_limits = runtime.target_limits if call.actor.sees_all else None
    limits = await limits_by_provider(target_limits, limiter) if target_limits is not None else {}
    data = [
        ProviderView(
            name=name,
            kind=place.config.kind,
            credentials=_credentials(runtime.router.pools.get(name), now),
            targets=targets[name] + others[name][-_MAX_OTHERS:],
            limits=limits.get(name, []),
        )
        for name, place in runtime.providers.items()
    ]
    return Page(data=data)


def _credentials(pool: CredentialPool | None, now: float) -> list[CredentialView]:
    if pool is None:
        return []
    return [
        CredentialView(
            name=each.name,
            weight=each.weight,
            state=WORDS[pool.state(each.name, now)],
            away_for_s=round(pool.remaining_s(each.name, now), 3),
            ejections=health.times_ejected,
        )
        for each, health in pool.known()
    ]


def _view(runtime: RuntimeConfig, candidate: Candidate, health: Health, now: float, is_own: bool) -> TargetView:
    return TargetView(
        model=candidate.target.model,
        credential=candidate.credential,
        is_in_alias=is_own,
        wire=runtime.wires.wire_of(candidate.target).value,
        state=WORDS[runtime.router.state_of(candidate, health, now)],
        is_limited=health.is_limited(now),
        away_for_s=round(runtime.router.wait_of(candidate, health, now), 3),
        ttft_s=round(health.ttft_s, 3) if health.ttft_s is not None else None,
        ejections=health.times_ejected,
    )


OPERATIONS = (
    Operation(
        method="GET",
        path="/api/providers",
        access=Permission.ROUTING_READ,
        about="List the providers and the health of their targets",
        handler=list_providers,
        answer=Page[ProviderView],
    ),
)
