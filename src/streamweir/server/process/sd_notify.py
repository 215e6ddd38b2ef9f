"""Messages to a service manager, by systemd's protocol sd_notify: ready, reloading, stopping, alive.

    NOTIFY_SOCKET   a Unix datagram socket: its path, or with a leading @ its abstract name
    WATCHDOG_USEC   the service is restarted after so long without a message; WATCHDOG_PID: the process that is meant

Each state is one datagram, and there are no answers. The variables are removed from the environment, so that no child
(a worker, the embedded model) sends messages for the service. `WATCHDOG=1` is sent by a timer of the event loop, twice
within the time: a loop that hangs sends nothing. If the manager cannot be reached, that is logged and has no other
effect.
"""

import asyncio
import os
import socket
import time
from collections import deque
from collections.abc import MutableMapping

from streamweir.server.telemetry.log import logger

RELOADED = "Serving, configuration reloaded."
NOT_RELOADED = "Serving. The new configuration is not valid: see the log."

_SOCKET, _WATCHDOG, _WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
_PINGS = 2
"""Messages within the time of the watchdog."""
_AGAIN_S = 0.1
_MAX_WAITING = 16


class Notifier:
    """Without an address it sends nothing."""

    def __init__(self, address: str | None = None, watchdog_s: float | None = None) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._waiting: deque[bytes] = deque(maxlen=_MAX_WAITING)
        """States that did not fit into the manager's queue."""
        self._timer: asyncio.TimerHandle | None = None
        self.watchdog_s = watchdog_s if address is not None else None

    def ready(self, status: str = "Serving.") -> None:
        """Also sent when a reload is finished."""
        self._send(f"READY=1\nSTATUS={status}")
        if self.watchdog_s is not None and self._timer is None:
            self._ping(self.watchdog_s / _PINGS)

    def reloading(self) -> None:
        moment = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send(f"RELOADING=1\nMONOTONIC_USEC={moment}\nSTATUS=Reading the configuration.")

    def stopping(self) -> None:
        self._send("STOPPING=1\nSTATUS=Stopping when the open streams have ended.")

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting.clear()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _ping(self, every_s: float) -> None:
        self._send("WATCHDOG=1")
        self._timer = asyncio.get_running_loop().call_later(every_s, self._ping, every_s)

    def _send(self, state: str) -> None:
        if self._address is None:
            return
        self._waiting.append(state.encode())
        self._flush()

    def _flush(self) -> None:
        """In their order, without waiting for the manager: its queue may be full."""
        try:
            while self._waiting:
                if self._socket is None:
                    self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                    self._socket.setblocking(False)
                self._socket.sendto(self._waiting[0], self._address or "")
                self._waiting.popleft()
        except BlockingIOError:
            asyncio.get_running_loop().call_later(_AGAIN_S, self._flush)
        except OSError as reason:
            logger.warning("cannot notify the service manager", state=self._waiting[0].decode(), reason=str(reason))
            self._waiting.clear()


def take_notifier(environ: MutableMapping[str, str]) -> Notifier:
    """The notifier for this process, according to its environment."""
    address = environ.pop(_SOCKET, "")
    watchdog_us, watchdog_pid = environ.pop(_WATCHDOG, ""), environ.pop(_WATCHDOG_PID, "")
    if not address.startswith(("/", "@")) or len(address) < 2:  # none, or of an unsupported kind (vsock)
        return Notifier()
    is_watched = watchdog_us.isdecimal() and int(watchdog_us) > 0 and watchdog_pid in ("", str(os.getpid()))
    address = "\0" + address[1:] if address.startswith("@") else address
    return Notifier(address, int(watchdog_us) / 1_000_000 if is_watched else None)
