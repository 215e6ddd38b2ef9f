"""Ids of requests, and random bytes for ids, read from the kernel in bulk: a system call for each id would be slow.

For ids alone, which are no secrets. A process that forks would hand out the same ones twice: workers are
started as programs of their own.
"""

import os
import time

_BULK = 4096
_left = b""
_at = _BULK


def random_bytes(count: int) -> bytes:
    global _left, _at
    if _at + count > len(_left):
        _left, _at = os.urandom(max(_BULK, count)), 0
    start, _at = _at, _at + count
    return _left[start:_at]


def new_id() -> str:
    """Begins with the time, so that the ids' order is that of arrival: for a database and for whoever reads a log."""
    return f"req_{time.time_ns() // 1_000_000:012x}{random_bytes(8).hex()}"
