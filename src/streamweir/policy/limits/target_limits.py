"""The limits of targets, providers and credentials, as configured: which of them hold for an attempt.

An attempt needs room in every scope that has a limit: its target (a provider's model, whatever name it is asked for
by), its provider (all requests to it together), and its credential (over all models). The same machinery counts them as
the limits of callers' keys (`policy.limits.local`, `store.limits.shared`), under ids that no key has. Pure.
"""

from collections.abc import Iterable, Mapping

from streamweir.core.errors import UpstreamError
from streamweir.policy.limits.key_limits import KeyLimits, has_limits, limits_of
from streamweir.policy.limits.limit_request import LimitRequest
from streamweir.policy.routing.health import TargetId


class LimitScope(KeyLimits, frozen=True, kw_only=True):
    id: str
    """As counted: `target:PROVIDER/MODEL`, `provider:NAME` or `credential:PROVIDER/NAME`."""


class TargetLimits:
    def __init__(
        self,
        targets: Mapping[TargetId, KeyLimits],
        providers: Mapping[str, KeyLimits],
        credentials: Mapping[tuple[str, str], KeyLimits] | None = None,
    ) -> None:
        """`credentials`: by provider and name. Entries without a limit are ignored."""
        named = [(target, f"target:{target}", limits) for target, limits in targets.items()]
        self._targets = {key: _scope(id, limits) for key, id, limits in named if has_limits(limits)}
        self._providers = {
            name: _scope(f"provider:{name}", limits) for name, limits in providers.items() if has_limits(limits)
        }
        self._credentials = {
            key: _scope(f"credential:{key[0]}/{key[1]}", limits)
            for key, limits in (credentials or {}).items()
            if has_limits(limits)
        }

    def scopes_of(self, target: TargetId, credential: str = "") -> tuple[LimitScope, ...]:
        """Those with a limit."""
        found = (
            self._targets.get(target),
            self._providers.get(target.provider),
            self._credentials.get((target.provider, credential)),
        )
        return tuple([scope for scope in found if scope is not None])

    def all_scopes(self) -> list[LimitScope]:
        return [*self._targets.values(), *self._providers.values(), *self._credentials.values()]


def limit_requests(attempt_id: str, scopes: Iterable[LimitScope], tokens: int) -> list[LimitRequest]:
    """What an attempt needs from each scope."""
    return [
        LimitRequest(request_id=f"{attempt_id}:{number}", key_id=scope.id, tokens=tokens, **limits_of(scope))
        for number, scope in enumerate(scopes)
    ]


def no_room(retry_after_s: float) -> UpstreamError:
    """The error for the caller if no target that is available has room."""
    message = "Every available target of this model is at its configured limit. Try again later."
    error = UpstreamError("upstream_rate_limited", message, retry_after_s=retry_after_s)
    error.is_of_target_limits = True
    return error


def _scope(id: str, limits: KeyLimits) -> LimitScope:
    return LimitScope(id=id, **limits_of(limits))
