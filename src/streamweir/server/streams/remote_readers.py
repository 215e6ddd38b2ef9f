"""The readers of this process's streams at other nodes, as these announce them (`server.streams.remote`).

A stream has such a reader among its own, so that it is read on while somebody reads it anywhere, and its record has
every gap. Nothing is written to it: what it reads comes from Valkey. A reader that is not announced any more has left.
"""

import asyncio
from collections.abc import Callable

from streamweir.core.errors import StreamweirError
from streamweir.server.http.message import Answer, Headers
from streamweir.server.streams.reader import Reader
from streamweir.server.streams.remote import LEFT, READ, READER_TIMEOUT_S, STOP
from streamweir.server.streams.stream import ResumableStream
from streamweir.store.streams.follower import Message


class NullResponse:
    """See `server.http.message.Response`: takes everything, and writes nothing."""

    def __init__(self) -> None:
        self.more_headers: Headers = ()
        self.on_gone: Callable[[], None] | None = None
        self.on_full: Callable[[], None] | None = None
        self.on_drained: Callable[[], None] | None = None
        self.started = self.over = self.gone = self.full = False

    def send(self, _answer: Answer, /) -> None: ...

    def start(self, _status: int, _headers: Headers, _first: bytes = b"", /) -> None: ...

    def write(self, _data: bytes, /) -> None: ...

    def end(self, _last: bytes = b"", /) -> None: ...

    def cut(self) -> None: ...

    def read_body(self, _max_bytes: int | None, _done: Callable[[StreamweirError | None], None], /) -> None: ...

    def arrived_body(self) -> bytes:
        return b""


class RemoteReaders:
    def __init__(
        self,
        find: Callable[[str], ResumableStream | None],
        stopped: Callable[[str, bool], None],
        timeout_s: float = READER_TIMEOUT_S,
    ) -> None:
        """`find`: a stream of this process. `stopped` is called for one that a caller has deleted at another node, when
        it has ended here; False: it was not here."""
        self._find = find
        self._stopped = stopped
        self._timeout_s = timeout_s
        self._readers: dict[str, tuple[ResumableStream, Reader, asyncio.TimerHandle]] = {}

    def __len__(self) -> int:
        return len(self._readers)

    def take(self, message: Message) -> None:
        """A message of another node."""
        kind = message.get("kind")
        if kind == STOP:
            stream_id = message.get("stream", "")
            stream = self._find(stream_id)
            if stream is not None:
                stream.delete()
            self._stopped(stream_id, stream is not None)
            return
        for name in message.get("readers", "").split():
            if kind == READ:
                self._read(name)
            elif kind == LEFT:
                self._leave(name)

    def close(self) -> None:
        for _, _, timeout in self._readers.values():
            timeout.cancel()
        self._readers.clear()

    def _read(self, name: str) -> None:
        timeout = asyncio.get_running_loop().call_later(self._timeout_s, self._leave, name)
        if name in self._readers:
            stream, reader, before = self._readers[name]
            before.cancel()
            self._readers[name] = stream, reader, timeout
            return
        found = self._find(name.partition("/")[0])
        if found is None or found.over or found.frames is None:
            timeout.cancel()
            return
        reader = Reader(NullResponse(), has_ids=False, is_elsewhere=True)
        reader.on_over = lambda: self._forget(name)
        self._readers[name] = found, reader, timeout
        found.attach(reader, found.frames.events)

    def _leave(self, name: str) -> None:
        if name in self._readers:
            stream, reader, _ = self._readers[name]
            stream.detach(reader)

    def _forget(self, name: str) -> None:
        known = self._readers.pop(name, None)
        if known is not None:
            known[2].cancel()
