"""`GET /v1/generations/{id}`: what a caller is told about a request of its own key: tokens, price, outcome and timings.

The id is the `x-request-id` of the answer, or the id in the answer itself, in any API. What the request cost the
operator is not shown, nor the rule by which a failure was charged (it would tell the cost), nor, unless the key shows
routing, who answered. The id of another key's request is not found.
"""

from typing import Any

from sqlalchemy import Connection

from streamweir.policy.access import Key
from streamweir.policy.limits.budget import NANO
from streamweir.server.request.lookup.own_key import usd
from streamweir.store.db.request_log import MAX_NAME_LENGTH
from streamweir.store.requests.live import OpenRequest, find_open
from streamweir.store.requests.requests import RequestRow, find_request


def find_own(conn: Connection, key_id: str, id: str) -> RequestRow | OpenRequest | None:
    if not 0 < len(id) <= MAX_NAME_LENGTH:
        return None
    found = find_request(conn, id, key_id=key_id)
    if found is not None:
        return found
    running = find_open(conn, id)
    return running if running is not None and running.key_id == key_id else None


def request_document(row: RequestRow | OpenRequest, key: Key) -> dict[str, Any]:
    shown = _of_open(row) if isinstance(row, OpenRequest) else _of_row(row)
    if key.show_routing:
        shown["target"] = row.target
        shown["attempts"] = len(row.attempts) if isinstance(row, RequestRow) else None
    return shown


def _of_row(row: RequestRow) -> dict[str, Any]:
    first_ms = row.ttft_ms
    return {
        "object": "generation",
        "id": row.request_id,
        "completion_id": row.completion_id,
        "is_running": False,
        "api": row.dialect,
        "model": row.model,
        "stream": row.stream,
        "status": row.status,
        "outcome": row.verdict,
        "error": row.error,
        "finish_reason": row.finish,
        "usage": _usage(row),
        "price_usd": usd(row.price) if row.price is not None else None,
        "arrived_ms": row.at_ms,
        "timings": {
            "admitted_ms": row.admitted_ms,
            "first_token_ms": first_ms,
            "duration_ms": row.duration_ms,
        },
        "end_user": row.end_user,
        "session": row.session,
        "tags": row.tags or [],
    }


def _of_open(row: OpenRequest) -> dict[str, Any]:
    """What is known so far. Its price is known when it is over; until then an amount is reserved."""
    return {
        "object": "generation",
        "id": row.request_id,
        "completion_id": None,
        "is_running": True,
        "api": row.dialect,
        "model": row.model,
        "stream": row.stream,
        "status": None,
        "outcome": None,
        "error": None,
        "finish_reason": None,
        "usage": None,
        "price_usd": None,
        "reserved_usd": usd(row.held),
        "arrived_ms": row.at_ms,
        "timings": {
            "admitted_ms": None,
            "first_token_ms": row.first_ms - row.at_ms if row.first_ms is not None else None,
            "duration_ms": None,
        },
    }


def _usage(row: RequestRow) -> dict[str, Any] | None:
    """The totals, their parts by the gateway's categories, and the price as `cost`, as in an answer."""
    if row.prompt_tokens is None or row.completion_tokens is None:
        return None
    shown: dict[str, Any] = {
        "prompt_tokens": row.prompt_tokens,
        "completion_tokens": row.completion_tokens,
        "total_tokens": row.prompt_tokens + row.completion_tokens,
        "details": row.usage or {},
        "source": row.usage_source,
    }
    if row.price is not None:
        shown["cost"] = row.price / NANO
    return shown
