"""The row of a request in the request log, made from its record: only values that a database accepts.

Pure. Values that callers chose (model names, ids, the names of dropped members) are sanitized and shortened here, in
the one place where they become a row. Something that looks like a key in the wrong place (in a user-agent, for example)
is masked, as in the log. The names of routed models and the ids in chunks are not changed, because requests are counted
and found by them.
"""

from functools import lru_cache
from typing import Any

from msgspec import Struct

from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict
from streamweir.policy.attribution import NOTHING
from streamweir.server.telemetry.attempt_members import known_members
from streamweir.server.telemetry.record import AttemptRecord, RequestRecord
from streamweir.server.telemetry.sanitize import clean, clean_id
from streamweir.server.telemetry.timeline import read_timeline
from streamweir.store.db.request_log import MAX_NAME_LENGTH, AttemptView, ReaderGapView, Row
from streamweir.store.journal.entries import Hold, short
from streamweir.store.requests.live import OpenRequest
from streamweir.wire import jsonio

_MAX_NAMES = 50
_OPENED = ("request_id", "at_ms", "instance", "workspace_id", "key_id", "key_name", "dialect", "model", "stream")
_SAID = ("end_user", "session", "tags")
"""What the caller says about a request."""


class _Buckets(Struct, omit_defaults=True, kw_only=True):
    """The reported categories of a usage."""

    input_uncached: int
    cache_read: int | None = None
    cache_write_5m: int | None = None
    cache_write_1h: int | None = None
    audio_input: int | None = None
    image_input: int | None = None
    output: int
    reasoning: int | None = None
    audio_output: int | None = None
    image_output: int | None = None
    searches: int | None = None


def row_of(record: RequestRecord, instance: str) -> Row:
    """In steps: a call with more than fifteen keyword arguments goes through a dict, and takes five times as long."""
    row = Row(
        request_id=record.id,
        at_ms=record.at_ms,
        instance=instance,
        status=record.status,
        verdict=record.verdict._value_ if record.verdict is not None else "",  # `value` is a call in Python
        duration_ms=round(record.duration_s * 1000),
        stream=record.stream,
        attempts=_attempts(record),
        bytes_in=record.bytes_in,
        bytes_out=record.bytes_out,
        has_content=record.has_content,
    )
    row.workspace_id, row.key_id, row.key_name = record.workspace_id, record.key_id, record.key
    row.dialect, row.model, row.error, row.finish = record.dialect, _model(record), record.error, record.finish
    if (target := record.target) is not None:
        row.target = short(target)
    if record.completion_id is not None:
        row.completion_id = short(record.completion_id)
    row.parameters, row.refusal = record.parameters, record.refusal
    _add_money(row, record)
    _add_times(row, record)
    _add_caller(row, record)
    if record.flags:
        row.flags = _flags(record.flags)
    if record.dropped:
        row.dropped = _json([clean(name, MAX_NAME_LENGTH) for name in record.dropped[:_MAX_NAMES]])
    return row


def _add_money(row: Row, record: RequestRecord) -> None:
    row.held, row.cost, row.price, row.charge_rule = record.held, record.cost, record.price, record.charge_rule
    row.rates, row.cost_rates, row.price_version = record.rates, record.cost_rates, record.price_version
    if (usage := record.usage) is not None:
        row.prompt_tokens, row.completion_tokens = record.tokens
        row.usage = _buckets(usage)
    if record.usage_source is not None:
        row.usage_source = record.usage_source._value_
    if record.service_tier is not None:
        row.service_tier = clean(record.service_tier, MAX_NAME_LENGTH)


def _add_times(row: Row, record: RequestRecord) -> None:
    if record.admitted_s is not None:
        row.admitted_ms = round(record.admitted_s * 1000)
    if record.ttft_s is not None:
        row.ttft_ms = round(record.ttft_s * 1000)
    if record.settled_s is not None:
        row.settled_ms = round(record.settled_s * 1000)
    if (gaps := record.gaps) is not None:
        row.chunks = gaps.count
        row.gap_p50_ms, row.gap_p99_ms = round(gaps.p50_s * 1000), round(gaps.p99_s * 1000)
        row.gap_max_ms = round(gaps.max_s * 1000)
    if record.resumed is not None:
        row.resumed, row.reader_gap_count = record.resumed, record.reader_gap_count
        if record.reader_gaps:
            row.reader_gaps = _json([_gap(since, until) for since, until in record.reader_gaps])
    if record.timeline is not None:
        row.strip = _json(read_timeline(record.timeline, record.arrived_s))


def _add_caller(row: Row, record: RequestRecord) -> None:
    if record.peer:
        row.peer = short(record.peer) or None
    if record.client is not None:
        row.client = clean(record.client, MAX_NAME_LENGTH)
    if record.client_id is not None:
        row.client_id = clean_id(record.client_id)
    if record.attribution is not NOTHING:
        said = record.attribution
        row.end_user, row.session, row.tags = said.end_user, said.session, tags_text(said.tags)


def row_of_open(request: Hold | OpenRequest, verdict: Verdict, **more: Any) -> Row:
    """The row of a request without a record: what was stored when it was opened, and `more`."""
    opened = {name: getattr(request, name) for name in (*_OPENED, *_SAID)}
    return Row(**opened, verdict=verdict.value, **more)


def tags_text(tags: tuple[str, ...]) -> str | None:
    """The tags of a request as they are stored."""
    return _tags(tags) if tags else None


@lru_cache(maxsize=256)
def _tags(tags: tuple[str, ...]) -> str:
    return _json(tags)


def _model(record: RequestRecord) -> str | None:
    """An unknown model name can be anything, even a key in the wrong place."""
    if record.model is not None and record.error == "model_not_found":
        return clean(record.model, MAX_NAME_LENGTH)
    return short(record.model) if record.model is not None else None


def _attempts(record: RequestRecord) -> str:
    return _json([_attempt(attempt) for attempt in record.attempts[:_MAX_NAMES]])


def _attempt(attempt: AttemptRecord) -> AttemptView:
    return AttemptView(
        target=short(attempt.target),
        error=attempt.error,
        start_s=round(attempt.start_s, 6),
        duration_s=round(attempt.duration_s, 6),
        resends=attempt.resends,
        **known_members(attempt),
    )


def _gap(since_s: float, until_s: float | None) -> ReaderGapView:
    return ReaderGapView(from_ms=round(since_s * 1000), until_ms=None if until_s is None else round(until_s * 1000))


def _buckets(usage: Usage) -> str:
    buckets = _Buckets(
        input_uncached=usage.input_uncached,
        cache_read=usage.cache_read,
        cache_write_5m=usage.cache_write_5m,
        cache_write_1h=usage.cache_write_1h,
        audio_input=usage.audio_input,
        image_input=usage.image_input,
        output=usage.output,
        reasoning=usage.reasoning,
        audio_output=usage.audio_output,
        image_output=usage.image_output,
        searches=usage.searches,
    )
    return _json(buckets)


@lru_cache(maxsize=256)
def _flags(flags: tuple[str, ...]) -> str:
    """Cached: there are few, and most requests of a kind have the same."""
    return _json(flags)


def _json(document: object) -> str:
    return jsonio.encode(document).decode()
