"""The trace of a request: where it begins, and how it goes on at a provider.

Only if the operator has configured a collector for traces, and the caller has a valid key: whoever has none can neither
choose an id nor make the gateway send anything. What is known of the request is not looked at here; its spans are made
from its record (`server.telemetry.otel`).
"""

from collections.abc import Mapping

from msgspec import structs

from streamweir.config.model import Config
from streamweir.config.model import Provider as ProviderConfig
from streamweir.core.request import ChatRequest
from streamweir.policy.trace_context import (
    ENTROPY_BYTES,
    RequestTrace,
    TracePolicy,
    begin_trace,
    threshold_of,
)
from streamweir.providers.base import UpstreamRequest
from streamweir.server.http.ids import random_bytes


def trace_policy_of(config: Config) -> TracePolicy | None:
    settings = config.telemetry
    if not settings.has_traces:
        return None
    return TracePolicy(
        callers=settings.callers,
        threshold=threshold_of(settings.sample_ratio),
        sends_traceparent=settings.send_traceparent,
    )


def new_trace(policy: TracePolicy, headers: Mapping[str, str]) -> RequestTrace:
    return begin_trace(policy, headers, random_bytes(ENTROPY_BYTES))


def traced(
    request: UpstreamRequest,
    trace: RequestTrace,
    attempt: int,
    chat: ChatRequest,
    limit: int | None,
    policy: TracePolicy | None,
    provider: ProviderConfig,
) -> UpstreamRequest:
    """The request of the attempt with this number. `limit`: the output limit that is sent instead of the caller's."""
    if trace.is_sampled:
        trace.options = (
            chat.temperature,
            chat.top_p,
            chat.top_k,
            chat.max_output_tokens if limit is None else limit,
            chat.seed,
            chat.frequency_penalty,
            chat.presence_penalty,
            chat.n if chat.n > 1 else None,
        )
    sends = provider.send_traceparent
    if sends is None:
        sends = policy is not None and policy.sends_traceparent
    return structs.replace(request, trace_headers=trace.headers(attempt)) if sends else request
