"""The memory that request bodies may use, in total and per key.

A body counts from its admission until its request is over, because the parsed request is about as large. It counts
with the length that its head declares; a chunked body counts as it grows. All bodies together stay within
`total_bytes`. A key that already uses some of it may use at most as much as stays free: one key gets a half, two get a
third each, and another key can always start. Small bodies are not counted: a connection needs as much by itself. Pure,
except for the counts.
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
        """Before the body of a request is read. Raises `StreamweirError` if there is not enough memory for it."""
        if request.length is not None and request.length <= SMALL_BODY:
            return
        hold = _MemoryHold(self, key_id)
        error = hold.grow(request.length or 0)
        if error is not None:
            raise error
        request.hold = hold

    def held_by(self, key_id: str) -> int:
        return self._by_key.get(key_id, 0)

    def reserve(self, key_id: str, count: int) -> StreamweirError | None:
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

    def release(self, key_id: str, count: int) -> None:
        self.held_bytes -= count
        remaining = self._by_key[key_id] - count
        if remaining:
            self._by_key[key_id] = remaining
        else:
            del self._by_key[key_id]


class _MemoryHold:
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
        total = self._memory.total_bytes
        if to_bytes > total:  # it would be refused at any time
            message = f"The request body exceeds {total} bytes, the memory that all request bodies may take together."
            return CallerError("request_too_large", message)
        error = self._memory.reserve(self._key_id, more)
        if error is None:
            self._bytes = to_bytes
        return error

    def release(self) -> None:
        if self._bytes:
            self._memory.release(self._key_id, self._bytes)
            self._bytes = 0
