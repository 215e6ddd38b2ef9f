"""The spans of a request, from its record: one for the request, and one for each attempt below it.

They are made once, when the request is over; while it runs, nothing is done for them. The span of an attempt is the
"inference" of the conventions for generative AI: it alone has tokens, parameters and content, so that nothing is
counted twice. What repeats from request to request is encoded once (the functions with a cache); what remains are
ids, times and numbers. Text from outside is sanitized as in the log, before it is encoded.
"""

from functools import lru_cache

from streamweir.core.usage import Usage
from streamweir.policy.trace_context import RequestTrace
from streamweir.server.telemetry.attempt_members import known_members
from streamweir.server.telemetry.log_line import level_of
from streamweir.server.telemetry.otel.operation import OWN, Destination, Destinations, operation_of
from streamweir.server.telemetry.otel.protobuf import (
    IntField,
    TextField,
    Value,
    attribute,
    cached_attribute,
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
_TRACE_ID, _SPAN_ID, _PARENT_ID = b"\n\x10", b"\x12\x08", b'"\x08'
"""With their lengths."""
_STATE, _NAME = tag(3), tag(5)
_SERVER, _CLIENT = b"0\x02", b"0\x03"
_START, _END = b"9", b"A"
_EVENT, _EVENT_TIME, _EVENT_NAME = tag(11), b"\t", tag(2)
_FAILED = tag(15)
_STATUS_TEXT, _STATUS_ERROR = tag(2), b"\x18\x02"
_LOCAL_PARENT, _REMOTE_PARENT = b"\x85\x01\x01\x01\x00\x00", b"\x85\x01\x01\x03\x00\x00"
"""The flags: sampled, and whether the parent is in another process."""
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
_RESPONSE_ID = TextField("gen_ai.response.id")
_PROVIDER_REQUEST_ID = TextField("streamweir.provider.request_id")
_INPUT = IntField("gen_ai.usage.input_tokens")
_OUTPUT = IntField("gen_ai.usage.output_tokens")
_CACHE_READ = IntField("gen_ai.usage.cache_read.input_tokens")
_CACHE_WRITE = IntField("gen_ai.usage.cache_creation.input_tokens")
_REASONING = IntField("gen_ai.usage.reasoning.output_tokens")
_BYTES_OUT = IntField("http.response.body.size")


class _Event:
    """An event without attributes, of which only the time changes."""

    __slots__ = ("_after", "_before")

    def __init__(self, name: str) -> None:
        self._after = text(_EVENT_NAME, name)
        self._before = message(_EVENT, _EVENT_TIME + bytes(8) + self._after)[: -8 - len(self._after)]

    def at(self, nanos: int) -> bytes:
        return self._before + fixed64(nanos) + self._after


_HEAD = _Event("streamweir.response_head")
_FIRST_TOKEN = _Event("streamweir.first_token")
_ANSWER_END = _Event("streamweir.end")


class SpanWriter:
    def __init__(self, destinations: Destinations, *, shows_costs: bool) -> None:
        self._destinations = destinations
        self._shows_costs = shows_costs

    def write(self, record: RequestRecord, trace: RequestTrace, content: bytes = b"") -> tuple[bytes, int]:
        """The spans of a scope, and their number. `content`: attributes for the last attempt."""
        start = record.at_ms * _NANOS_OF_MS
        ids = _TRACE_ID + trace.trace_id + _SPAN_ID
        own_id = trace.span_id.to_bytes(8, "big")
        operation, attempts = operation_of(record), record.attempts
        spans = [message(SPAN, self._request(record, trace, operation, ids + own_id, start))]
        for number, attempt in enumerate(attempts, 1):
            head = b"%b%b%b%b" % (ids, (trace.span_id + number).to_bytes(8, "big"), _PARENT_ID, own_id)
            more = self._result(record, trace, start) + content if number == len(attempts) else b""
            spans.append(message(SPAN, self._attempt(record, attempt, operation or "chat", head, start, more)))
        return b"".join(spans), len(spans)

    def _request(
        self, record: RequestRecord, trace: RequestTrace, operation: str | None, ids: bytes, start: int
    ) -> bytes:
        end = start + int(record.duration_s * _NANOS)
        level = level_of(record)
        parts = [
            ids,
            _SERVER,
            _START,
            fixed64(start),
            _END,
            fixed64(end),
            _request_attributes(
                operation,
                record.method,
                record.path,
                record.model,
                record.status,
                record.verdict,
                record.error if record.error or level == "info" else record.verdict,
                record.dialect,
                record.key,
                record.workspace_id,
                record.target,
                record.stream,
                record.attribution.tags,
                record.flags,
            ),
            _caller_attributes(record.peer, record.client),
            _REQUEST_ID.encode(record.id),
            _BYTES_OUT.encode(record.bytes_out),
            _LOCAL_PARENT,
        ]
        if trace.parent_id:
            parts[-1] = _PARENT_ID + trace.parent_id + _REMOTE_PARENT
            if trace.state:
                parts.append(text(_STATE, trace.state))
        if record.attribution.session:
            parts.append(cached_attribute("gen_ai.conversation.id", record.attribution.session))
        if record.ttft_s is not None:
            parts.append(_FIRST_TOKEN.at(start + int(record.ttft_s * _NANOS)))
        if record.status:
            parts.append(_ANSWER_END.at(end))
        if level != "info":
            parts.append(_status(record.error or record.verdict or ""))
        if self._shows_costs:
            for name, nano in (("streamweir.cost_usd", record.cost), ("streamweir.price_usd", record.price)):
                if nano is not None:
                    parts.append(attribute(name, nano / NANO_DOLLARS))
        return b"".join(parts)

    def _attempt(
        self, record: RequestRecord, attempt: AttemptRecord, operation: str, head: bytes, start: int, more: bytes
    ) -> bytes:
        began = start + int(attempt.start_s * _NANOS)
        parts = [
            head,
            _CLIENT,
            _START,
            fixed64(began),
            _END,
            fixed64(began + int(attempt.duration_s * _NANOS)),
            _attempt_attributes(
                self._destinations.of(attempt.target),
                operation,
                attempt.target,
                attempt.credential,
                attempt.status,
                attempt.error,
                attempt.model,
                record.stream,
                attempt.resends,
            ),
            more,
            _LOCAL_PARENT,
        ]
        call = attempt.trace
        if call is not None:
            parts.append(_connection_attributes(call.address, call.via_proxy, call.is_reused))
            if call.sent_at is not None and attempt.first_byte_s is not None:
                parts.append(_HEAD.at(start + int((call.sent_at - record.arrived_s + attempt.first_byte_s) * _NANOS)))
        if attempt.provider_request_id:
            parts.append(_PROVIDER_REQUEST_ID.encode(clean_id(attempt.provider_request_id)))
        if attempt.error is not None:
            parts.append(_failure(attempt))
        return b"".join(parts)

    def _result(self, record: RequestRecord, trace: RequestTrace, start: int) -> bytes:
        """What is known of the answer, and belongs to the attempt that gave it."""
        parts = [_result_attributes(record.finish, record.usage_source, record.service_tier), _options(trace.options)]
        if record.completion_id:
            parts.append(_RESPONSE_ID.encode(clean_id(record.completion_id)))
        if record.ttft_s is not None:
            parts.append(_FIRST_TOKEN.at(start + int(record.ttft_s * _NANOS)))
        if record.usage is not None:
            parts.append(_usage(record.usage))
        return b"".join(parts)


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
    operation: str | None,
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
) -> bytes:
    """With the name of the span. A request without an operation is an HTTP request like any other."""
    shown = clean(model) if model else None
    name = f"{operation} {shown}" if operation and shown and target else operation or method
    return text(_NAME, name) + _encode(
        {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": OWN if operation else None,
            "gen_ai.request.model": shown if operation else None,
            "gen_ai.request.stream": True if operation and is_stream else None,
            "http.request.method": method,
            "url.path": clean(path),
            "http.response.status_code": status or None,
            "error.type": error,
            "streamweir.verdict": verdict,
            "streamweir.api": dialect,
            "streamweir.key": clean(key) if key else None,
            "streamweir.workspace.id": workspace_id,
            "streamweir.target": clean(target) if target else None,
            "streamweir.tags": tags,
            "streamweir.flags": flags,
        }
    )


