"""Processes of a measurement: started on cores of their own, read through /proc, ended with all their children.

What a system under test costs is what the kernel has counted for its process and every process
below it, of all their threads, with those that have ended meanwhile. Nothing here knows what is
measured.
"""

import os
import resource
import signal
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import IO

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
START_S = 60.0


class BenchError(Exception):
    """The measurement cannot be made, or its figures would mean nothing."""


class Process:
    """A program on some cores, with its output in a file."""

    def __init__(
        self, command: Sequence[str], cores: Iterable[int], log: Path, environ: Mapping[str, str] | None = None
    ) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = spawn(command, cores, output, environ)

    @property
    def cpu_s(self) -> float:
        """Of user and kernel, so far."""
        ticks = 0
        for pid in self._pids():
            # utime, stime, and the same of children that have ended and were waited for: nothing gets lost
            # when a process below ends, for its time goes over to its parent.
            ticks += sum(map(int, stat_of(pid)[11:15]))
        return ticks / TICKS_PER_S

    @property
    def rss(self) -> int:
        """Bytes of memory that are resident."""
        pages = 0
        for pid in self._pids():
            try:
                pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
        return pages * PAGE

    def wait_for_port(self, port: int) -> None:
        end = monotonic() + START_S
        while monotonic() < end:
            self.must_run()
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                sleep(0.02)
            else:
                return
        self.stop()
        raise BenchError(f"nothing listens on port {port}: {self._last_words()}")

    def must_run(self) -> None:
        if self._process.poll() is not None:
            raise BenchError(f"{self._log.stem} has ended: {self._last_words()}")

    def stop(self) -> None:
        pids = self._pids()
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pid in pids:
            if pid != self._process.pid and Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)

    def _last_words(self) -> str:
        last = self._log.read_text(errors="replace").strip().splitlines()[-1:]
        return last[0] if last else "no output"

    def _pids(self) -> list[int]:
        """This process and all below it."""
        parents: dict[int, int] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and (fields := stat_of(int(entry.name))):
                parents[int(entry.name)] = int(fields[1])
        family = [self._process.pid]
        for member in family:
            family += [pid for pid, parent in parents.items() if parent == member]
        return family


def spawn(
    command: Sequence[str], cores: Iterable[int], output: IO[bytes] | int, environ: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Pins the child before it runs, so that what it starts in turn is pinned too."""
    return subprocess.Popen(  # noqa: S603
        command,
        env={**os.environ, **(environ or {})},
        stdout=output,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )


def stat_of(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may hold anything; empty for a process that has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def busy_s(cores: Iterable[int]) -> float:
    """What all processes have used of these cores since the machine started, with what its host has taken of them."""
    lines = (line.split() for line in Path("/proc/stat").read_text().splitlines())
    ticks_of = {name: [int(each) for each in ticks[:8]] for name, *ticks in lines if name.startswith("cpu")}
    ticks = 0
    for core in cores:
        user, nice, system, _idle, _wait, _irq, _softirq, steal = ticks_of[f"cpu{core}"]
        ticks += user + nice + system + steal
    return ticks / TICKS_PER_S


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def share_cores() -> tuple[int, int, frozenset[int]]:
    """One for the system under test, one for all else, and those that a system of two workers gets.

    The same one twice, where there is no other; and where there is no third, two workers share one.
    """
    cores = sorted(os.sched_getaffinity(0))
    system, load = cores[0], cores[min(1, len(cores) - 1)]
    return system, load, frozenset({system, *cores[2:3]})


def allow_files(count: int) -> int:
    """Raises the limit of open files for us and for what we start. Returns what it is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, count) if hard == resource.RLIM_INFINITY else max(soft, min(count, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
