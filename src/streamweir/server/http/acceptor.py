"""Takes connections off a listening socket, many in one turn of the event loop.

The loop's own servers take one a turn: under load, when turns are long, callers then wait in the kernel's queue for
longer than for everything else. Here up to `BATCH` are taken in a turn, so that a queue is noticed where it can be
answered. Who cannot be given a file any more is answered all the same: a spare one is kept for that. Where not even
that helps, nothing is taken for `PAUSE_S`: a socket that stays readable would keep the loop busy for nothing.

Knows neither HTTP nor what becomes of a connection. `queue` reads how many wait, from the kernel.
"""

import asyncio
import errno
import os
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from typing import Protocol

BATCH = 64
_REFUSED_FOR_ONE = 8
"""So many are refused in the time in which one is let in."""
PAUSE_S = 0.1
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_MOST_READ = 65_536
_TCP_INFO_BYTES = 104
_TCP_INFO_QUEUE = struct.Struct("=II")
_TCP_INFO_QUEUE_AT = 24
"""Of a listening socket, `tcpi_unacked` is how many wait and `tcpi_sacked` how many may."""


class AcceptResult(Enum):
    """What became of a connection."""

    ENTERED = auto()
    ANSWERED = auto()
    """It was refused, and is closed."""
    NOT = auto()
    """There is no file to spare for it."""


class ConnectionHandler(Protocol):
    def accepted(self, sock: socket.socket, /) -> AcceptResult:
        """It does not block."""
        ...

    def files_exhausted(self, reason: OSError, /) -> None: ...

    def refusal(self) -> bytes:
        """What is said to one that there is no file for; empty where nothing can be."""
        ...


class Acceptor:
    def __init__(self, listener: socket.socket, taker: ConnectionHandler, *, batch: int = BATCH) -> None:
        """Takes over the listener."""
        listener.setblocking(False)
        self._listener = listener
        self._taker = taker
        self._batch = batch
        self._loop = asyncio.get_running_loop()
        self._spare = _spare_file()
        self._pause: asyncio.TimerHandle | None = None
        self._loop.add_reader(listener, self._readable)

    @property
    def queue(self) -> tuple[int, int] | None:
        """How many wait to be taken, and how many may. None: the system does not say."""
        if not sys.platform.startswith("linux") or self._listener.fileno() < 0:
            return None
        try:
            info = self._listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        except OSError:  # no TCP
            return None
        waiting, most = _TCP_INFO_QUEUE.unpack_from(info, _TCP_INFO_QUEUE_AT)
        return waiting, most

    def await_data(self, does: bool) -> None:
        """Whether a connection is to be had only when something has come on it, or a second or so has passed."""
        option = getattr(socket, "TCP_DEFER_ACCEPT", None)
        if option is not None:
            with suppress(OSError):  # no TCP
                self._listener.setsockopt(socket.IPPROTO_TCP, option, int(does))

    def close(self) -> None:
        self._loop.remove_reader(self._listener)
        self._listener.close()
        if self._pause is not None:
            self._pause.cancel()
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None

    def _readable(self) -> None:
        entered = 0
        for _ in range(_REFUSED_FOR_ONE * self._batch):
            sock = self._accept(self._out_of_files)
            if sock is None:
                return
            sock.setblocking(False)
            taken = self._taker.accepted(sock)
            if taken is AcceptResult.NOT:
                self._refuse(sock)
            elif taken is AcceptResult.ENTERED:
                entered += 1
                if entered == self._batch:
                    return

    def _accept(self, exhausted: Callable[[OSError], None]) -> socket.socket | None:
        """None: there is no more to be had at the moment."""
        try:
            return self._listener.accept()[0]
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):  # it has gone: the loop comes again
            return None
        except OSError as reason:
            if reason.errno not in _EXHAUSTED:
                raise
            exhausted(reason)
            return None

    def _out_of_files(self, reason: OSError) -> None:
        self._taker.files_exhausted(reason)
        for _ in range(self._batch):
            if self._spare is None:
                self._rest()
                return
            os.close(self._spare)
            self._spare = None
            sock = self._accept(lambda _: None)
            if sock is not None:
                self._refuse(sock)
            self._spare = _spare_file()
            if sock is None:
                self._rest()
                return

    def _refuse(self, sock: socket.socket) -> None:
        with sock, suppress(OSError):
            sock.setblocking(False)
            if refusal := self._taker.refusal():
                with suppress(BlockingIOError):
                    sock.recv(_MOST_READ)  # what is not read when it is closed makes a reset of the close
                sock.send(refusal)
                sock.shutdown(socket.SHUT_WR)

    def _rest(self) -> None:
        if self._pause is None:
            self._loop.remove_reader(self._listener)
            self._pause = self._loop.call_later(PAUSE_S, self._go_on)

    def _go_on(self) -> None:
        self._pause = None
        if self._spare is None:
            self._spare = _spare_file()
        self._loop.add_reader(self._listener, self._readable)


def _spare_file() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
