"""A server program of the test's own: a process, a folder, and nothing left of either.

It can be stopped, killed, frozen and started again on the same folder, which is how an outage looks.
Should the test's process die without a word, a watcher outlives it just long enough to clear up.
Readiness is asked for every few milliseconds, for no server tells it in a better way.
"""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from support.deadlines import WAIT_TIMEOUT_S

_WATCHER = """
cat >/dev/null
if [ -f "$1/pid" ]; then
    pid=$(cat "$1/pid")
    kill -s CONT "$pid"
    kill -s "$2" "$pid"
    for turn in $(seq 250); do kill -0 "$pid" || break; sleep 0.02; done
    kill -s KILL "$pid"
fi
rm -rf "$1" || { sleep 0.2; rm -rf "$1"; }
"""


class OwnServer(ABC):
    """Not started. `command` is what runs it in the foreground; `socket_path` is where it listens when it is ready."""

    end_signal = signal.SIGKILL
    """What ends it at once without anything of it staying in the system."""

    def __init__(self, name: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"streamweir-{name}-"))
        self.log_path = self.folder / "log"
        self._pid_path = self.folder / "pid"
        self._process: subprocess.Popen[bytes] | None = None
        self._frozen: list[int] = []
        self._watcher = subprocess.Popen(  # noqa: S603
            ["/bin/sh", "-c", _WATCHER, "watcher", str(self.folder), self.end_signal.name[3:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        atexit.register(self.close)

    @abstractmethod
    def command(self) -> Sequence[str]: ...

    @abstractmethod
    def socket_path(self) -> Path: ...

    def is_ready(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self.socket_path())) == 0

    def identity(self) -> Mapping[str, int]:
        """As whom it runs: `user` and `group`, or nothing."""
        return {}

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Back when it takes connections."""
        assert not self.is_running
        with self.log_path.open("ab") as log:
            self._process = self.run(self.command(), log.fileno())
        self._pid_path.write_text(str(self._process.pid))
        until = time.monotonic() + WAIT_TIMEOUT_S
        while not self.is_ready():
            if not self.is_running or time.monotonic() > until:
                self.kill()
                raise AssertionError(f"did not start:\n{self.log_path.read_text()[-2000:]}")
            time.sleep(0.003)
        return self

    def run(self, command: Sequence[str], output: int) -> subprocess.Popen[bytes]:
        """A program of the server's, in its folder and in no session of the tests'."""
        identity = self.identity()
        return subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=self.folder,
            env={"LC_ALL": "C", "PATH": os.defpath},
            start_new_session=True,
            user=identity.get("user"),
            group=identity.get("group"),
            extra_groups=[] if identity else None,
        )

    def stop(self) -> None:
        """As an operator stops it: connections are closed, nothing is lost."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """With all of its processes, as a machine that fails would."""
        if self.is_running:
            _send(self.pid, signal.SIGSTOP)  # so that it has no more of them in the meantime
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Frozen, with all of its processes: connections stay open and nothing answers."""
        _send(self.pid, signal.SIGSTOP)
        self._frozen = [self.pid, *_descendants(self.pid)]
        for pid in self._frozen:
            _send(pid, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in self._frozen:
            _send(pid, signal.SIGCONT)
        self._frozen = []

    def close(self) -> None:
        """For good, and with everything it wrote. May be called again."""
        self._end(self.end_signal)
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._watcher.stdin is not None and not self._watcher.stdin.closed:
            self._watcher.stdin.close()
            self._watcher.wait(WAIT_TIMEOUT_S)
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        return self if self.is_running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _end(self, with_signal: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        others = _descendants(process.pid) if process.poll() is None else []
        for pid in self._frozen:
            _send(pid, signal.SIGCONT)
        self._frozen = []
        process.send_signal(with_signal)
        for pid in others if with_signal == signal.SIGKILL else ():
            _send(pid, signal.SIGKILL)
        process.wait(WAIT_TIMEOUT_S)
        self._pid_path.unlink(missing_ok=True)
        until = time.monotonic() + WAIT_TIMEOUT_S
        while any(_is_alive(pid) for pid in others):
            assert time.monotonic() < until, f"still there: {others}"
            time.sleep(0.003)


def _descendants(pid: int) -> list[int]:
    try:
        children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [found for child in children for found in (child, *_descendants(child))]


def _send(pid: int, what: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it left by itself
        os.kill(pid, what)


def _is_alive(pid: int) -> bool:
    """One that only waits to be taken note of is not: whose turn that is may take its time."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
