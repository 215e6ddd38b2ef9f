"""The output of log lines: a bounded buffer, and one thread that writes it.

The event loop only appends. A slow, full or closed output never blocks the loop and raises no exception there: lines
that do not fit are dropped and counted, and the log reports their number as soon as a line can be written again. Only
lines that may be lost are written here; accounting entries go to the journal. The content of the lines does not matter
here.
"""

import os
import select
import threading
from collections.abc import Callable
from typing import TextIO

MAX_BYTES = 4 * 1024 * 1024
LINGER_S = 0.05
"""How long the thread collects lines before it writes: a thread that wakes up for each line would compete with every
request for the interpreter."""
_PIPE_BUF = 4096
"""Several workers share one pipe; up to this size a write is not mixed with another's."""


class Sink:
    """`report` returns the line about dropped lines."""

    def __init__(
        self,
        stream: TextIO,
        report: Callable[[int], bytes],
        *,
        max_bytes: int = MAX_BYTES,
        linger_s: float = LINGER_S,
    ) -> None:
        self._write = _writer_of(stream)
        self._report = report
        self._max_bytes = max_bytes
        self._linger_s = linger_s
        self._lock = threading.RLock()  # the interpreter may report an exception during a write, which writes too
        self._has_lines = threading.Condition(self._lock)
        self._lines: list[bytes] = []
        self._waiting_bytes = 0
        self._dropped = 0
        self._reported = 0
        self._is_closed = False
        self._closing = threading.Event()  # the same, so that the thread can wait for it
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        return self._dropped

    def write(self, line: bytes) -> None:
        """Writes a whole line with its newline. Never blocks, never raises."""
        with self._lock:
            if self._is_closed or self._waiting_bytes + len(line) > self._max_bytes:
                self._dropped += 1
                return
            is_first = not self._lines  # otherwise the thread is awake already
            self._lines.append(line)
            self._waiting_bytes += len(line)
            if is_first:
                self._has_lines.notify()

    def close(self, timeout_s: float = 1.0) -> bool:
        """Writes the remaining lines, within this time. False: some of them could not be written."""
        with self._lock:
            self._is_closed = True
            self._closing.set()
            self._has_lines.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._lines and not self._is_closed:
                    self._has_lines.wait()
                if not self._lines:
                    return
            self._closing.wait(self._linger_s)
            self._write_out()

    def _write_out(self) -> None:
        with self._lock:
            lines, self._lines = self._lines, []
        for chunk, count in _chunks(lines):
            is_written = self._send(chunk)
            with self._lock:
                self._waiting_bytes -= len(chunk)
                if not is_written:
                    self._dropped += count
                missing = self._dropped - self._reported
            if is_written and missing and self._send(self._report(missing)):
                self._reported += missing

    def _send(self, chunk: bytes) -> bool:
        try:
            self._write(chunk)
        except (OSError, ValueError):  # closed or full: the next chunk shows whether it still is
            return False
        return True


def _chunks(lines: list[bytes]) -> list[tuple[bytes, int]]:
    """Whole lines joined to writes of at most `_PIPE_BUF`, each with its number of lines."""
    chunks = []
    part: list[bytes] = []
    size = 0
    for line in lines:
        if part and size + len(line) > _PIPE_BUF:
            chunks.append((b"".join(part), len(part)))
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        chunks.append((b"".join(part), len(part)))
    return chunks


def _writer_of(stream: TextIO) -> Callable[[bytes], None]:
    """Bypasses the stream's own buffer: if a hanging thread held its lock, the interpreter would crash at exit."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):
        return lambda data: _write_text(stream, data)
    stream.flush()
    return lambda data: _write_all(number, data)


def _write_text(stream: TextIO, data: bytes) -> None:
    stream.write(data.decode("utf-8", "replace"))
    stream.flush()


def _write_all(number: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(number, view) :]
        except BlockingIOError:  # another process that shares this terminal or pipe made it non-blocking
            poll = select.poll()
            poll.register(number, select.POLLOUT)
            poll.poll()
