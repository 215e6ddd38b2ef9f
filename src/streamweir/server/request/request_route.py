"""The route of a request: found by the model's name, without the targets that cannot serve it, as ordered candidates.

Nothing is tried here: `server.request.attempt.candidates` does that, one candidate after the other.
"""

import time
from collections.abc import Collection

from msgspec import structs

from streamweir.core.errors import CallerError
from streamweir.core.request import ChatRequest
from streamweir.policy.access import Key
from streamweir.policy.routing.health import Candidate, TargetId
from streamweir.policy.routing.route import Route, RouteTarget
from streamweir.policy.routing.strategy import Random
from streamweir.server.request.attempt.quota_hints import room_by_quota
from streamweir.server.request.lookup.model_names import unusable_model
from streamweir.server.request.request_cost import RequestCost
from streamweir.server.request.runtime.config import RuntimeConfig


def find_route(runtime: RuntimeConfig, key: Key, chat: ChatRequest) -> Route:
    """The route for the requested model name, if the key may use it."""
    model = chat.model or runtime.default_model
    if model is None:
        raise CallerError("missing_required_parameter", "Missing required parameter: 'model'.", param="model")
    route = runtime.routes.resolve(model)
    if route is None or not key.may_use(model):
        raise unusable_model(runtime, key, model)
    return route


def order_route(
    runtime: RuntimeConfig,
    chat: ChatRequest,
    at_ms: int,
    random: Random,
    conversation: bytes | None,
    route: Route,
    without: Collection[TargetId] = (),
) -> list[Candidate]:
    """The candidates of a route for this request, without some targets. The first is taken. Empty: all are unavailable.
    Raises `CallerError` if none can serve the request."""
    fit, now = fit_route(runtime, route, chat), time.monotonic()
    quotas = runtime.reported_quotas
    has_room = room_by_quota(quotas, chat, now) if quotas else None  # empty: nothing was reported yet
    cost = RequestCost(runtime, route, chat, at_ms)
    return runtime.router.order(fit, now, random, conversation, has_room, cost.of, without)


def fit_route(runtime: RuntimeConfig, route: Route, chat: ChatRequest) -> Route:
    """The route without the targets that cannot serve the request. Raises the first refusal if none can, of its
    fallbacks neither."""
    fit, reason = _fit_targets(runtime, route, chat)
    if route.chain:
        return _fit_chain(runtime, route, chat, fit, reason)
    if reason is None:
        return route
    if not fit:
        raise reason
    return structs.replace(route, targets=fit)


def _fit_targets(
    runtime: RuntimeConfig, route: Route, chat: ChatRequest
) -> tuple[tuple[RouteTarget, ...], CallerError | None]:
    """The targets that can serve the request, and why the first of the others cannot."""
    fit: tuple[RouteTarget, ...] = ()
    reason: CallerError | None = None
    for each in route.targets:
        if chat.api == "chat":
            refusal = runtime.chat_wire(each.target).provider.refusal_of(chat, each.target.model)
        else:
            refusal = runtime.refusal_of(each.target, chat)
        if refusal is None:
            fit += (each,)
        else:
            reason = reason or refusal
    return fit, reason


def _fit_chain(
    runtime: RuntimeConfig, route: Route, chat: ChatRequest, fit: tuple[RouteTarget, ...], reason: CallerError | None
) -> Route:
    chain: tuple[Route, ...] = ()
    for group in route.chain:
        targets, refusal = _fit_targets(runtime, group, chat)
        reason = reason or refusal
        if targets:
            chain += (structs.replace(group, targets=targets),)
    if reason is not None and not fit and not chain:
        raise reason
    return route if reason is None else structs.replace(route, targets=fit, chain=chain)
