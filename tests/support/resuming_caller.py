"""A caller that comes back to its stream until it has all of it, through a balancer or at one of several nodes.

It counts events as any client does: a blank line ends one that has data; a part of an event is forgotten with its
connection. It knows the end of a stream of the chat completions API.

    caller = ResumingCaller(lambda: addresses[0])
    await caller.ask(model="m")
    assert caller.is_whole and caller.body == b"data: ..."
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from support.gateway import KEY, chat_request
from support.raw_client import CutShort, RawClient, Reply

DONE = b"data: [DONE]\n\n"
RESUMABLE = (("x-streamweir-resumable", "true"),)
RETRY_S = 0.1
_TRANSIENT = (502, 503, 504)


class ResumingCaller:
    def __init__(self, address: Callable[[], tuple[str, int]], *, key: str = KEY) -> None:
        """`address`: for the next connection."""
        self._address = address
        self._key = key
        self.events: list[bytes] = []
        self.stream_id = ""
        self.request_id = ""
        self.counts: Counter[str] = Counter()
        """Of connections by how they ended, and of statuses."""
        self.refusal: bytes | None = None
        """The body of an answer that ended it."""
        self.away_s = 0.0
        """The longest time from the end of a connection to the next event."""
        self._client: RawClient | None = None
        self._left_at: float | None = None

    @property
    def body(self) -> bytes:
        return b"".join(self.events)

    @property
    def is_whole(self) -> bool:
        return bool(self.events) and self.events[-1] == DONE

    async def ask(self, **members: Any) -> None:
        """Asks, and reads to the end of the stream. `headers` may be among the members."""
        headers = members.pop("headers", ()) + RESUMABLE
        request = chat_request(key=self._key, headers=headers, stream=True, **members)
        while not self.stream_id and self.refusal is None:
            await self._try(request)
        await self.come_back()

    async def come_back(self) -> None:
        """To the stream that it knows."""
        while not self.is_whole and self.refusal is None:
            await self._try(self._resume())

    def lose_connection(self) -> None:
        """As when a phone changes its network."""
        if self._client is not None:
            self._client.leave()

    def _resume(self) -> bytes:
        path = f"/v1/streams/{self.stream_id}?after={len(self.events)}"
        lines = [f"GET {path} HTTP/1.1", "host: gateway", f"authorization: Bearer {self._key}"]
        return "\r\n".join([*lines, "", ""]).encode()

    async def _try(self, request: bytes) -> None:
        try:
            self._client = await RawClient.open(self._address())
            async with self._client as client:
                await client.send(request)
                head = await client.head()
                self.counts[f"status {head.status}"] += 1
                if head.status == 200:
                    await self._read(client, head)
                    self.counts["end" if self.is_whole else "clean close"] += 1
                else:
                    await self._refused(client, head)
        except (CutShort, OSError, ValueError) as reason:  # a closed socket of our own is a ValueError
            self.counts[f"cut: {type(reason).__name__}"] += 1
            await asyncio.sleep(RETRY_S)
        if self._left_at is None:
            self._left_at = time.monotonic()

    async def _read(self, client: RawClient, head: Reply) -> None:
        self.stream_id = head.header("x-streamweir-stream") or self.stream_id
        self.request_id = self.request_id or head.header("x-request-id") or ""
        waiting = b""
        while chunk := await client.chunk():
            if self._left_at is not None:
                self.away_s = max(self.away_s, time.monotonic() - self._left_at)
                self._left_at = None
            waiting += chunk
            while (end := waiting.find(b"\n\n")) >= 0:
                block, waiting = waiting[: end + 2], waiting[end + 2 :]
                lines = [line for line in block.split(b"\n") if not line.startswith(b":")]
                if any(line.startswith(b"data:") for line in lines):
                    self.events.append(b"\n".join(lines))

    async def _refused(self, client: RawClient, head: Reply) -> None:
        body = await client.read_exactly(int(head.header("content-length") or 0))
        if head.status in _TRANSIENT:
            await asyncio.sleep(RETRY_S)
        else:
            self.refusal = body
