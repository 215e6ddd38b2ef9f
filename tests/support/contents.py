"""Contents as a test needs them, and everything that a database holds, as one text."""

import subprocess
import zlib
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from streamweir.store.db.tables import metadata
from streamweir.store.requests.content import Content
from support.request_rows import NOW_MS, request_row


def make_content(number: int, **more: Any) -> Content:
    values: dict[str, Any] = {
        "request_id": request_row(number).request_id,
        "workspace_id": "one",
        "key_id": "key_1",
        "at_ms": NOW_MS + number,
        "prompt": '{"messages":[{"role":"user","content":"a question"}]}',
        "answer": "an answer",
        "upstream_frames": [(12, 'data: {"choices":[{"index":0,"delta":{"content":"an answer"}}]}')],
        "caller_frames": [(13, "data: [DONE]")],
        **more,
    }
    return Content(**values)


def dump(conn: Connection) -> str:
    """Every value of every row of every table; what is compressed, as it reads."""
    found = []
    for table in metadata.sorted_tables:
        for row in conn.execute(select(table)):
            found += [_text(value) for value in row]
    return "\n".join(found)


def file_bytes(folder: Path) -> bytes:
    """Of all files that the database has made there.

    Read by another process: a file that is closed in this one loses all locks that SQLite has on it.
    """
    files = [str(path) for path in sorted(folder.iterdir()) if path.is_file()]
    return subprocess.run(["cat", *files], capture_output=True, check=True).stdout if files else b""  # noqa: S603, S607


def _text(value: object) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        return zlib.decompress(value).decode()
    except zlib.error:
        return value.hex()
