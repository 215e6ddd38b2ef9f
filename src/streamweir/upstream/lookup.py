"""Looks up the addresses of a name, so that a resolver that does not answer is in nobody's way.

The system's resolver cannot be interrupted: if no name server answers, it takes half a minute, and minutes where names
are completed by search domains. So each look-up has a thread of its own, for which nobody must wait: not those who need
the threads of the loop, and not the end of the process. A name is looked up once at a time, for all who ask: who asks
again joins the look-up that runs, so that there is one thread for a name, however often it is asked for. Nothing is
kept when it is over.
"""

import asyncio
import errno
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

Found = list[tuple[Any, ...]]
"""As `socket.getaddrinfo` gives it."""
_Running = dict[tuple[str, int], "asyncio.Future[Found]"]

_running: WeakKeyDictionary[asyncio.AbstractEventLoop, _Running] = WeakKeyDictionary()


async def look_up(host: str, port: int) -> Found:
    """Raises `OSError`."""
    loop = asyncio.get_running_loop()
    running = _running.setdefault(loop, {})
    found = running.get((host, port))
    if found is None:
        found = loop.create_future()
        thread = threading.Thread(target=_ask, args=(host, port, found), name="lookup", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            raise OSError(errno.ENOMEM, "no further thread can be started") from None
        running[host, port] = found
        found.add_done_callback(partial(_forget, running, (host, port)))
    return await asyncio.shield(found)


def _ask(host: str, port: int, found: "asyncio.Future[Found]") -> None:
    settle: Callable[[], None]
    try:
        settle = partial(found.set_result, socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except BaseException as reason:  # noqa: BLE001 (it is raised where it is waited for)
        settle = partial(found.set_exception, reason)
    with suppress(RuntimeError):  # the loop has ended
        found.get_loop().call_soon_threadsafe(settle)


def _forget(running: _Running, name: tuple[str, int], found: "asyncio.Future[Found]") -> None:
    del running[name]
    if not found.cancelled():
        found.exception()  # nobody may wait for it any more: a failure is not reported as unnoticed
