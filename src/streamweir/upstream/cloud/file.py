"""Files with credentials: keys, certificates, and tokens that are replaced.

Only regular files are read, also through links: a pipe could be waited for without end. A file system can hang as well
(a network share, a volume of secrets). So a file is read in a thread of its own, for which nobody must wait: not those
who need other threads, and not the end of the process. A reason why a file cannot be used contains nothing of it.
"""

import asyncio
import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from streamweir.core.errors import GatewayFault, UpstreamError

MAX_BYTES = 64 * 1024
T = TypeVar("T")


class FileFault(Exception):
    """The file cannot be used. The text is the reason."""


class FileMissing(FileFault):
    """There is no such file."""


def read_file(path: str, max_bytes: int = MAX_BYTES) -> bytes:
    """Raises `FileFault`."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise FileFault("it is not a file")
        with open(path, "rb") as file:
            data = file.read(max_bytes + 1)
    except (FileNotFoundError, NotADirectoryError) as reason:
        raise FileMissing(f"it cannot be read: {reason.strerror}") from None
    except (OSError, ValueError) as reason:  # ValueError: a null character in the path
        kind = reason.strerror if isinstance(reason, OSError) and reason.strerror else "it is not a path"
        raise FileFault(f"it cannot be read: {kind}") from None
    if len(data) > max_bytes:
        raise FileFault(f"it has more than {max_bytes} bytes")
    return data


class FileReads:
    """Of one credential, one at a time: where a file system hangs, each further one would keep a thread."""

    def __init__(self) -> None:
        self._running: asyncio.Future[Any] | None = None

    async def run(self, read: Callable[[], T]) -> T:
        """Raises what `read` raises, `UpstreamError` while an earlier one hangs, and `GatewayFault` if this machine
        has no thread left."""
        if self._running is not None and not self._running.done():
            raise UpstreamError("upstream_timeout", "A file with credentials could not be read in time.")
        ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        ended.add_done_callback(_note_end)
        try:
            threading.Thread(target=_read, args=(read, ended), name="credentials", daemon=True).start()
        except RuntimeError:
            raise GatewayFault("overloaded", "The gateway has no thread left to read a credential.") from None
        self._running = ended
        return await asyncio.shield(ended)


def _read(read: Callable[[], T], ended: "asyncio.Future[T]") -> None:
    settle: Callable[[], None]
    try:
        settle = partial(ended.set_result, read())
    except BaseException as reason:  # noqa: BLE001 (it is raised where it is waited for)
        settle = partial(ended.set_exception, reason)
    with suppress(RuntimeError):  # the loop has ended
        ended.get_loop().call_soon_threadsafe(settle)


def _note_end(ended: "asyncio.Future[T]") -> None:
    """Nobody may wait for it any more: its failure is not reported as unnoticed."""
    if not ended.cancelled():
        ended.exception()
