"""Ids of requests, and random bytes for ids, read from the kernel in bulk: a system call for each id would be slow.

Not for secrets. A forked process would repeat the ids of its parent, so workers are started as new programs.
"""

import os
import time

_POOL_BYTES = 4096
_pool = b""
_pool_offset = _POOL_BYTES


def random_bytes(count: int) -> bytes:
    global _pool, _pool_offset
    if _pool_offset + count > len(_pool):
        _pool, _pool_offset = os.urandom(max(_POOL_BYTES, count)), 0
    start, _pool_offset = _pool_offset, _pool_offset + count
    return _pool[start:_pool_offset]


def new_id() -> str:
    """Begins with the time, so that ids sort by arrival, in a database and in a log."""
    return f"req_{time.time_ns() // 1_000_000:012x}{random_bytes(8).hex()}"
