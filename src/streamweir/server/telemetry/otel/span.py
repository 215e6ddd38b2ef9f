"""The spans of a request, from its record: one for the request, and one for each attempt below it.

They are made once, when the request is over; while it runs, nothing is done for them. The span of an attempt is the
"inference" of the conventions for generative AI: it alone has tokens, parameters and content, so that nothing is
counted twice. What repeats from request to request is encoded once (the functions with a cache); what remains are
ids, times and numbers. Text from outside is sanitized as in the log, before it is encoded.
"""

import struct
from functools import lru_cache

from streamweir.core.usage import Usage
from streamweir.policy.trace_context import RequestTrace
from streamweir.server.telemetry.attempt_members import known_members
from streamweir.server.telemetry.log_line import FINE
from streamweir.server.telemetry.otel.operation import OWN, Destinations, is_of_model, operation_in
from streamweir.server.telemetry.otel.protobuf import (
    IntField,
    TextField,
    Value,
    attribute,
    fits_int64,
    fixed64,
    message,
    tag,
    text,
)
from streamweir.server.telemetry.record import AttemptRecord, RequestRecord
from streamweir.server.telemetry.sanitize import clean, clean_id

SPAN = tag(2)
"""The field of a span in the spans of a scope."""
_PARENT_ID, _STATE, _NAME = b'"\x08', tag(3), tag(5)
_EVENT, _EVENT_TIME, _EVENT_NAME = tag(11), b"\t", tag(2)
_STATUS, _STATUS_TEXT, _STATUS_ERROR = tag(15), tag(2), b"\x18\x02"
_LOCAL_PARENT, _REMOTE_PARENT = b"\x85\x01\x01\x01\x00\x00", b"\x85\x01\x01\x03\x00\x00"
"""The flags: sampled, and whether the parent is in another process."""
_START_OF_SPAN = struct.Struct("<2s16s2s8s3sQcQ").pack
"""The ids of trace and span, the kind, the start and the end: each behind its tag and, if it has one, its length."""
_TRACE_ID, _SPAN_ID, _END = b"\n\x10", b"\x12\x08", b"A"
_SERVER, _CLIENT = b"0\x029", b"0\x039"
"""The kind, and the tag of the start."""
_NANOS_OF_MS = 1_000_000
_NANOS = 1_000_000_000
NANO_DOLLARS = 1e9

OPTIONS = (
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "choice.count",
)
"""The parameters in `RequestTrace.options`, in this order."""
_WHOLE = frozenset({"max_tokens", "seed", "choice.count"})

_REQUEST_ID = TextField("streamweir.request.id")
_SESSION = TextField("gen_ai.conversation.id")
_RESPONSE_ID = TextField("gen_ai.response.id")
_PROVIDER_REQUEST_ID = TextField("streamweir.provider.request_id")
_INPUT = IntField("gen_ai.usage.input_tokens")
_OUTPUT = IntField("gen_ai.usage.output_tokens")
_CACHE_READ = IntField("gen_ai.usage.cache_read.input_tokens")
_CACHE_WRITE = IntField("gen_ai.usage.cache_creation.input_tokens")
_REASONING = IntField("gen_ai.usage.reasoning.output_tokens")


class _Event:
    """An event without attributes, of which only the time changes."""

    __slots__ = ("_after", "_before")

    def __init__(self, name: str) -> None:
        self._after = text(_EVENT_NAME, name)
        self._before = message(_EVENT, _EVENT_TIME + bytes(8) + self._after)[: -8 - len(self._after)]

    def at(self, nanos: int) -> bytes:
        return self._before + fixed64(nanos) + self._after


_FIRST_TOKEN = _Event("streamweir.first_token")
_ANSWER_END = _Event("streamweir.end")


