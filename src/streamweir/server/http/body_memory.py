"""The memory that request bodies take, in all and by key: who may have more of it.

A body counts from the moment it is let in, with the length that its head declares (a chunked one as it
grows), until its request is over: what is made of it is about as large. All of them together stay
within `total_bytes`, so that bodies never fill the process. No key gets at others' expense what they may
need: a key that holds something already may hold at most as much as is left free. Alone it gets half,
two get a third each, and there is always room for one more. Small bodies are not counted: a connection
takes as much by itself. Pure but for what it counts.
"""

from streamweir.core.errors import CallerError, GatewayFault, StreamweirError
from streamweir.server.http.message import Request
from streamweir.server.http.pressure import retry_after_s

SMALL_BODY = 16 * 1024


class BodyMemory:
    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.held_bytes = 0
        self._by_key: dict[str, int] = {}

    def hold(self, request: Request, key_id: str) -> None:
        """For the body of a request that is about to be read. Raises `StreamweirError` where there is no room."""
        if request.length is not None and request.length <= SMALL_BODY:
            return
        held = _Held(self, key_id)
        error = held.grow(request.length or 0)
        if error is not None:
            raise error
        request.hold = held

    def held_by(self, key_id: str) -> int:
        return self._by_key.get(key_id, 0)

    def take(self, key_id: str, count: int) -> StreamweirError | None:
        own, free = self._by_key.get(key_id, 0), self.total_bytes - self.held_bytes - count
        if own and own + count > free:
            message = (
                f"The bodies of this key's running requests hold {own} bytes, and {count} more would leave too little "
                "for other keys. Send fewer requests at once."
            )
            return CallerError("concurrency_limit_exceeded", message, retry_after_s=retry_after_s())
        if free < 0:
            return GatewayFault("overloaded", "The gateway is overloaded.", retry_after_s=retry_after_s())
        self._by_key[key_id] = own + count
        self.held_bytes += count
        return None

    def give_back(self, key_id: str, count: int) -> None:
        self.held_bytes -= count
        left = self._by_key[key_id] - count
        if left:
            self._by_key[key_id] = left
        else:
            del self._by_key[key_id]


class _Held:
    """See `server.http.message.BodyHold`."""

    __slots__ = ("_bytes", "_key_id", "_memory")

    def __init__(self, memory: BodyMemory, key_id: str) -> None:
        self._memory = memory
        self._key_id = key_id
        self._bytes = 0

    def grow(self, to_bytes: int, /) -> StreamweirError | None:
        more = to_bytes - self._bytes
        if more <= 0 or to_bytes <= SMALL_BODY:
            return None
        error = self._memory.take(self._key_id, more)
        if error is None:
            self._bytes = to_bytes
        return error

    def release(self) -> None:
        if self._bytes:
            self._memory.give_back(self._key_id, self._bytes)
            self._bytes = 0
