"""Readers of one resumable stream that lose their connections at any byte, and come back, at any node, until they have
all of it.

    case = Case("7", APIS[0], "openai", pieces, events=8)
    await case.run(addresses)                # its readers, all at the same time
    assert case.readers[0].events == [...]

Everything about a case follows from its number: the pieces in which its upstream sends, how many readers there are, at
which byte each of their connections ends and how, where they come back, and in which of the documented ways. The
upstream sends a piece when somebody waits for it, so that readers come back to a stream that runs. In every second case
it holds the end back until somebody has come in addition at every node, so that this is certain there
(`Case.came_while_it_ran`).
"""

import asyncio
import json
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from socket import SO_LINGER, SOL_SOCKET
from typing import NamedTuple

from support.deadlines import WAIT_TIMEOUT_S
from support.dialect_rules import NAMES
from support.gateway import KEY, chat_request
from support.raw_client import RawClient
from support.script import Line
from support.stream_bytes import StreamBytes

Address = tuple[str, int]
RETRY_S = 0.02
_RETRIED = (429, 503)
"""Other nodes may not know yet who has left, or be without Valkey."""


class Api(NamedTuple):
    name: str
    path: str

    def request(self, model: str, number: str, headers: tuple[tuple[str, str], ...]) -> bytes:
        asked = f"case-{number}/{self.name}/{model};"
        if self.name == "completions":
            body = {"model": f"{model}-text", "prompt": asked, "stream": True, "max_tokens": 500_000}
            return chat_request(path=self.path, body=json.dumps(body).encode(), headers=headers)
        messages = [{"role": "user", "content": asked}]
        return chat_request(
            path=self.path, model=model, messages=messages, stream=True, max_tokens=500_000, headers=headers
        )


APIS = (
    *(Api(name, f"/{name}/v1/chat/completions") for name in NAMES),
    Api("messages", "/v1/messages"),
    Api("responses", "/v1/responses"),
    Api("completions", "/v1/completions"),
)


class PacedPieces:
    """A step of a scripted upstream: sends a piece when somebody waits, and goes on when others had their turns."""

    def __init__(self, pieces: Sequence[bytes], end: Sequence[bytes], turns: int, pause_s: float) -> None:
        """`end`: the pieces that are sent when `ends` is set."""
        self._pieces = (*pieces, *end)
        self._before_end = len(pieces)
        self._turns = turns
        self._pause_s = pause_s
        self.ends = asyncio.Event()
        self.sent = 0
        self.is_over = False
        self._is_begun = False
        self._waiting = 0
        self._changed = asyncio.Event()

    async def __call__(self, line: Line) -> None:
        self._is_begun = True
        try:
            for piece in self._pieces:
                while not self._waiting:
                    self._changed.clear()
                    await self._changed.wait()
                if self.sent == self._before_end:
                    await self.ends.wait()
                await line.send(piece)
                self.sent += 1
                self._changed.set()
                for _ in range(self._turns):
                    await asyncio.sleep(0)
                if self._pause_s:
                    await asyncio.sleep(self._pause_s)
        finally:
            self.is_over = True
            self._changed.set()

    @property
    def _is_held(self) -> bool:
        return self.sent == self._before_end and not self.ends.is_set()

    def __enter__(self) -> None:
        self._waiting += 1
        self._changed.set()

    def __exit__(self, *_: object) -> None:
        self._waiting -= 1

    def sends_all(self) -> None:
        """Whether somebody waits or not: the answer may be complete without what is left."""
        self.ends.set()
        self.__enter__()

    async def sends(self, pieces: int) -> None:
        """Until so many more are sent, or all that may be. At once if nobody has asked for them yet."""
        until = self.sent + pieces
        with self:
            while self._is_begun and self.sent < until and not (self.is_over or self._is_held):
                self._changed.clear()
                await self._changed.wait()


@dataclass
class Connection:
    """How one connection goes on, and ends."""

    node: int
    cut_at: int | None
    """So many bytes behind the head. Less than 0: inside of it. None: it is not cut."""
    resets: bool
    way: str
    """`after`, `last-event-id`, `repeat`: how the reader has come back."""
    has_ids: bool
    away: int
    """How many pieces its upstream sends before it."""
    receive_buffer: int | None
    came_while_it_ran: bool = False
    """It asked for the stream by its id, and its head came before the upstream had sent the end."""


