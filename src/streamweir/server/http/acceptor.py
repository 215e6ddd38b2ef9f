"""Accepts connections from a listening socket, many in one turn of the event loop.

The loop's own servers accept one per turn: under load, when turns are long, callers then wait longer in the kernel's
queue than for everything else. Here up to `BATCH` are accepted per turn, so that overload is noticed where it can be
answered. If no file is left, a caller still gets an answer: one spare file is kept for that. If that does not help
either, nothing is accepted for `PAUSE_S`: a socket that stays readable would keep the loop busy without any progress.

This module does not depend on HTTP. `queue` reads the length of the queue from the kernel.
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
_REFUSALS_PER_ACCEPT = 8
"""So many connections can be refused in the time in which one is opened."""
PAUSE_S = 0.1
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_MAX_READ_BYTES = 65_536
_TCP_INFO_BYTES = 104
_TCP_INFO_QUEUE = struct.Struct("=II")
_TCP_INFO_QUEUE_AT = 24
"""For a listening socket, `tcpi_unacked` is the length of the queue and `tcpi_sacked` its maximum."""


class AcceptResult(Enum):
    """The result for an accepted connection."""

    OPENED = auto()
    ANSWERED = auto()
    """It was answered (a refusal, or a probe) and closed."""
    NO_FILE = auto()
    """There is no file for it."""


class ConnectionHandler(Protocol):
    def accepted(self, sock: socket.socket, /) -> AcceptResult:
        """Must not block."""
        ...

    def files_exhausted(self, reason: OSError, /) -> None: ...

    def refusal(self) -> bytes:
        """The answer if there is no file for a connection; empty if there can be none."""
        ...


class Acceptor:
    def __init__(self, listener: socket.socket, handler: ConnectionHandler, *, batch: int = BATCH) -> None:
        """The acceptor owns the listener from now on."""
        listener.setblocking(False)
        self._listener = listener
        self._handler = handler
        self._batch = batch
        self._loop = asyncio.get_running_loop()
        self._spare = _spare_file()
        self._pause: asyncio.TimerHandle | None = None
        self._loop.add_reader(listener, self._readable)

    @property
    def queue(self) -> tuple[int, int] | None:
        """The length of the kernel's queue, and its maximum. None: not known on this system."""
        if not sys.platform.startswith("linux") or self._listener.fileno() < 0:
            return None
        try:
            info = self._listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        except OSError:  # not TCP
            return None
        waiting, maximum = _TCP_INFO_QUEUE.unpack_from(info, _TCP_INFO_QUEUE_AT)
        return waiting, maximum

    def await_data(self, enabled: bool) -> None:
        """Whether connections are accepted only when data has arrived on them, or after about a second."""
        option = getattr(socket, "TCP_DEFER_ACCEPT", None)
        if option is not None:
            with suppress(OSError):  # not TCP
                self._listener.setsockopt(socket.IPPROTO_TCP, option, int(enabled))

    def close(self) -> None:
        self._loop.remove_reader(self._listener)
        self._listener.close()
        if self._pause is not None:
            self._pause.cancel()
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None

    def _readable(self) -> None:
        opened = 0
        for _ in range(_REFUSALS_PER_ACCEPT * self._batch):
            sock = self._accept(self._out_of_files)
            if sock is None:
                return
            sock.setblocking(False)
            result = self._handler.accepted(sock)
            if result is AcceptResult.NO_FILE:
                self._refuse(sock)
            elif result is AcceptResult.OPENED:
                opened += 1
                if opened == self._batch:
                    return

    def _accept(self, exhausted: Callable[[OSError], None]) -> socket.socket | None:
        """None: there are no more connections now."""
        try:
            return self._listener.accept()[0]
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):  # it was closed: the loop calls again
            return None
        except OSError as reason:
            if reason.errno not in _EXHAUSTED:
                raise
            exhausted(reason)
            return None

    def _out_of_files(self, reason: OSError) -> None:
        self._handler.files_exhausted(reason)
        for _ in range(self._batch):
            if self._spare is None:
                self._pause_accepting()
                return
            os.close(self._spare)
            self._spare = None
            sock = self._accept(lambda _: None)
            if sock is not None:
                self._refuse(sock)
            self._spare = _spare_file()
            if sock is None:
                self._pause_accepting()
                return

    def _refuse(self, sock: socket.socket) -> None:
        with sock, suppress(OSError):
            sock.setblocking(False)
            if refusal := self._handler.refusal():
                with suppress(BlockingIOError):
                    sock.recv(_MAX_READ_BYTES)  # closing with unread bytes would send a reset
                sock.send(refusal)
                sock.shutdown(socket.SHUT_WR)

    def _pause_accepting(self) -> None:
        if self._pause is None:
            self._loop.remove_reader(self._listener)
            self._pause = self._loop.call_later(PAUSE_S, self._resume_accepting)

    def _resume_accepting(self) -> None:
        self._pause = None
        if self._spare is None:
            self._spare = _spare_file()
        self._loop.add_reader(self._listener, self._readable)


def _spare_file() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
