"""The route of a request, and the parts of each attempt.

A target that cannot serve the request is not in its route. For each attempt the upstream's request, the exchange and
the timeouts are made from the request and the `RuntimeConfig` that it began with, and nothing else.

The size of a prompt is estimated by a rule of thumb, on the event loop and for every request. If an exact count is
needed, the provider reports it or a tokenizer counts.
"""

import re
import time
from collections.abc import Mapping
from hashlib import sha256
from math import ceil

from msgspec import structs

from streamweir.core.errors import CallerError
from streamweir.core.message import RefusalPart, TextPart
from streamweir.core.remote_content import REMOTE_MEMBERS, references_remote_content
from streamweir.core.request import ChatRequest, NativeRequest
from streamweir.frontends.base import Frontend, Reply
from streamweir.pipeline.exchange import Exchange, WholeExchange
from streamweir.pipeline.folded_exchange import FoldedExchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.output_limit import with_limit
from streamweir.pipeline.plan import plan
from streamweir.pipeline.plausibility import UsageBounds
from streamweir.pipeline.settlement import BYTES_PER_TOKEN, size_of
from streamweir.policy.access import Key
from streamweir.policy.health import Candidate, TargetId
from streamweir.policy.route import Route, RouteTarget
from streamweir.providers.base import UpstreamRequest
from streamweir.server.accounting.reservation import Reservation
from streamweir.server.accounting.token_count import PromptCount, Tokenizer, has_media
from streamweir.server.http.ids import random_bytes
from streamweir.server.relay.deadlines import AttemptTimeouts
from streamweir.server.request.body_changes import with_rules
from streamweir.server.request.folding import is_folded
from streamweir.server.request.model_names import unusable_model
from streamweir.server.request.runtime import RuntimeConfig
from streamweir.wire import jsonio
from streamweir.wire.native import NativeWire


def find_route(runtime: RuntimeConfig, key: Key, chat: ChatRequest) -> Route:
    """The route for the requested model name, if the key may use it."""
    model = chat.model or runtime.default_model
    if model is None:
        raise CallerError("missing_required_parameter", "Missing required parameter: 'model'.", param="model")
    route = runtime.routes.resolve(model)
    if route is None or not key.may_use(model):
        raise unusable_model(runtime, key, model)
    return route


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


_TOKENS_PER_PART = 1024
"""An image or a recording: the tokens of a large image, with the providers that document it."""
_TOKENS_PER_MESSAGE, _FEW_MESSAGES = 4, 16
"""The tokens of a message besides its text: negligible, except in requests with thousands of very short messages."""
_MAX_KEY_LENGTH = 255
_INDEX = re.compile(r"\[\d+\]")
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")


def estimate_prompt(chat: ChatRequest) -> int:
    size, tokens = 0, _TOKENS_PER_MESSAGE * max(0, len(chat.messages) - _FEW_MESSAGES)
    for message in chat.messages:
        content = message.content
        if isinstance(content, str):
            size += size_of(content)
        elif content is not None:
            for part in content:
                if isinstance(part, TextPart):
                    size += size_of(part.text)
                elif isinstance(part, RefusalPart):
                    size += size_of(part.refusal)
                else:
                    tokens += _TOKENS_PER_PART
        for call in message.tool_calls:
            if call.function is not None:
                size += size_of(call.function.arguments)
    if chat.tools:
        size += len(jsonio.encode(chat.tools))
    if not chat.messages:
        tokens = chat.tokens
        size += sum(map(size_of, chat.texts))
    return tokens + ceil(size / BYTES_PER_TOKEN)


def read_idempotency(headers: Mapping[str, str], body: bytes) -> tuple[bytes | None, bytes | None]:
    """The digests of the caller's `Idempotency-Key` and of the body that belongs to it."""
    sent = headers.get("idempotency-key")
    if sent is None:
        return None, None
    if not 0 < len(sent) <= _MAX_KEY_LENGTH:
        raise CallerError("invalid_value", f"An Idempotency-Key has 1 to {_MAX_KEY_LENGTH} characters.")
    return sha256(sent.encode("latin-1", "replace")).digest(), sha256(body).digest()


def read_timeout(headers: Mapping[str, str]) -> float | None:
    """The caller's own limit for the whole request, in seconds. None: it has set none."""
    sent = headers.get("x-request-timeout")
    if sent is None:
        return None
    seconds = float(sent) if _SECONDS.fullmatch(sent) else 0.0
    if seconds <= 0.0:
        raise CallerError(
            "invalid_value", "x-request-timeout must be a number of seconds above 0, such as 30 or 2.5, without a unit."
        )
    return seconds


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
    provider_wire = runtime.chat_wire(target) if chat.api == "chat" else runtime.other_wire(target, chat)
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
    if folds:
        request = structs.replace(request, is_folded=True)
    if limit is not None and len(chat.body) < len(original.body):
        dropped = [name for name in original.body if name not in chat.body]
        request = structs.replace(request, dropped=(*request.dropped, *dropped))
    native = chat.native
    is_passed = native is not None and (native.wire == provider_wire.native_wire or is_text(runtime, chat, target))
    rules = runtime.provider_for(target).rules
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
) -> tuple[Exchange | WholeExchange, Meter]:
    """`request`: for the provider. The size of its body bounds a plausible report of prompt tokens.

    `prompt_tokens`: the estimate that was reserved.
    `tokenizer`: the model's own, which counts if usage must be sent to the caller and the provider reported none.
    """
    wire = request.wire
    provider_wire = runtime.chat_wire(target, wire) if chat.api == "chat" else runtime.other_wire(target, chat, wire)
    reply = make_reply(chat, target.model, request_id, prompt_tokens)
    is_unbounded = not REMOTE_MEMBERS.isdisjoint(chat.body) and references_remote_content(chat.body)
    sent_bytes = len(request.body) if not request.more else sum(map(len, (request.body, *request.more)))
    bounds = UsageBounds(
        sent_bytes, max_output_tokens(chat), is_unbounded or has_media(chat), runtime.config.store.anomaly_tokens
    )
    if tokenizer is None:
        meter = Meter(prompt_tokens, bounds=bounds)
    else:
        count_prompt = PromptCount(tokenizer, chat.prompt)
        meter = Meter(prompt_tokens, tokenizer.count_on_loop, count_prompt=count_prompt, bounds=bounds)
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


def max_output_tokens(chat: ChatRequest, longest: int | None = None) -> int | None:
    """The caller's limit, for all choices together. None: there is none.

    `longest`: the longest answer of any of its targets, for each choice. None: not known.
    """
    limit = chat.max_output_tokens
    if limit is not None and longest is not None:
        limit = min(limit, longest)
    return limit if limit is None or chat.n == 1 else limit * chat.n


def choices_of(chat: ChatRequest) -> int:
    """The number of answers that are made and billed: some servers make more of them than they send."""
    body = chat.native.body if chat.api == "completions" and chat.native is not None else chat.body
    if "best_of" not in body:
        return chat.n
    best_of = body["best_of"]
    return max(chat.n, best_of * chat.prompts) if isinstance(best_of, int) else chat.n


def _now() -> int:
    return int(time.time())
