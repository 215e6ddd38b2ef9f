"""`/health` and `/ready` on an address and a thread of their own, answered however busy the event loop is.

A busy loop answers late, and a probe that times out removes a node when it is needed most. So the thread answers from
values in memory. The answers stay correct: if the loop has not run for `HUNG_S` it serves no requests, and `/health`
answers 503, so that the process can be restarted.

Plain HTTP, one request per connection, bounded in bytes, seconds and connections: it is for probes, not for callers.
"""

import re
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from streamweir.server.control.probes import PROBES, as_bytes, probe_answer
from streamweir.server.control.readiness import Readiness
from streamweir.server.http.message import Answer
from streamweir.wire import jsonio

HUNG_S = 10.0
_MAX_CONNECTIONS = 64
_MAX_BYTES = 8192
_REQUEST_TIMEOUT_S = 2.0
_LINE = re.compile(rb"(GET|HEAD) (/[^ ?]*)(?:\?[^ ]*)? HTTP/1\.[01]\r\n")


class HealthPort:
    """`idle_s`: the time since the event loop last ran."""

    def __init__(
        self,
        readiness: Readiness,
        idle_s: Callable[[], float],
        *,
        hung_s: float = HUNG_S,
        request_timeout_s: float = _REQUEST_TIMEOUT_S,
    ) -> None:
        self._readiness = readiness
        self._idle_s = idle_s
        self._hung_s = hung_s
        self._request_timeout_s = request_timeout_s
        self._listeners: list[socket.socket] = []
        self._pending: dict[socket.socket, tuple[bytes, float]] = {}
        """For each connection: the bytes received, and the deadline for its request."""
        self._selector = selectors.DefaultSelector()
        self._stopper, self._stopped = socket.socketpair()
        self._selector.register(self._stopped, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)

    def start(self, listener: socket.socket) -> None:
        """Takes a bound socket, which it owns from now on. To be called once for each, before the first probe."""
        listener.setblocking(False)
        listener.listen(_MAX_CONNECTIONS)
        self._listeners.append(listener)
        self._selector.register(listener, selectors.EVENT_READ)
        if not self._thread.is_alive():
            self._thread.start()

    def stop(self) -> None:
        self._stopper.close()
        if self._thread.is_alive():
            self._thread.join()
        for sock in (*self._listeners, *self._pending, self._stopped):
            sock.close()
        self._selector.close()

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select(self._request_timeout_s / 2 if self._pending else None):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)  # noqa: S101 (for the type checker)
                if sock is self._stopped:
                    return
                if sock in self._pending:
                    self._read(sock)
                elif sock in self._listeners:  # otherwise it was closed to accept a later one
                    self._accept(sock)
            now = time.monotonic()
            for sock in [sock for sock, (_, until) in self._pending.items() if now >= until]:
                self._close(sock)

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:  # the connection was closed, or there is no file left for it
            time.sleep(0.01)
            return
        if len(self._pending) >= _MAX_CONNECTIONS:  # probes send at once: the oldest has waited longest
            self._close(next(iter(self._pending)))
        sock.setblocking(False)
        self._pending[sock] = (b"", time.monotonic() + self._request_timeout_s)
        self._selector.register(sock, selectors.EVENT_READ)
        self._read(sock)  # the request has usually arrived by now

    def _read(self, sock: socket.socket) -> None:
        data, until = self._pending[sock]
        try:
            more = sock.recv(_MAX_BYTES)
        except BlockingIOError:
            return
        except OSError:
            more = b""
        data += more
        if not more or len(data) > _MAX_BYTES:
            self._close(sock)
        elif b"\r\n\r\n" in data:
            with suppress(OSError):  # an answer of a few hundred bytes fits into the empty buffer
                sock.send(self._answer(data))
                sock.shutdown(socket.SHUT_WR)
            self._close(sock)
        else:
            self._pending[sock] = (data, until)

    def _close(self, sock: socket.socket) -> None:
        del self._pending[sock]
        self._selector.unregister(sock)
        sock.close()

    def _answer(self, data: bytes) -> bytes:
        line = _LINE.match(data)
        if line is None:
            answer = _failure(400, "Only GET /health and GET /ready are answered here.")
        elif (path := line[2].decode("latin-1")) not in PROBES:
            answer = _failure(404, "Only /health and /ready are answered here.")
        elif path == "/health" and self._idle_s() > self._hung_s:
            answer = _failure(503, f"The event loop has not run for {self._idle_s():.0f} s.")
        else:
            answer = probe_answer(path, self._readiness)
        return as_bytes(answer, has_body=line is None or line[1] != b"HEAD")


def _failure(status: int, reason: str) -> Answer:
    body = jsonio.encode({"status": "failing", "reasons": [reason]})
    return Answer(status=status, headers=(("content-type", "application/json"),), body=body)
