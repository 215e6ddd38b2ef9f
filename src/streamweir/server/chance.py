"""Random bytes for ids, fetched in bulk: the kernel is asked once for hundreds of them, for each asking costs.

For ids alone, which are no secrets. A process that forks would hand out the same ones twice: workers are
started as programs of their own.
"""

import os

_BULK = 4096
_left = b""
_at = _BULK


def random_bytes(count: int) -> bytes:
    global _left, _at
    if _at + count > len(_left):
        _left, _at = os.urandom(max(_BULK, count)), 0
    start, _at = _at, _at + count
    return _left[start:_at]
