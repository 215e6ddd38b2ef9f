"""The server as a connection knows it, and why a connection may ask too much of it. No socket here."""

from typing import TYPE_CHECKING, Protocol

from streamweir.core.errors import CallerError, GatewayFault
from streamweir.server.http.limits import HttpLimits
from streamweir.server.http.message import Application
from streamweir.server.http.pressure import come_back_s
from streamweir.server.http.read_budget import ReadBudget
from streamweir.server.http.timers import TimerQueue

if TYPE_CHECKING:
    from streamweir.server.http.connection import Connection


class EarlyRefusal(Protocol):
    """See `server.request.overload`."""

    def __call__(self, data: bytes, /, *, closes: bool) -> bytes | None:
        """A whole answer to a request of which these are all the bytes; None: it must be read."""
        ...


class ServerInterface(Protocol):
    """The server, as far as a connection knows it."""

    @property
    def app(self) -> Application: ...

    @property
    def limits(self) -> HttpLimits: ...

    @property
    def clock(self) -> TimerQueue: ...

    @property
    def turns(self) -> ReadBudget: ...

    @property
    def is_admitting(self) -> bool: ...

    @property
    def keeps_alive(self) -> bool: ...

    def opened(self, connection: "Connection", /) -> None: ...

    @property
    def early(self) -> EarlyRefusal | None: ...

    @property
    def reserved(self) -> tuple[str, ...]:
        """How the paths begin that are served though there are too many connections."""
        ...

    def may_linger(self, connection: "Connection", /) -> bool:
        """Whether there is room for its gentle end."""
        ...

    def closed(self, connection: "Connection", /) -> None: ...


def too_much_at_once(most: int) -> CallerError:
    message = f"More than {most} bytes of further requests came before this one's answer. Wait for each answer."
    return CallerError("invalid_value", message)


def too_many() -> GatewayFault:
    return GatewayFault("overloaded", "The gateway has too many connections.", retry_after_s=come_back_s())
