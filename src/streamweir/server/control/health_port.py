"""`/health` and `/ready` on an address and a thread of their own, answered however busy the event loop is.

A loop with much to do is late, and a probe that times out takes a node out that is needed most. So the thread
answers from values alone. It tells the truth all the same: a loop that has not run for `HUNG_S` does not serve
anybody, and `/health` says so with 503, so that whoever watches can start the process again.

Plain HTTP, one request per connection, bounded in bytes, seconds and connections: it is for probes, and callers have
no business there.
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
_MOST_CONNECTIONS = 64
_MOST_BYTES = 8192
_ASK_S = 2.0
_LINE = re.compile(rb"(GET|HEAD) (/[^ ?]*)(?:\?[^ ]*)? HTTP/1\.[01]\r\n")


class HealthPort:
    """`idle_s` tells how long ago the event loop last ran."""

    def __init__(
        self, readiness: Readiness, idle_s: Callable[[], float], *, hung_s: float = HUNG_S, ask_s: float = _ASK_S
    ) -> None:
        self._readiness = readiness
        self._idle_s = idle_s
        self._hung_s = hung_s
        self._ask_s = ask_s
        self._listeners: list[socket.socket] = []
        self._asking: dict[socket.socket, tuple[bytes, float]] = {}
        """What each has sent, and until when it must have asked."""
        self._selector = selectors.DefaultSelector()
        self._stopper, self._stopped = socket.socketpair()
        self._selector.register(self._stopped, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)

    def start(self, listener: socket.socket) -> None:
        """Takes over a bound socket. Once for each, before the first probe comes."""
        listener.setblocking(False)
        listener.listen(_MOST_CONNECTIONS)
        self._listeners.append(listener)
        self._selector.register(listener, selectors.EVENT_READ)
        if not self._thread.is_alive():
            self._thread.start()

    def stop(self) -> None:
        self._stopper.close()
        if self._thread.is_alive():
            self._thread.join()
        for sock in (*self._listeners, *self._asking, self._stopped):
            sock.close()
        self._selector.close()

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select(self._ask_s / 2 if self._asking else None):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)  # noqa: S101 (for the type checker)
                if sock is self._stopped:
                    return
                if sock in self._asking:
                    self._read(sock)
                elif sock in self._listeners:  # else it was closed for one that came later
                    self._accept(sock)
            now = time.monotonic()
            for sock in [sock for sock, (_, until) in self._asking.items() if now >= until]:
                self._close(sock)

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:  # it has gone; or there is no file for it, and none for what would tell so
            time.sleep(0.01)
            return
        if len(self._asking) >= _MOST_CONNECTIONS:  # a probe asks at once: the first has had the most time for it
            self._close(next(iter(self._asking)))
        sock.setblocking(False)
        self._asking[sock] = (b"", time.monotonic() + self._ask_s)
        self._selector.register(sock, selectors.EVENT_READ)
        self._read(sock)  # it has mostly come by now

    def _read(self, sock: socket.socket) -> None:
        data, until = self._asking[sock]
        try:
            more = sock.recv(_MOST_BYTES)
        except BlockingIOError:
            return
        except OSError:
            more = b""
        data += more
        if not more or len(data) > _MOST_BYTES:
            self._close(sock)
        elif b"\r\n\r\n" in data:
            with suppress(OSError):  # an answer of a few hundred bytes, to an empty buffer
                sock.send(self._answer(data))
                sock.shutdown(socket.SHUT_WR)
            self._close(sock)
        else:
            self._asking[sock] = (data, until)

    def _close(self, sock: socket.socket) -> None:
        del self._asking[sock]
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
