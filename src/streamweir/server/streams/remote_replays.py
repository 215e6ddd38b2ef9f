"""Requests that were sent again to another node than before, with the same `Idempotency-Key`.

The answer that was given, or is being given, is found in Valkey by that key, and every caller that waits for it here
gets all of it from its beginning.
"""

from collections.abc import Callable

from streamweir.core.errors import CallerError
from streamweir.frontends.table import FRONTENDS
from streamweir.server.http.answers import failure_answer
from streamweir.server.streams.frames import StreamHead
from streamweir.server.streams.reader import Reader
from streamweir.server.streams.remote import RemoteStream, RemoteStreams
from streamweir.server.streams.remote_endpoint import RemoteStreamAnswer
from streamweir.server.streams.table import StreamTable


class RemoteReplays:
    """See `server.streams.replay.OtherNodes`."""

    def __init__(self, table: StreamTable, streams: RemoteStreams, keepalive_s: Callable[[], float]) -> None:
        self._table = table
        self._streams = streams
        self._keepalive_s = keepalive_s

    async def find(self, head: StreamHead, /, *, is_used: bool) -> RemoteStream | None:
        if head.idempotency is None:
            return None
        found = await self._streams.find_replayed(head.key_id, head.idempotency.key, is_used=is_used)
        if found is None or not found.is_kept:
            return None
        is_same = found.head.idempotency == head.idempotency and found.head.key_id == head.key_id
        return found if is_same else None

    async def answer(self, found: RemoteStream, reader: Reader, /) -> None:
        try:
            self._streams.check_readers(found.head.id)
        except CallerError as error:
            frontend = FRONTENDS.by_name[found.head.frontend]
            reader.response.send(failure_answer(error, frontend, (), found.head.request_id))
            return
        self._table.count_resume()
        reading = RemoteStreamAnswer(found, reader.response, 0, has_ids=reader.has_ids, is_replay=True)
        await reading.run(self._keepalive_s())