@dataclass
class Reader:
    connections: list[Connection]
    comes_in_addition: bool = False
    """When the stream is known."""
    events: list[bytes] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    """Of events, at the end of each connection."""


class Case:
    def __init__(
        self,
        number: str,
        api: Api,
        model: str,
        pieces: Sequence[bytes],
        events: int,
        *,
        nodes: int = 1,
        key: str = KEY,
    ) -> None:
        """`events`: of the stream that is not interrupted."""
        self.number = number
        random = self._random = Random(number)
        self.api = api
        self.model = model
        self._key = key
        self._nodes = nodes
        self._all = events
        self.holds_back = random.random() < 0.5
        end = _end_of(pieces) if self.holds_back else len(pieces)
        self.source = PacedPieces(
            cut_anew(random, pieces[:end]),
            cut_anew(random, pieces[end:]),
            turns=random.choice((0, 1, 5, 20)),
            pause_s=0.002 if nodes > 1 else 0.0,
        )
        self.is_repeatable = random.random() < 0.25
        self.size = sum(map(len, pieces))
        self.readers = [self._reader(is_first=not at) for at in range(random.choice((1, 1, 2, 3)))]
        if self.holds_back:
            self.readers += [Reader([_uncut(node)], comes_in_addition=True) for node in range(nodes)]
        else:
            self.source.ends.set()
        self.connected = 0
        """How often somebody connected."""
        self.stream_id = ""
        self._is_known = asyncio.Event()

    def came_while_it_ran(self, node: int) -> int:
        """How many readers are known to have come back to the stream there, or in addition, while it ran."""
        connections = [each for reader in self.readers for each in reader.connections]
        return sum(each.came_while_it_ran for each in connections if each.node == node)

    def _reader(self, *, is_first: bool) -> Reader:
        random = self._random
        connections = [self._connection(is_last=False) for _ in range(random.randrange(6))]
        connections.append(self._connection(is_last=True))
        if is_first:
            connections[0].way, connections[0].away = "ask", 0
            if not self.is_repeatable and (connections[0].cut_at or 0) < 0:
                connections[0].cut_at = 0
        return Reader(connections)

    def _connection(self, *, is_last: bool) -> Connection:
        random = self._random
        return Connection(
            node=random.randrange(self._nodes),
            cut_at=None if is_last else random.choice((random.randrange(-200, 40), random.randrange(2 * self.size))),
            resets=random.random() < 0.5,
            way=random.choice(("after", "last-event-id", *(("repeat",) if self.is_repeatable else ()))),
            has_ids=random.random() < 0.2,
            away=random.choice((0, 0, 1, 3)),
            receive_buffer=random.choice((None, None, None, 4096)),
        )

    @property
    def connections(self) -> list[list[Connection]]:
        """Of each reader."""
        return [reader.connections for reader in self.readers]

    async def run(self, addresses: Sequence[Address]) -> None:
        async with asyncio.timeout(WAIT_TIMEOUT_S), asyncio.TaskGroup() as tasks:
            for reader in self.readers:
                tasks.create_task(self._read(reader, addresses))
        self.source.sends_all()

    async def _read(self, reader: Reader, addresses: Sequence[Address]) -> None:
        for connection in reader.connections:
            if connection.away:
                await self.source.sends(connection.away)
            if connection.way != "ask" and (reader.comes_in_addition or not self.is_repeatable):
                await self._is_known.wait()
            while not await self._connect(reader, connection, addresses[connection.node]):
                await asyncio.sleep(RETRY_S)

    async def _connect(self, reader: Reader, connection: Connection, address: Address) -> bool:
        """False: it is to be tried again."""
        is_repeat = connection.way in ("ask", "repeat") or not self.stream_id
        came = StreamBytes()
        self.connected += 1
        async with await RawClient.open(address, receive_buffer=connection.receive_buffer) as client:
            await client.send(self._ask(connection) if is_repeat else self._come_back(reader, connection))
            with self.source:
                await self._receive(client, came, connection, is_repeat=is_repeat)
            if connection.resets:
                client.sock.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        if came.status in _RETRIED:
            return False
        if came.status:
            assert came.status == 200, (connection, came.status, bytes(came.body))
        before = [] if is_repeat else reader.events
        if came.ids:
            assert came.ids == list(range(len(before) + 1, len(before) + 1 + len(came.events)))
        if is_repeat:
            longer, shorter = sorted((reader.events, came.events), key=len, reverse=True)
            if longer[: len(shorter)] != shorter:
                raise AssertionError("what was sent again differs")
            reader.events = longer
        else:
            reader.events += came.events
        reader.counts.append(len(reader.events))
        if connection.cut_at is None:
            assert came.is_ended, "a connection that was not cut has ended in the middle"
            if self._nodes > 1 and len(reader.events) < self._all:
                return False  # this node has lost its Valkey for a moment
        return True

    async def _receive(self, client: RawClient, came: StreamBytes, connection: Connection, *, is_repeat: bool) -> None:
        """What comes behind the cut is as if it had been lost on its way."""
        loop, received, fed, cut_at = asyncio.get_running_loop(), bytearray(), 0, connection.cut_at
        while not came.is_ended:
            data = await loop.sock_recv(client.sock, 65536)
            if not data:
                return
            received += data
            head = received.find(b"\r\n\r\n") + 4
            if head < 4:
                continue
            until = len(received) if cut_at is None else max(head + cut_at, 1)
            came.feed(bytes(received[fed:until]))
            if came.status == 200:
                self._begun(came.headers["x-streamweir-stream"], connection, is_repeat=is_repeat)
            if len(received) >= until and cut_at is not None:
                return
            fed = len(received)

    def _begun(self, stream_id: str, connection: Connection, *, is_repeat: bool) -> None:
        """The head of its answer has come. The upstream ends when somebody has come in addition at every node."""
        self.stream_id = self.stream_id or stream_id
        assert stream_id == self.stream_id
        self._is_known.set()
        if not (is_repeat or self.source.ends.is_set()):
            connection.came_while_it_ran = True
            if all(self.came_while_it_ran(node) for node in range(self._nodes)):
                self.source.ends.set()

    def _ask(self, connection: Connection) -> bytes:
        headers = [("x-streamweir-resumable", "true"), ("x-request-id", f"case-{self.number}")]
        if self.is_repeatable:
            headers.append(("idempotency-key", f"once-{self.number}"))
        if connection.has_ids and connection.way == "repeat":
            headers.append(("x-streamweir-event-ids", "include"))
        return self.api.request(self.model, self.number, tuple(headers))

    def _come_back(self, reader: Reader, connection: Connection) -> bytes:
        place = len(reader.events)
        query = f"?after={place}" if connection.way != "last-event-id" else ""
        lines = [f"GET /v1/streams/{self.stream_id}{query} HTTP/1.1", "host: gateway"]
        lines.append(f"authorization: Bearer {self._key}")
        if not query:
            lines.append(f"last-event-id: {place}")
        if connection.has_ids:
            lines.append("x-streamweir-event-ids: include")
        return "\r\n".join([*lines, "", ""]).encode()


_FINISH = re.compile(rb'"finish_reason": ?"')


def _end_of(pieces: Sequence[bytes]) -> int:
    """The first piece at which a stream may end."""
    return next((at for at, piece in enumerate(pieces) if _FINISH.search(piece)), len(pieces) - 1)


def _uncut(node: int) -> Connection:
    return Connection(node, cut_at=None, resets=False, way="after", has_ids=False, away=0, receive_buffer=None)


def cut_anew(random: Random, pieces: Sequence[bytes]) -> list[bytes]:
    """The same bytes: as they are, several in one, or cut at any byte."""
    way = random.choice(("frames", "frames", "groups", "bytes", "whole"))
    body = b"".join(pieces)
    if way == "frames":
        return list(pieces)
    if way == "whole":
        return [body]
    if way == "groups":
        size = random.randrange(2, 6)
        return [b"".join(pieces[at : at + size]) for at in range(0, len(pieces), size)]
    edges = sorted({0, len(body), *(random.randrange(len(body)) for _ in range(len(pieces)))})
    return [body[start:end] for start, end in pairwise(edges)]