class SpanWriter:
    def __init__(self, destinations: Destinations, *, shows_costs: bool) -> None:
        self._destinations = destinations
        self._shows_costs = shows_costs
        self._attempt_attributes = lru_cache(maxsize=2048)(self._encode_attempt)

    def write(self, record: RequestRecord, trace: RequestTrace, content: bytes = b"") -> tuple[bytes, int]:
        """The spans of a scope, and their number. `content`: attributes for the last attempt."""
        own_id = trace.span_id.to_bytes(8, "big")
        spans = self._request(record, trace, own_id)
        attempts = record.attempts
        count = len(attempts)
        for number, attempt in enumerate(attempts, 1):
            spans += self._attempt(record, trace, attempt, number, own_id, content if number == count else b"")
        return spans, 1 + count

    def _request(self, record: RequestRecord, trace: RequestTrace, own_id: bytes) -> bytes:
        attempts, verdict, status = record.attempts, record.verdict, record.status
        start = record.at_ms * _NANOS_OF_MS
        end = start + int(record.duration_s * _NANOS)
        error = record.error or (None if verdict in FINE else verdict)
        parts = [
            _START_OF_SPAN(_TRACE_ID, trace.trace_id, _SPAN_ID, own_id, _SERVER, start, _END, end),
            _request_attributes(
                record.method,
                record.path,
                record.model,
                status,
                verdict,
                error,
                record.dialect,
                record.key,
                record.workspace_id,
                attempts[-1].target if attempts else None,
                record.stream,
                record.attribution.tags,
                record.flags,
                record.peer,
                record.client,
            ),
            _REQUEST_ID.encode(record.id),
            _LOCAL_PARENT if not trace.parent_id else _PARENT_ID + trace.parent_id + _REMOTE_PARENT,
        ]
        if status:
            parts.append(_ANSWER_END.at(end))
        if record.ttft_s is not None:
            parts.append(_FIRST_TOKEN.at(start + int(record.ttft_s * _NANOS)))
        if trace.state:
            parts.append(text(_STATE, trace.state))
        if record.attribution.session:
            parts.append(_SESSION.encode(record.attribution.session))
        if status >= 500 or verdict not in FINE:
            parts.append(_failed(error or ""))
        if self._shows_costs:
            parts.append(
                _encode({"streamweir.cost_usd": _usd(record.cost), "streamweir.price_usd": _usd(record.price)})
            )
        return message(SPAN, b"".join(parts))

    def _attempt(
        self,
        record: RequestRecord,
        trace: RequestTrace,
        attempt: AttemptRecord,
        number: int,
        own_id: bytes,
        content: bytes,
    ) -> bytes:
        """The answer belongs to the last one."""
        start = record.at_ms * _NANOS_OF_MS
        began = start + int(attempt.start_s * _NANOS)
        end = began + int(attempt.duration_s * _NANOS)
        span_id, call, is_last = (
            (trace.span_id + number).to_bytes(8, "big"),
            attempt.trace,
            attempt is record.attempts[-1],
        )
        parts = [
            _START_OF_SPAN(_TRACE_ID, trace.trace_id, _SPAN_ID, span_id, _CLIENT, began, _END, end),
            _PARENT_ID,
            own_id,
            _LOCAL_PARENT,
            self._attempt_attributes(
                attempt.target,
                record.dialect,
                attempt.credential,
                attempt.status,
                attempt.error,
                attempt.model,
                record.stream,
                attempt.resends,
                call.address if call is not None else "",
                call is not None and call.via_proxy,
                call is not None and call.is_reused,
                record.finish if is_last else None,
                record.usage_source if is_last else None,
                record.service_tier if is_last else None,
                trace.options if is_last else (),
            ),
            content,
        ]
        if attempt.provider_request_id:
            parts.append(_PROVIDER_REQUEST_ID.encode(clean_id(attempt.provider_request_id)))
        if attempt.error is not None:
            parts.append(_failure(attempt))
        if is_last:
            if record.completion_id:
                parts.append(_RESPONSE_ID.encode(clean_id(record.completion_id)))
            if record.ttft_s is not None:
                parts.append(_FIRST_TOKEN.at(start + int(record.ttft_s * _NANOS)))
            if record.usage is not None:
                parts.append(_usage(record.usage))
        return message(SPAN, b"".join(parts))

    def _encode_attempt(
        self,
        target: str,
        dialect: str | None,
        credential: str,
        status: int,
        error: str | None,
        response_model: str | None,
        is_stream: bool,
        resends: int,
        address: str,
        via_proxy: bool,
        is_reused: bool,
        finish: str | None,
        usage_source: str | None,
        service_tier: str | None,
        options: tuple[float | int | None, ...],
    ) -> bytes:
        """With the name of the span."""
        destination, operation, model = self._destinations.of(target), operation_in(dialect), target.partition("/")[2]
        host, _, port = address.rpartition(":")
        name = f"{operation} {clean(model)}"
        return text(_NAME, name) + _encode(
            {
                "gen_ai.operation.name": operation,
                "gen_ai.provider.name": destination.provider,
                "gen_ai.request.model": clean(model),
                "gen_ai.request.stream": is_stream or None,
                **_parameters(options),
                "gen_ai.response.model": clean(response_model) if response_model else None,
                "gen_ai.response.finish_reasons": (clean(finish),) if finish else (),
                "server.address": destination.host,
                "server.port": destination.port or None,
                "network.peer.address": host.strip("[]"),
                "network.peer.port": int(port) if port.isdigit() else None,
                "http.response.status_code": status or None,
                "http.request.resend_count": resends or None,
                "error.type": error,
                "streamweir.target": clean(target),
                "streamweir.credential": clean(credential),
                "streamweir.connection.reused": is_reused if address else None,
                "streamweir.connection.via_proxy": via_proxy or None,
                "streamweir.usage.source": usage_source,
                "streamweir.service_tier": clean(service_tier) if service_tier else None,
            }
        )


