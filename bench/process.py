"""Processes of a measurement: started on a core of their own, read through /proc, ended with all their children.

What a system under test costs is what the kernel has counted for its process and every process
below it. Nothing here knows what is measured.
"""

import os
import resource
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import IO

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
START_S = 20.0


class BenchError(Exception):
    """The measurement cannot be made, or its figures would mean nothing."""


class Process:
    """A program on one core, with its output in a file."""

    def __init__(self, command: Sequence[str], core: int, log: Path, environ: Mapping[str, str] | None = None) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = spawn(command, core, output, environ)

    @property
    def cpu_s(self) -> float:
        """Of user and kernel, so far."""
        ticks = 0
        for pid in self._pids():
            fields = stat_of(pid)
            ticks += int(fields[11]) + int(fields[12]) if fields else 0
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
            if self._process.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                sleep(0.02)
            else:
                return
        self.stop()
        last = self._log.read_text(errors="replace").strip().splitlines()[-1:]
        raise BenchError(f"nothing listens on port {port}: {last[0] if last else 'no output'}")

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
    command: Sequence[str], core: int, output: IO[bytes] | int, environ: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Pins the child before it runs, so that what it starts in turn is pinned too."""
    return subprocess.Popen(  # noqa: S603
        command,
        env={**os.environ, **(environ or {})},
        stdout=output,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )


def stat_of(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may hold anything; empty for a process that has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def busy_s(core: int) -> float:
    """What all processes have used of a core since the machine started, and what the machine's host has taken of it."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name == f"cpu{core}":
            user, nice, system, _idle, _wait, _irq, _softirq, steal = map(int, ticks[:8])
            return (user + nice + system + steal) / TICKS_PER_S
    raise BenchError(f"/proc/stat knows no core {core}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def two_cores() -> tuple[int, int]:
    """One for the system under test, one for all else. The same one twice, where there is no other."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[0], cores[min(1, len(cores) - 1)]


def allow_files(count: int) -> int:
    """Raises the limit of open files for us and for what we start. Returns what it is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, count) if hard == resource.RLIM_INFINITY else max(soft, min(count, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
