"""Rows of the request log as a test needs them: written straight into the table, many at once."""

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, insert

from streamweir.store.db.request_log import Row
from streamweir.store.db.tables import keys, open_requests, requests

NOW_MS = 1_794_700_000_000
DAY_MS = 86_400_000


def request_row(number: int, **more: Any) -> Row:
    """The defaults are a good answer of the workspace `one`, one millisecond after the row before it."""
    at_ms = more.pop("at_ms", NOW_MS + number)
    values: dict[str, Any] = {
        "request_id": f"req_{at_ms:012x}{number:016x}",
        "completion_id": f"chatcmpl-{number:029d}",
        "at_ms": at_ms,
        "instance": "i",
        "status": 200,
        "verdict": "completed",
        "duration_ms": 100,
        "workspace_id": "one",
        "key_id": "key_1",
        "key_name": "ci",
        "dialect": "openai",
        "model": "gpt-4o",
        "target": "openai/gpt-4o",
        "stream": True,
        **more,
    }
    return Row(**values)


def insert_rows(conn: Connection, rows: Sequence[Row]) -> None:
    if rows:
        conn.execute(insert(requests), [msgspec.structs.asdict(row) for row in rows])


def insert_key(conn: Connection, id: str = "key_1", workspace_id: str = "one", *, log_content: bool = True) -> None:
    conn.execute(
        insert(keys).values(
            id=id,
            workspace_id=workspace_id,
            name=id,
            origin="store",
            digest=id.encode(),
            last4="abcd",
            scopes="[]",
            log_content=log_content,
            created_ms=NOW_MS,
            version=1,
        )
    )


def insert_open(conn: Connection, request_id: str, instance: str = "i", workspace_id: str = "one") -> None:
    """A request that is not over."""
    texts = ("key_id", "key_name", "dialect", "model", "prices")
    numbers = ("at_ms", "held", "prompt_tokens", "output_tokens")
    conn.execute(
        insert(open_requests).values(
            request_id=request_id,
            instance=instance,
            workspace_id=workspace_id,
            stream=True,
            **dict.fromkeys(texts, "x"),
            **dict.fromkeys(numbers, 0),
        )
    )
