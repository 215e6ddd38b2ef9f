"""A supervisor and its workers as real processes, observed by their logs."""

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.deadlines import WAIT_TIMEOUT_S

Event = dict[str, Any]


class Line:
    """A connection to some worker. `answer` is what it was greeted with."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), WAIT_TIMEOUT_S)
        self._file = self._socket.makefile("rwb")
        self.answer = self.read()

    @property
    def pid(self) -> int:
        return int(self.answer.removeprefix("pid "))

    def read(self) -> str:
        """A line, empty at the end."""
        return self._file.readline().decode().rstrip("\n")

    def say(self, word: str) -> None:
        self._file.write(word.encode() + b"\n")
        self._file.flush()

    def metrics(self) -> str:
        self.say("metrics")
        return self._file.read(int(self.read())).decode()

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SupervisorProcess:
    def __init__(self, folder: Path, workers: int, *more: str, delay_s: float = 0.1) -> None:
        environ = {**os.environ, "TINY_DELAY_S": str(delay_s), "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-m", "support.tiny_supervisor", str(workers), str(folder), *more]
        self.config = folder / "tiny.toml"
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environ)  # noqa: S603 (our own)
        self.events: list[Event] = []
        self._arrived: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.port = 0
        self._mark = 0
        self._claimed: set[int] = set()

    def start(self) -> None:
        self.port = self.wait("bound")["port"]
        self.wait("all serve")
        self.mark()

    def wait(self, event: str, **fields: object) -> Event:
        """One matching event since `mark` that no test has waited for yet. The logs of several processes have no
        order."""
        place = self._mark
        while True:
            while place < len(self.events):
                found = self.events[place]
                if place not in self._claimed and found["event"] == event and fields.items() <= found.items():
                    self._claimed.add(place)
                    return found
                place += 1
            assert self.next() is not None, f"the end before {event!r}: {self.events}"

    def mark(self) -> None:
        """What has been logged so far is of no interest."""
        self._mark = len(self.events)

    def since(self) -> list[Event]:
        """What has been logged since `mark`."""
        return self.events[self._mark :]

    def next(self) -> Event | None:
        """None: every process that could log has ended."""
        line = self._arrived.get(timeout=WAIT_TIMEOUT_S)
        if line is None:
            self._arrived.put(None)
            return None
        event: Event = json.loads(line) if line.startswith("{") else {"event": "text", "text": line}
        self.events.append(event)
        return event

    def wait_for_all(self) -> None:
        """Until no process of the workers_process is left: only they hold the other end of the pipe."""
        while self.next() is not None:
            pass

    def end(self) -> int:
        self.wait_for_all()
        return self.process.wait(WAIT_TIMEOUT_S)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def line(self) -> Line:
        return Line(self.port)

    def stream(self) -> Line:
        line = self.line()
        line.say("stream")
        assert line.read() == "started"
        return line

    def pids(self) -> dict[int, int]:
        """Of the workers that have served so far, the newest of each number."""
        return {event["number"]: event["pid"] for event in self.events if event.get("event") == "worker serves"}

    def line_to(self, pid: int) -> Line:
        """Who accepts is chance: try until it is this one."""
        while True:
            line = self.line()
            if line.pid == pid:
                return line
            line.close()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._arrived.put(line.decode().rstrip("\n"))
        self.process.stderr.close()
        self._arrived.put(None)


@contextmanager
def running(
    folder: Path, workers: int, *more: str, word: str = "fine", delay_s: float = 0.1
) -> Iterator[SupervisorProcess]:
    (folder / "tiny.toml").write_text(word)
    workers_process = SupervisorProcess(folder, workers, *more, delay_s=delay_s)
    try:
        yield workers_process
    finally:
        if workers_process.process.poll() is None:
            workers_process.process.kill()
        for event in list(workers_process.events):
            if event.get("event") == "worker started":
                _end(event["pid"])
        workers_process.end()


def _end(pid: int) -> None:
    """A worker that is still there, after a test that failed."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if b"tiny_worker" in file.read():
                os.kill(pid, signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        pass
