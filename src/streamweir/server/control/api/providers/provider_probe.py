"""Tests a provider over the API: it is reached with each of its credentials, as by `streamweir doctor`.

The call is bounded, and never billed. Who may do it is told what the provider answered, without secrets and without the
text of its headers. One test of a provider runs at a time in a process. It is recorded in the audit log before it
begins.
"""

from msgspec import Struct

from streamweir.config.address import BUILT_IN
from streamweir.config.secret import secrets_for
from streamweir.core.errors import CallerError
from streamweir.policy.permission import Permission
from streamweir.server.control.api.operation import Call, Nothing, Operation
from streamweir.server.request.lookup.provider_check import Reached, ReachOutcome, reach_provider
from streamweir.server.telemetry.sanitize import clean
from streamweir.store.db.errors import quoted
from streamweir.store.keys import audit
from streamweir.upstream.local import why_unavailable

TIMEOUT_S = 10.0
"""For each credential."""
MAX_KEYS = 20
"""More credentials of a provider are not tried."""
_MAX_MESSAGE = 600


class ReachedView(Struct, kw_only=True):
    credential: str
    """The name of the provider's credential. Empty: it has only one, or needs none."""
    outcome: ReachOutcome
    message: str
    advice: str | None
    """What to do. Null: nothing."""


class ProviderTest(Struct, kw_only=True):
    provider: str
    at_ms: int
    results: list[ReachedView]
    """For each of its credentials, at most 20."""


async def try_provider(call: Call[Nothing, Nothing]) -> ProviderTest:
    name, context, actor, at_ms = call.path["id"], call.context, call.actor, call.at_ms
    runtime = context.runtime()
    provider = runtime.providers.get(name)
    if provider is None:
        raise CallerError("not_found", f"There is no provider {quoted(name)}.")
    if name in context.tested:
        raise CallerError("conflict", f"The provider {quoted(name)} is being tested. Wait for that test to end.")
    context.tested.add(name)
    try:
        await context.write(lambda conn: audit.append(conn, actor.name, "provider.test", name, {}, None, at_ms))
        if provider.config.kind in BUILT_IN:
            found = [_built_in(provider.config.kind)]
        else:
            found = await reach_provider(provider, secrets_for(runtime.config, name), TIMEOUT_S, max_keys=MAX_KEYS)
    finally:
        context.tested.discard(name)
    return ProviderTest(provider=name, at_ms=at_ms, results=[_view(each) for each in found])


def _built_in(kind: str) -> Reached:
    reason = why_unavailable() if kind == "local" else None
    if reason is not None:
        return Reached(credential="", outcome="fail", message=reason, advice="install it")
    return Reached(credential="", outcome="ok", message="it is built in")


def _view(found: Reached) -> ReachedView:
    return ReachedView(
        credential=found.credential,
        outcome=found.outcome,
        message=clean(found.message, _MAX_MESSAGE),
        advice=found.advice,
    )


OPERATIONS = (
    Operation(
        method="POST",
        path="/api/providers/{id}/test",
        access=Permission.PROVIDERS_TEST,
        about="Reach a provider with each of its credentials, without a billed request; recorded in the audit log",
        handler=try_provider,
        answer=ProviderTest,
    ),
)
