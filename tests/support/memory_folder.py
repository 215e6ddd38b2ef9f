"""Temporary files of the tests in memory: databases and journals wait for the disk at every commit.

The tests kill programs and never the machine, so nothing that they prove depends on a disk. `TMPDIR` wins where it is
set, and so does a machine with little memory. The folder is removed at the end of the session; that of a session that
was killed, at the beginning of the next one.
"""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from streamweir.server.process.run_file import RUNTIME_DIR

MEMORY = Path("/dev/shm")  # noqa: S108 (the folder in it is made by mkdir, for its owner alone)
NEEDED_BYTES = 4 << 30
"""Several times what a session uses."""


def use_memory(environ: dict[str, str] | os._Environ[str], memory: Path = MEMORY) -> Path | None:
    """The new folder for temporary files, named in `TMPDIR`; None if the usual one is used."""
    if "TMPDIR" in environ or not memory.is_dir() or not os.access(memory, os.W_OK):
        return None
    for left in memory.glob("sw-*"):
        if not _is_running(left.name.removeprefix("sw-")):
            shutil.rmtree(left, ignore_errors=True)
    if shutil.disk_usage(memory).free < NEEDED_BYTES or _available_bytes() < NEEDED_BYTES:
        return None
    folder = memory / f"sw-{os.getpid()}"
    folder.mkdir(mode=0o711)  # PostgreSQL runs as another user where the tests run as root
    environ["TMPDIR"] = str(folder)
    return folder


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return  # a worker has the folder of its session
    folder = use_memory(os.environ)
    if folder is not None:
        tempfile.tempdir = None  # it is read again
        config.option.basetemp = config.option.basetemp or str(folder / "t")  # short: names of sockets must be
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    # Commands of the tests find no gateway of the machine or of another worker, nor others those of the tests.
    if RUNTIME_DIR not in os.environ or hasattr(config, "workerinput"):
        runtime = os.environ[RUNTIME_DIR] = tempfile.mkdtemp(prefix="sw-run-")
        config.add_cleanup(lambda: shutil.rmtree(runtime, ignore_errors=True))


def _is_running(pid: str) -> bool:
    if not pid.isdecimal():
        return True  # not ours
    with suppress(PermissionError):
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return False
    return True


def _available_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), 0)
