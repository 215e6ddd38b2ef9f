"""The row of a request in the log, made of its facts: the columns, and nothing that a database would not take.

Pure. What callers chose (model names, ids, the names of dropped members) is made plain and short
here, the one place where it becomes a row. A key that somebody wrote where none belongs (into a
user-agent, say) is taken out by its shape, as it is for the log; the names of models that were routed and
the ids in chunks stay to the letter, for requests are counted and found by them.
"""

from functools import lru_cache
from typing import Any

from msgspec import Struct

from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict
from streamweir.server.telemetry.record import RequestRecord
from streamweir.server.telemetry.sanitize import clean, clean_id
from streamweir.server.telemetry.timeline import read_timeline
from streamweir.store.db.request_log import LONGEST_NAME, Row
from streamweir.store.journal.entries import Hold, short
from streamweir.store.requests.live import OpenRequest
from streamweir.wire import jsonio

_MOST_DROPPED = 50
_OPENED = ("request_id", "at_ms", "instance", "workspace_id", "key_id", "key_name", "dialect", "model", "stream")


class _Buckets(Struct, omit_defaults=True, kw_only=True):
    """Of a usage, those that were reported."""

    input_uncached: int
    cache_read: int | None = None
    cache_write_5m: int | None = None
    cache_write_1h: int | None = None
    audio_input: int | None = None
    output: int
    reasoning: int | None = None
    audio_output: int | None = None


def row_of(facts: RequestRecord, instance: str) -> Row:
    usage, gaps, completion_id, target = facts.usage, facts.gaps, facts.completion_id, facts.target
    return Row(
        request_id=facts.id,
        at_ms=facts.at_ms,
        instance=instance,
        status=facts.status,
        verdict=facts.verdict.value if facts.verdict is not None else "",
        duration_ms=round(facts.duration_s * 1000),
        completion_id=short(completion_id) if completion_id is not None else None,
        workspace_id=facts.workspace_id,
        key_id=facts.key_id,
        key_name=facts.key,
        dialect=facts.dialect,
        model=_model(facts),
        target=short(target) if target is not None else None,
        attempts=_attempts(facts),
        stream=facts.stream,
        error=facts.error,
        finish=facts.finish,
        prompt_tokens=usage.prompt_tokens if usage is not None else None,
        completion_tokens=usage.completion_tokens if usage is not None else None,
        usage=_buckets(usage) if usage is not None else None,
        usage_source=facts.usage_source.value if facts.usage_source is not None else None,
        flags=_flags(facts.flags) if facts.flags else None,
        held=facts.held,
        cost=facts.cost,
        price_version=facts.price_version,
        ttft_ms=round(facts.ttft_s * 1000) if facts.ttft_s is not None else None,
        chunks=gaps.count if gaps is not None else None,
        gap_p50_ms=round(gaps.p50_s * 1000) if gaps is not None else None,
        gap_p99_ms=round(gaps.p99_s * 1000) if gaps is not None else None,
        gap_max_ms=round(gaps.max_s * 1000) if gaps is not None else None,
        bytes_in=facts.bytes_in,
        bytes_out=facts.bytes_out,
        peer=short(facts.peer) or None,
        client=clean(facts.client, LONGEST_NAME) if facts.client is not None else None,
        client_id=clean_id(facts.client_id) if facts.client_id is not None else None,
        dropped=_json([clean(name, LONGEST_NAME) for name in facts.dropped[:_MOST_DROPPED]]) if facts.dropped else None,
        has_content=facts.has_content,
        service_tier=clean(facts.service_tier, LONGEST_NAME) if facts.service_tier is not None else None,
        rates=facts.rates,
        admitted_ms=round(facts.admitted_s * 1000) if facts.admitted_s is not None else None,
        settled_ms=round(facts.settled_s * 1000) if facts.settled_s is not None else None,
        strip=_json(read_timeline(facts.strip, facts.arrived_s)) if facts.strip is not None else None,
    )


def row_of_open(request: Hold | OpenRequest, verdict: Verdict, **more: Any) -> Row:
    """Of a request whose facts are lost, or never were: what was written down when it was opened, and `more`."""
    opened = {name: getattr(request, name) for name in _OPENED}
    return Row(**opened, verdict=verdict.value, **more)


def _model(facts: RequestRecord) -> str | None:
    """One that nobody has may be anything, a key in the wrong place too."""
    if facts.model is not None and facts.error == "model_not_found":
        return clean(facts.model, LONGEST_NAME)
    return short(facts.model) if facts.model is not None else None


def _attempts(facts: RequestRecord) -> str:
    attempts = [
        {
            "target": short(attempt.target),
            "error": attempt.error,
            "start_s": round(attempt.start_s, 6),
            "duration_s": round(attempt.duration_s, 6),
            "resends": attempt.resends,
        }
        for attempt in facts.attempts
    ]
    return _json(attempts)


def _buckets(usage: Usage) -> str:
    buckets = _Buckets(
        input_uncached=usage.input_uncached,
        cache_read=usage.cache_read,
        cache_write_5m=usage.cache_write_5m,
        cache_write_1h=usage.cache_write_1h,
        audio_input=usage.audio_input,
        output=usage.output,
        reasoning=usage.reasoning,
        audio_output=usage.audio_output,
    )
    return _json(buckets)


@lru_cache(maxsize=256)
def _flags(flags: tuple[str, ...]) -> str:
    """There are few, and most requests of a kind have the same."""
    return _json(flags)


def _json(document: object) -> str:
    return jsonio.encode(document).decode()
