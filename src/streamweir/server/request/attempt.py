"""What one attempt is made of: the request to the upstream, the exchange that reads its answer, and its patience.

Each is made anew for every target that is tried, from the request, the setup it began with and
nothing else. How they are put to work is `server.request.request`.
"""

import time

from msgspec import structs

from streamweir.core.remote import REMOTE_MEMBERS, names_remote_content
from streamweir.core.request import ChatRequest
from streamweir.frontends.base import Frontend, Reply
from streamweir.pipeline.exchange import Exchange, WholeExchange
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.output_limit import with_limit
from streamweir.pipeline.plan import plan
from streamweir.pipeline.plausibility import Scope
from streamweir.policy.route import TargetId
from streamweir.providers.base import UpstreamRequest
from streamweir.server.accounting.token_count import PromptCount, Tokenizer, has_media
from streamweir.server.http.ids import random_bytes
from streamweir.server.relay.deadlines import AttemptTimeouts
from streamweir.server.request.runtime import RuntimeConfig


def build_request(
    setup: RuntimeConfig, chat: ChatRequest, target: TargetId, limit: int | None = None
) -> UpstreamRequest:
    """`limit`: tokens of each choice, in the place of the caller's."""
    asked = chat
    if limit is not None:
        chat = with_limit(chat, limit)
    place = setup.providers[target.provider]
    asks = not setup.refusals.refuses(target)
    request = place.provider.build_request(chat, structs.replace(place.target, model=target.model, asks_for_usage=asks))
    if limit is None or len(chat.body) == len(asked.body):
        return request
    lost = [name for name in asked.body if name not in chat.body]
    return structs.replace(request, dropped=(*request.dropped, *lost))


def make_exchange(
    setup: RuntimeConfig,
    chat: ChatRequest,
    target: TargetId,
    frontend: Frontend,
    sent_bytes: int,
    prompt_tokens: int,
    tokenizer: Tokenizer | None,
) -> tuple[Exchange | WholeExchange, Meter]:
    """`sent_bytes`: of the body that goes to the provider, by which its word on the prompt is judged.

    `prompt_tokens`: as estimated when it was booked.
    `tokenizer`: the model's own, which counts where usage is due to the caller and nobody reported it.
    """
    place = setup.providers[target.provider]
    reply = Reply(
        entropy=random_bytes(24),
        now=_now,
        model=chat.model,
        target_model=target.model,
        choices=chat.n,
        include_usage=chat.include_usage,
        exclude_reasoning=bool(chat.reasoning and chat.reasoning.exclude),
    )
    is_open = not REMOTE_MEMBERS.isdisjoint(chat.body) and names_remote_content(chat.body)
    scope = Scope(sent_bytes, most_output_tokens(chat), is_open or has_media(chat), setup.config.store.anomaly_tokens)
    if tokenizer is None:
        meter = Meter(prompt_tokens, scope=scope)
    else:
        count_prompt = PromptCount(tokenizer, chat.prompt)
        meter = Meter(prompt_tokens, tokenizer.quickly, count_prompt=count_prompt, scope=scope)
    kind = Exchange if chat.stream else WholeExchange
    return kind(place.provider, frontend, reply, plan(place.native_wire, frontend, reply), meter), meter


def timing_of(
    setup: RuntimeConfig, chat: ChatRequest, target: TargetId, arrived_s: float, *, is_last: bool
) -> AttemptTimeouts:
    """`is_last`: nobody can be asked after this one."""
    server, own = setup.timeouts, setup.providers[target.provider].timeouts
    first_event_s = own.first_event_s if chat.stream else server.first_event_s
    if is_last:
        # Nobody else can answer: a short patience that was meant for failing over must not kill a slow answer.
        # A buffered answer shows nothing until it is whole, so only the total time bounds it.
        first_event_s = max(first_event_s, server.first_event_s) if chat.stream else own.total_s
    return AttemptTimeouts(
        commit_at=arrived_s + own.commit_s,
        total_at=arrived_s + own.total_s,
        first_event_s=first_event_s,
        idle_s=own.idle_s,
        assembly_s=own.assembly_s,
        keepalive_s=own.keepalive_s,
        silence_s=own.silence_s,
        abandoned_s=own.abandoned_s,
        most_bytes=setup.most_response_bytes,
        most_output_tokens=most_output_tokens(chat),
    )


def most_output_tokens(chat: ChatRequest) -> int | None:
    """The most that the caller wants, of all choices together. None: it does not say."""
    most = chat.max_output_tokens
    return most if most is None or chat.n == 1 else most * chat.n


def choices_of(chat: ChatRequest) -> int:
    """How many answers are made, and billed: some servers make more of them than they give."""
    if "best_of" not in chat.body:
        return chat.n
    best_of = chat.body["best_of"]
    return max(chat.n, best_of) if isinstance(best_of, int) else chat.n


def _now() -> int:
    return int(time.time())