@lru_cache(maxsize=2048)
def _caller_attributes(peer: str, client: str | None) -> bytes:
    return _encode({"client.address": peer, "user_agent.original": clean(client) if client else None})


@lru_cache(maxsize=2048)
def _attempt_attributes(
    destination: Destination,
    operation: str,
    target: str,
    credential: str,
    status: int,
    error: str | None,
    response_model: str | None,
    is_stream: bool,
    resends: int,
) -> bytes:
    model = clean(target.partition("/")[2])
    return text(_NAME, f"{operation} {model}") + _encode(
        {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": destination.provider,
            "gen_ai.request.model": model,
            "gen_ai.request.stream": is_stream or None,
            "gen_ai.response.model": clean(response_model) if response_model else None,
            "server.address": destination.host,
            "server.port": destination.port or None,
            "http.response.status_code": status or None,
            "http.request.resend_count": resends or None,
            "error.type": error,
            "streamweir.target": clean(target),
            "streamweir.credential": clean(credential),
        }
    )


@lru_cache(maxsize=2048)
def _connection_attributes(address: str, via_proxy: bool, is_reused: bool) -> bytes:
    host, _, port = address.rpartition(":")
    return _encode(
        {
            "network.peer.address": host.strip("[]"),
            "network.peer.port": int(port) if port.isdigit() else None,
            "streamweir.connection.reused": is_reused,
            "streamweir.connection.via_proxy": via_proxy or None,
        }
    )


@lru_cache(maxsize=1024)
def _result_attributes(finish: str | None, usage_source: str | None, service_tier: str | None) -> bytes:
    return _encode(
        {
            "gen_ai.response.finish_reasons": (clean(finish),) if finish else (),
            "streamweir.usage.source": usage_source,
            "streamweir.service_tier": clean(service_tier) if service_tier else None,
        }
    )


@lru_cache(maxsize=1024)
def _options(options: tuple[float | int | None, ...]) -> bytes:
    """Equal numbers of another type share a place in the cache, so that each parameter has a type of its own."""
    sent = [(name, each) for name, each in zip(OPTIONS, options, strict=False) if each is not None]
    return _encode({f"gen_ai.request.{name}": int(each) if name in _WHOLE else float(each) for name, each in sent})


def _failure(attempt: AttemptRecord) -> bytes:
    """What the provider says about it, as in the log line."""
    members = known_members(attempt)
    names = ("provider_code", "provider_type", "provider_param", "provider_message", "advice")
    known = {f"streamweir.{name.replace('provider_', 'provider.')}": members.get(name) for name in names}
    return _encode(known) + _status(clean(attempt.error or ""))


def _status(reason: str) -> bytes:
    return message(_FAILED, text(_STATUS_TEXT, reason) + _STATUS_ERROR)


def _encode(values: dict[str, Value | None]) -> bytes:
    """Without what is not known."""
    known = [(name, value) for name, value in values.items() if value is not None and value != "" and value != ()]
    return b"".join([attribute(*each) for each in known if not isinstance(each[1], int) or fits_int64(each[1])])
