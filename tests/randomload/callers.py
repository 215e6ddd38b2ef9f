"""The callers of the random load: each does what its plan says, and notes what it was told.

A caller may be cut off by a gateway that is killed. What it may not be is left waiting: a caller without a word for
`WAIT_TIMEOUT_S` is a failure.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from randomload.plan import BROKEN, Plan
from randomload.upstream import Turns
from support.gateway import chat_request
from support.raw_client import CutShort, RawClient, Reply

LEAVE = {"fin": RawClient.close, "rst": RawClient.reset, "half-close": RawClient.half_close}
GONE = (ConnectionError, CutShort)
PREFIX = "sk-RandomLoad0123456789"


def secret_of(key: str) -> str:
    return f"{PREFIX}{key}"


@dataclass
class Told:
    """What one request was answered."""

    plan: Plan
    id: str
    status: int
    life: int
    """Of the gateway: which of its processes it was."""
    is_whole: bool = False
    """The answer came to its end, and nothing in it says that it failed."""


@dataclass
class Notes:
    told: list[Told] = field(default_factory=list)
    life: int = 0
    asked: int = 0
    wrong: list[str] = field(default_factory=list)
    """What no caller may ever see."""


class Caller:
    def __init__(self, address: tuple[str, int], plan: Plan, turns: Turns, notes: Notes) -> None:
        self._address = address
        self._plan = plan
        self._turn = turns.of(plan.number)
        self._notes = notes
        self._chance = plan.chance("caller")

    async def go(self) -> None:
        ways: dict[str, Callable[[RawClient], Awaitable[None]]] = {
            "reads": self._reads,
            "leaves while it asks": self._leaves_while_it_asks,
            "leaves when it has asked": self._leaves_when_it_has_asked,
            "leaves in the midst": self._leaves_in_the_midst,
            "leaves with the turn": self._leaves_with_the_turn,
            "asks several at once": self._asks_several_at_once,
            "asks one after the other": self._asks_one_after_the_other,
            "reads slowly": self._reads_slowly,
            "stalls its body": self._stalls_its_body,
            "sends its body in chunks": self._sends_its_body_in_chunks,
            "has no right": self._has_no_right,
        }
        is_slow = self._plan.caller == "reads slowly"
        with suppress(*GONE):
            async with await RawClient.open(self._address, receive_buffer=4096 if is_slow else None) as client:
                await ways[self._plan.caller](client)

    # The ways.

    async def _reads(self, client: RawClient) -> None:
        await self._ask(client)
        await self._read(client)

    async def _leaves_while_it_asks(self, client: RawClient) -> None:
        request = self._request()
        await client.send(request[: int(len(request) * self._plan.offset)])
        await self._leave(client)

    async def _leaves_when_it_has_asked(self, client: RawClient) -> None:
        await self._ask(client)
        await asyncio.sleep(self._plan.offset * 0.02)
        await self._leave(client)

    async def _leaves_in_the_midst(self, client: RawClient) -> None:
        await self._ask(client)
        told = self._note(await client.head())
        if told.status == 200:
            await client.read_exactly(1 + int(self._plan.offset * 600))
        await self._leave(client)

    async def _leaves_with_the_turn(self, client: RawClient) -> None:
        """When its upstream sends what changes everything, and in the same turn of this loop."""
        await self._ask(client)
        turn = asyncio.ensure_future(self._turn.wait())
        reading = asyncio.ensure_future(self._read(client))
        try:
            await asyncio.wait({turn, reading}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                client.half_close()
                await asyncio.sleep(self._plan.offset * 0.01)
        finally:
            for each in (turn, reading):
                each.cancel()
            await asyncio.gather(turn, reading, return_exceptions=True)
        if self._plan.leaving == "rst":
            client.reset()

    async def _asks_several_at_once(self, client: RawClient) -> None:
        count = self._chance.randrange(2, 6)
        await client.send(self._request() * count)
        self._notes.asked += count
        for _ in range(self._chance.randrange(count + 1)):
            await self._read(client)
        await self._leave(client)

    async def _asks_one_after_the_other(self, client: RawClient) -> None:
        for _ in range(self._chance.randrange(1, 4)):
            await self._ask(client)
            await self._read(client)

    async def _reads_slowly(self, client: RawClient) -> None:
        await self._ask(client)
        told = self._note(await client.head())
        if told.status == 200:
            for _ in range(self._chance.randrange(12)):
                await client.read_exactly(200)
                await asyncio.sleep(0.02)
        await self._leave(client)

    async def _stalls_its_body(self, client: RawClient) -> None:
        request = self._request()
        half = request.index(b"\r\n\r\n") + 6
        await client.send(request[:half])
        await asyncio.sleep(self._plan.offset * 2)
        if self._chance.random() < 0.5:
            await client.send(request[half:])
            self._notes.asked += 1
            await self._read(client)

    async def _sends_its_body_in_chunks(self, client: RawClient) -> None:
        head, _, body = self._request().partition(b"\r\n\r\n")
        lines = [line for line in head.split(b"\r\n") if not line.startswith(b"content-length")]
        await client.send(b"\r\n".join([*lines, b"transfer-encoding: chunked", b"", b""]))
        size = self._chance.randrange(7, 60)
        for at in range(0, len(body), size):
            piece = body[at : at + size]
            await client.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        await client.send(b"0\r\n\r\n")
        self._notes.asked += 1
        await self._read(client)

    async def _has_no_right(self, client: RawClient) -> None:
        ways = [
            chat_request(key="sk-nobody-0123456789", model="openai"),
            chat_request(key=None, model="openai"),
            chat_request(key=secret_of("plain0"), model="no/such-model"),
            chat_request(key=secret_of("plain0"), path="/no/such/path", model="openai"),
            chat_request(key=secret_of("plain0"), body=b'{"messages": 7}'),
            chat_request(key=secret_of("plain0"), body=b"{" * 100),
            b"GET /v1/models HTTP/1.1\r\nhost: a\r\n\r\n",
            b"GET / HTTP/9.9\r\nthis: is\n nonsense\r\n\r\n",
        ]
        await client.send(self._chance.choice(ways))
        reply = await client.response()
        if reply.status not in (400, 401, 404, 405, 408, 413, 429, 431, 503, 505):
            self._notes.wrong.append(f"somebody without a right got {reply.status}: {self._plan}")

    # What they have in common.

    async def _ask(self, client: RawClient) -> None:
        await client.send(self._request())
        self._notes.asked += 1

    def _request(self) -> bytes:
        plan = self._plan
        members: dict[str, Any] = {"stream": plan.is_streamed, "model": plan.wire}
        if plan.choices > 1:
            members["n"] = plan.choices
        if plan.max_tokens is not None:
            members["max_tokens"] = plan.max_tokens
        content = plan.mark + " please" * plan.prompt_words
        return chat_request(
            path=f"/{plan.dialect}/v1/chat/completions",
            key=secret_of(plan.key),
            messages=[{"role": "user", "content": content}],
            **members,
        )

    async def _read(self, client: RawClient) -> None:
        told = self._note(await client.head())
        self._judge(told, await _rest(client, self._head))

    def _note(self, head: Reply) -> Told:
        """A request is acknowledged when its caller has the head of an answer with status 200."""
        self._head = head
        told = Told(self._plan, head.header("x-request-id") or "", head.status, self._notes.life)
        if head.status == 200:
            self._notes.told.append(told)
        elif head.status in (500, 501) or head.status < 400:
            self._notes.wrong.append(f"status {head.status} for {self._plan}")
        return told

    def _judge(self, told: Told, body: bytes) -> None:
        if told.status != 200:
            return
        plan = self._plan
        is_stream = (self._head.header("content-type") or "").startswith("text/event-stream")
        has_error = b'"error"' in body
        if not is_stream:
            told.is_whole = not has_error
            json.loads(body)
            return
        if plan.dialect != "bitseek" and not body.endswith(b"data: [DONE]\n\n"):
            self._notes.wrong.append(f"a stream without its end for {plan}: {body[-200:]!r}")
        told.is_whole = not has_error
        if told.is_whole and plan.upstream in BROKEN:
            self._notes.wrong.append(f"a stream that broke off looks complete for {plan}: {body[-200:]!r}")

    async def _leave(self, client: RawClient) -> None:
        LEAVE[self._plan.leaving](client)
        if self._plan.leaving == "half-close":
            await asyncio.sleep(self._plan.offset * 0.02)


async def _rest(client: RawClient, head: Reply) -> bytes:
    """The body of an answer whose head has come."""
    if head.header("transfer-encoding") == "chunked":
        chunks = []
        while chunk := await client.chunk():
            chunks.append(chunk)
        return b"".join(chunks)
    length = head.header("content-length")
    return await client.read_to_end() if length is None else await client.read_exactly(int(length))
