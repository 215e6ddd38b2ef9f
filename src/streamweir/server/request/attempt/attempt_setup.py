"""The parts of each attempt: the limit of its answer, the upstream's request, the exchange and the timeouts.

All of them are made from the request and the `RuntimeConfig` that it began with, and nothing else.
"""

import re
import time
from collections.abc import Callable
from functools import partial

from msgspec import structs

from streamweir.core.request import ChatRequest, NativeRequest
from streamweir.core.usage import Usage
from streamweir.frontends.base import Frontend, Reply
from streamweir.pipeline.exchange import Exchange, WholeExchange
from streamweir.pipeline.folded_exchange import FoldedExchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.output_limit import with_limit
from streamweir.pipeline.plan import plan
from streamweir.pipeline.plausibility import UsageBounds
from streamweir.pipeline.prompt_bound import reads_elsewhere
from streamweir.policy.routing.health import Candidate, TargetId
from streamweir.policy.routing.route import Route
from streamweir.providers.base import UpstreamRequest
from streamweir.server.accounting.reservation import Reservation
from streamweir.server.accounting.token_count import PromptCount, Tokenizer, has_media
from streamweir.server.http.ids import random_bytes
from streamweir.server.relay.deadlines import AttemptTimeouts
from streamweir.server.request.attempt.body_changes import with_rules
from streamweir.server.request.attempt.folding import is_folded
from streamweir.server.request.request_size import max_output_tokens
from streamweir.server.request.runtime.config import RuntimeConfig
from streamweir.wire.native import NativeWire

_INDEX = re.compile(r"\[\d+\]")


def limit_for(
    runtime: RuntimeConfig, route: Route, chat: ChatRequest, target: TargetId, reservation: Reservation | None
) -> tuple[int | None, tuple[str, ...]]:
    """The output limit that is sent instead of the caller's, for each choice, and the flags for the record.

    None: the caller's limit is sent. No target gets a limit above its maximum: most answer that with an error.
    """
    limit, flags = (None, ()) if reservation is None else (reservation.limit, reservation.flags)
    if route.reachable and not route.has_target(target):
        flags = (*flags, "fallback")
    if limit is not None and route.reachable and reservation is not None and chat.max_output_tokens is None:
        # Reserved is the longest answer that any of the routes can give.
        measure = reservation.request.measure
        limit = min(limit, (measure.max_answer(target) if measure is not None else None) or limit)
    if chat.api == "completions" and not is_text(runtime, chat, target):
        flags = (*flags, "by_chat")
    requested = chat.max_output_tokens if limit is None else limit
    rules = runtime.provider_for(target).rules if chat.api != "embeddings" else None
    if rules is not None:
        own = rules.limit_for(chat.max_output_tokens)
        if own is not None and (requested is None or own < requested):
            if chat.max_output_tokens is not None:
                flags = (*flags, "max_tokens_clamped")
            requested = limit = own
    maximum = None if requested is None else runtime.model_limits.max_output(target)
    if requested is None or maximum is None or requested <= maximum:
        return limit, flags
    return maximum, tuple(dict.fromkeys((*flags, "max_tokens_clamped")))


def build_request(
    runtime: RuntimeConfig, chat: ChatRequest, candidate: Candidate, limit: int | None = None, *, is_last: bool = True
) -> UpstreamRequest:
    """`limit`: output tokens of each choice, instead of the caller's. `is_last`: no other candidate can be tried."""
    original, target = chat, candidate.target
    folds = not chat.stream and is_folded(runtime, chat, target, is_last=is_last)
    if folds:
        chat = structs.replace(chat, stream=True)
    if limit is not None:
        chat = with_limit(chat, limit)
    is_chat, wire = chat.api == "chat", runtime.wires.wire_of(target)
    provider_wire = runtime.chat_wire(target, wire) if is_chat else runtime.other_wire(target, chat, wire)
    if chat.native is not None and chat.native.wire == provider_wire.native_wire:
        chat = _with_priced_tier(runtime, chat, chat.native, target)
    requests_usage = target not in runtime.refusals
    provider = runtime.provider_for(target)
    known = structs.replace(
        provider.target,
        model=target.model,
        api_key=provider.secrets[candidate.credential],
        requests_usage=requests_usage,
        max_output_tokens=runtime.model_limits.configured_outputs.get(target),
    )
    request = provider_wire.provider.build_request(chat, known)
    if request.wire is not wire:
        request = structs.replace(request, wire=wire)
    if folds:
        request = structs.replace(request, is_folded=True)
    if limit is not None and len(chat.body) < len(original.body):
        dropped = [name for name in original.body if name not in chat.body]
        request = structs.replace(request, dropped=(*request.dropped, *dropped))
    native = chat.native
    is_passed = native is not None and (native.wire == provider_wire.native_wire or is_text(runtime, chat, target))
    rules = provider.rules
    if rules is not None:
        request = with_rules(request, rules, native.body if native is not None and is_passed else original.body)
    return request if native is None or is_passed else _with_own_paths(request, native)


def _with_priced_tier(
    runtime: RuntimeConfig, chat: ChatRequest, native: NativeRequest, target: TargetId
) -> ChatRequest:
    """A body that is sent unchanged, without a service tier for which the price list has no price."""
    tier = native.body.get("service_tier")
    if native.wire != NativeWire.OPENAI_RESPONSES or tier in (None, "auto", "default"):
        return chat
    kind = runtime.providers[target.provider].config.kind
    rates = runtime.quotes.prices.table.find(kind, target.model, _now() * 1000)
    if rates is not None and any(service.name == tier for service in rates.services):
        return chat
    body = {name: value for name, value in native.body.items() if name != "service_tier"}
    native = structs.replace(native, body=body, dropped=(*native.dropped, "service_tier"))
    return structs.replace(chat, native=native)