def _usage(usage: Usage) -> bytes:
    written = _INPUT.encode(usage.prompt_tokens) + _OUTPUT.encode(usage.completion_tokens)
    if usage.cache_read is not None:
        written += _CACHE_READ.encode(usage.cache_read)
    cache_write = usage.cache_write
    if cache_write is not None:
        written += _CACHE_WRITE.encode(cache_write)
    return written if usage.reasoning is None else written + _REASONING.encode(usage.reasoning)


@lru_cache(maxsize=2048)
def _request_attributes(
    method: str,
    path: str,
    model: str | None,
    status: int,
    verdict: str | None,
    error: str | None,
    dialect: str | None,
    key: str | None,
    workspace_id: str | None,
    target: str | None,
    is_stream: bool,
    tags: tuple[str, ...],
    flags: tuple[str, ...],
    peer: str,
    client: str | None,
) -> bytes:
    """With the name of the span. A request without an operation is an HTTP request like any other."""
    operation = operation_in(dialect) if target or is_of_model(path) else None
    shown = clean(model) if model and operation else None
    name = f"{operation} {shown}" if shown and target else operation or method
    return text(_NAME, name) + _encode(
        {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": OWN if operation else None,
            "gen_ai.request.model": shown,
            "gen_ai.request.stream": True if operation and is_stream else None,
            "http.request.method": method,
            "url.path": clean(path),
            "http.response.status_code": status or None,
            "error.type": error,
            "client.address": peer,
            "user_agent.original": clean(client) if client else None,
            "streamweir.verdict": verdict,
            "streamweir.api": dialect,
            "streamweir.key": clean(key) if key else None,
            "streamweir.workspace.id": workspace_id,
            "streamweir.target": clean(target) if target else None,
            "streamweir.tags": tags,
            "streamweir.flags": flags,
        }
    )


def _parameters(options: tuple[float | int | None, ...]) -> dict[str, float | int]:
    """Equal numbers of two types share a place in the cache, so that each parameter has a type of its own."""
    sent = [(name, each) for name, each in zip(OPTIONS, options, strict=False) if each is not None]
    return {f"gen_ai.request.{name}": int(each) if name in _WHOLE else float(each) for name, each in sent}


def _usd(nano: int | None) -> float | None:
    return None if nano is None else nano / NANO_DOLLARS


def _failure(attempt: AttemptRecord) -> bytes:
    """What the provider says about it, as in the log line."""
    members = known_members(attempt)
    names = ("provider_code", "provider_type", "provider_param", "provider_message", "advice")
    known = {f"streamweir.{name.replace('provider_', 'provider.')}": members.get(name) for name in names}
    return _encode(known) + _failed(clean(attempt.error or ""))


def _failed(reason: str) -> bytes:
    return message(_STATUS, text(_STATUS_TEXT, reason) + _STATUS_ERROR)


def _encode(values: dict[str, Value | None]) -> bytes:
    """Without what is not known."""
    known = [(name, value) for name, value in values.items() if value is not None and value != "" and value != ()]
    return b"".join([attribute(*each) for each in known if not isinstance(each[1], int) or fits_int64(each[1])])
