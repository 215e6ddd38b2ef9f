"""The line of a request in the log: what is known of it, clean, in the order in which it is read.

There is one for every request. So it does not go the long way of other events (`server.telemetry.log`), which
looks at every value of any event: here each field has its type, whatever a caller, a provider or the
configuration has worded is cleaned where it is taken, and the line is encoded as it stands. What is
not known is left out. Where lines go, and from which level on, is not known here.
"""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict
from streamweir.pipeline.settlement import UsageSource
from streamweir.server.telemetry.record import AttemptRecord, RequestRecord
from streamweir.server.telemetry.sanitize import clean, clean_id

MOST_ITEMS = 50
"""Of any list, in any line of the log."""

_FINE = frozenset({Verdict.COMPLETED, Verdict.LENGTH, Verdict.FILTERED, Verdict.REJECTED, Verdict.CLIENT_GONE})


class AttemptPart(Struct, kw_only=True, omit_defaults=True, gc=False):
    target: str
    duration_s: float
    error: str | None = None
    resends: int = 0


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
    completion_id: str | None = None


def level_of(facts: RequestRecord) -> Literal["info", "warning", "error"]:
    if facts.verdict is Verdict.GATEWAY_FAULT:
        return "error"
    if facts.status >= 500 or (facts.verdict is not None and facts.verdict not in _FINE):
        return "warning"
    return "info"


def line_of(facts: RequestRecord, level: str, now: float, node: str | None, worker: int | None) -> RequestLine:
    """In steps: a call with more than fifteen names is made by way of a dict, and takes five times as long."""
    line = RequestLine(
        time=written(now),
        level=level,
        event="request",
        node=node,
        worker=worker,
        id=clean_id(facts.id),
        status=facts.status,
        verdict=facts.verdict,
        stream=facts.stream,
        duration_s=round(facts.duration_s, 6),
        bytes_out=facts.bytes_out,
        usage_source=facts.usage_source,
    )
    if facts.error:
        line.error = clean(facts.error)
    if facts.key:
        line.key = clean(facts.key)
    if facts.dialect:
        line.dialect = clean(facts.dialect)
    if facts.model:
        line.model = clean(facts.model)
    if facts.attempts:
        line.attempts = [_attempt(attempt) for attempt in facts.attempts[:MOST_ITEMS]]
        line.target = line.attempts[-1].target
    if facts.finish:
        line.finish = clean(facts.finish)
    if facts.ttft_s is not None:
        line.ttft_s = round(facts.ttft_s, 6)
    if facts.usage is not None:
        line.usage = _usage(facts.usage)
    if facts.dropped:
        line.dropped = [clean(name) for name in facts.dropped[:MOST_ITEMS]]
    _add_caller(line, facts)
    return line


def _add_caller(line: RequestLine, facts: RequestRecord) -> None:
    if facts.method:
        line.method = clean(facts.method)
    if facts.path:
        line.path = clean(facts.path)
    if facts.peer:
        line.peer = clean(facts.peer)
    if facts.client_id:
        line.client_id = clean(facts.client_id)
    if facts.completion_id:
        line.completion_id = clean_id(facts.completion_id)


def written(now: float) -> str:
    """A moment in UTC, to the millisecond."""
    second, microseconds = divmod(round(now * 1_000_000), 1_000_000)
    return f"{_second(second)}.{microseconds // 1000:03d}Z"


@lru_cache(maxsize=1)
def _second(second: int) -> str:
    """Written once for all lines that fall into it: this is slower than all of the line's numbers."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _attempt(attempt: AttemptRecord) -> AttemptPart:
    return AttemptPart(
        target=clean(attempt.target),
        duration_s=round(attempt.duration_s, 6),
        error=clean(attempt.error) if attempt.error is not None else None,
        resends=attempt.resends,
    )


def _usage(usage: Usage) -> UsagePart:
    return UsagePart(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        reasoning=usage.reasoning,
    )