def _with_own_paths(request: UpstreamRequest, native: NativeRequest) -> UpstreamRequest:
    """With the paths in `dropped` as in the caller's API."""
    paths, own = dict.fromkeys(native.untranslated), {tool.path for tool in native.server_tools}
    for path in request.dropped:
        # The indexes of messages and tools are those of the translation, not the caller's.
        name = path if path in own else _INDEX.sub("[]", path)
        # Every block can have a `cache_control`: one path is named for all of them.
        paths["cache_control" if name.endswith("cache_control") else native.own_names.get(name, name)] = None
    return structs.replace(request, dropped=tuple(paths))


def is_text(runtime: RuntimeConfig, chat: ChatRequest, target: TargetId) -> bool:
    """A text completion that the target answers as such, and not as a chat completion."""
    return chat.api == "completions" and runtime.providers[target.provider].has_text(target.model, chat.prompts)


def make_reply(chat: ChatRequest, target_model: str, request_id: str, prompt_tokens: int) -> Reply:
    native = chat.native
    reply = Reply(
        entropy=random_bytes(24),
        now=_now,
        request_id=request_id,
        model=chat.model,
        prompt_tokens=prompt_tokens,
        target_model=target_model,
        choices=chat.n,
        include_usage=chat.include_usage,
        exclude_reasoning=bool(chat.reasoning and chat.reasoning.exclude),
        encoding=chat.embedding.encoding if chat.embedding is not None else "float",
    )
    if native is None:
        return reply
    return structs.replace(
        reply,
        tool_names=native.tool_names,
        tools=native.tools,
        hides_reasoning=native.hides_reasoning,
        summarizes_reasoning=native.summarizes_reasoning,
        shows_logprobs=native.shows_logprobs,
        echoed=native.echoed,
    )


def make_exchange(
    runtime: RuntimeConfig,
    chat: ChatRequest,
    target: TargetId,
    frontend: Frontend,
    request_id: str,
    request: UpstreamRequest,
    prompt_tokens: int,
    tokenizer: Tokenizer | None,
    price_of: Callable[[Meter, Usage], float | None] | None = None,
) -> tuple[Exchange | WholeExchange, Meter]:
    """`request`: for the provider. The size of its body bounds a plausible report of prompt tokens.

    `prompt_tokens`: the estimate that was reserved.
    `tokenizer`: the model's own, which counts if usage must be sent to the caller and the provider reported none.
    `price_of`: what the caller pays, in dollars, if it is shown that.
    """
    wire = request.wire
    provider_wire = runtime.chat_wire(target, wire) if chat.api == "chat" else runtime.other_wire(target, chat, wire)
    reply = make_reply(chat, target.model, request_id, prompt_tokens)
    sent_bytes = len(request.body) if not request.more else sum(map(len, (request.body, *request.more)))
    is_unbounded = reads_elsewhere(chat) or has_media(chat)
    bounds = UsageBounds(sent_bytes, max_output_tokens(chat), is_unbounded, runtime.config.store.anomaly_tokens)
    secrets = runtime.secrets[target.provider]
    if tokenizer is None:
        meter = Meter(prompt_tokens, bounds=bounds, secrets=secrets)
    else:
        count_prompt = PromptCount(tokenizer, chat.prompt)
        count = tokenizer.count_on_loop
        meter = Meter(prompt_tokens, count, count_prompt=count_prompt, bounds=bounds, secrets=secrets)
    if price_of is not None:
        meter.record.price_of = partial(price_of, meter)
    kind = Exchange if chat.stream else FoldedExchange if request.is_folded else WholeExchange
    return kind(provider_wire.provider, frontend, reply, plan(provider_wire.native_wire, frontend, reply), meter), meter


def timeouts_of(
    runtime: RuntimeConfig,
    chat: ChatRequest,
    target: TargetId,
    frontend: Frontend,
    arrived_s: float,
    *,
    is_last: bool,
    has_events: bool,
    request_s: float | None = None,
) -> AttemptTimeouts:
    """`is_last`: no further target can be tried after this one. `has_events`: the upstream was asked for a stream.
    `request_s`: the caller's own limit for the whole request."""
    server, own = runtime.timeouts, runtime.provider_for(target).timeouts
    total_s = own.total_s
    if request_s is not None:
        total_s = min(request_s, own.total_s if server.max_request_s is None else server.max_request_s)
    # Nothing of an answer that is not streamed arrives before it is complete, so only the total time bounds it.
    first_event_s = own.first_event_s if has_events else total_s
    if is_last and has_events:
        # No other target can answer: a short timeout that was configured for failover must not end a slow answer.
        first_event_s = max(first_event_s, server.first_event_s)
    return AttemptTimeouts(
        commit_at=arrived_s + own.commit_s,
        total_at=arrived_s + total_s,
        is_callers=total_s == request_s,
        first_event_s=first_event_s,
        idle_s=own.idle_s,
        assembly_s=own.assembly_s,
        keepalive_s=own.keepalive_s if own.keepalive_s < frontend.max_quiet_s else frontend.max_quiet_s,
        silence_s=own.silence_s,
        abandoned_s=own.abandoned_s,
        max_bytes=runtime.max_response_bytes,
        max_output_tokens=max_output_tokens(chat),
    )


def _now() -> int:
    return int(time.time())
