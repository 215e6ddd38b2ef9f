"""The log line of a request: its known values, sanitized, in a fixed order.

There is one for every request. So it does not use the general path (`server.telemetry.log`), which checks every value
of any event: here each field has its type, text from callers, providers and the configuration is sanitized when it is
set, and the line is encoded directly. Unknown values are left out. This module does not depend on the output or the
log level.
"""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict
from streamweir.pipeline.settlement import UsageSource
from streamweir.policy.attribution import NOTHING
from streamweir.server.telemetry.attempt_members import known_members
from streamweir.server.telemetry.record import AttemptRecord, RequestRecord
from streamweir.server.telemetry.sanitize import clean, clean_id

MAX_ITEMS = 50
"""The maximum length of a list in a log line."""

FINE = frozenset({Verdict.COMPLETED, Verdict.LENGTH, Verdict.FILTERED, Verdict.REJECTED, Verdict.CLIENT_GONE})
"""Everything worked, or the caller is the cause."""


class AttemptPart(Struct, kw_only=True, omit_defaults=True, gc=False):
    target: str
    credential: str | None = None
    duration_s: float
    error: str | None = None
    resends: int = 0
    status: int = 0
    provider_code: str | None = None
    provider_type: str | None = None
    provider_param: str | None = None
    provider_message: str | None = None
    advice: str | None = None
    provider_request_id: str | None = None
    address: str | None = None
    via_proxy: bool = False
    reused: bool = False
    dns_s: float | None = None
    connect_s: float | None = None
    tls_s: float | None = None
    first_byte_s: float | None = None


class UsagePart(Struct, kw_only=True, omit_defaults=True, gc=False):
    prompt_tokens: int
    completion_tokens: int
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None


class RequestLine(Struct, kw_only=True, omit_defaults=True, gc=False):
    """A field without a default is on every line."""

    time: str
    level: str
    event: Literal["request"]
    node: str | None = None
    worker: int | None = None
    id: str
    status: int
    verdict: Verdict | None = None
    error: str | None = None
    key: str | None = None
    dialect: str | None = None
    model: str | None = None
    session: str | None = None
    tags: tuple[str, ...] = ()
    target: str | None = None
    attempts: list[AttemptPart] | None = None
    stream: bool
    finish: str | None = None
    ttft_s: float | None = None
    duration_s: float
    bytes_out: int
    usage: UsagePart | None = None
    usage_source: UsageSource | None = None
    dropped: list[str] | None = None
    method: str | None = None
    path: str | None = None
    peer: str | None = None
    client_id: str | None = None
    client_ids: dict[str, str] | None = None
    completion_id: str | None = None
    trace_id: str | None = None


def level_of(record: RequestRecord) -> Literal["info", "warning", "error"]:
    if record.verdict is Verdict.GATEWAY_FAULT:
        return "error"
    if record.status >= 500 or (record.verdict is not None and record.verdict not in FINE):
        return "warning"
    return "info"


def line_of(record: RequestRecord, level: str, now: float, node: str | None, worker: int | None) -> RequestLine:
    """In steps: a call with more than fifteen keyword arguments goes through a dict, and takes five times as long."""
    line = RequestLine(
        time=written(now),
        level=level,
        event="request",
        node=node,
        worker=worker,
        id=clean_id(record.id),
        status=record.status,
        verdict=record.verdict,
        stream=record.stream,
        duration_s=round(record.duration_s, 6),
        bytes_out=record.bytes_out,
        usage_source=record.usage_source,
    )
    if record.error:
        line.error = clean(record.error)
    if record.key:
        line.key = clean(record.key)
    if record.dialect:
        line.dialect = clean(record.dialect)
    if record.model:
        line.model = clean(record.model)
    if record.attribution is not NOTHING:
        said = record.attribution
        line.session, line.tags = said.session, said.tags  # no end user: it may be a person's name or address
    if record.attempts:
        line.attempts = [_attempt(attempt) for attempt in record.attempts[:MAX_ITEMS]]
        line.target = line.attempts[-1].target
    if record.finish:
        line.finish = clean(record.finish)
    if record.ttft_s is not None:
        line.ttft_s = round(record.ttft_s, 6)
    if record.usage is not None:
        line.usage = _usage(record.usage, record.tokens)
    if record.dropped:
        line.dropped = [clean(name) for name in record.dropped[:MAX_ITEMS]]
    _add_caller(line, record)
    return line


def _add_caller(line: RequestLine, record: RequestRecord) -> None:
    if record.method:
        line.method = clean(record.method)
    if record.path:
        line.path = clean(record.path)
    if record.peer:
        line.peer = clean(record.peer)
    if record.client_id:
        line.client_id = clean(record.client_id)
    if record.client_ids:
        line.client_ids = {name: clean_id(id) for name, id in record.client_ids.items()}
    if record.completion_id:
        line.completion_id = clean_id(record.completion_id)
    if record.trace is not None:
        line.trace_id = record.trace.trace_id.hex()


def written(now: float) -> str:
    """A time in UTC, to the millisecond."""
    second, microseconds = divmod(round(now * 1_000_000), 1_000_000)
    return f"{_second(second)}.{microseconds // 1000:03d}Z"


@lru_cache(maxsize=1)
def _second(second: int) -> str:
    """Cached for all lines of the same second: formatting it takes longer than all numbers of the line."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _attempt(attempt: AttemptRecord) -> AttemptPart:
    return AttemptPart(
        target=clean(attempt.target),
        duration_s=round(attempt.duration_s, 6),
        error=clean(attempt.error) if attempt.error is not None else None,
        resends=attempt.resends,
        **known_members(attempt),
    )


def _usage(usage: Usage, tokens: tuple[int, int]) -> UsagePart:
    prompt, completion = tokens
    return UsagePart(
        prompt_tokens=prompt,
        completion_tokens=completion,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        reasoning=usage.reasoning,
    )
