"""`GET` and `DELETE /v1/streams/{id}`: a caller comes back to a stream of its key, or ends it.

    GET ?after=N, or Last-Event-ID: N    what came behind the Nth event, then what comes, in the stream's own API
    DELETE                               ends it: 204

A stream of another key is not found, like one that never was. These requests leave no row in the request log: what is
recorded is in the row of the request that began the stream.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol
from urllib.parse import parse_qs

from streamweir.core.errors import CallerError
from streamweir.frontends.base import Frontend
from streamweir.policy.access import Key
from streamweir.server.http.answers import failure_answer
from streamweir.server.http.message import Answer, Request, Response
from streamweir.server.streams.stream import ResumableStream
from streamweir.server.streams.table import StreamTable, asks_for_ids, not_found

_MAX_DIGITS = 12
_MAX_PARAMETERS = 100


Start = Callable[[Request, Response, Coroutine[Any, Any, None]], None]
"""Runs the task of a request that is not a chat."""


class OtherNodesEndpoint(Protocol):
    async def serve(
        self, request: Request, response: Response, key: Key, frontend: Frontend, stream_id: str, after: int, /
    ) -> None:
        """As `StreamEndpoint.serve`, for a stream that is not in this process."""
        ...


class StreamEndpoint:
    def __init__(self, table: StreamTable, remote: OtherNodesEndpoint | None, start: Start) -> None:
        """`remote`: for streams of other nodes."""
        self._table = table
        self._remote = remote
        self._start = start

    def serve(self, request: Request, response: Response, key: Key, frontend: Frontend, stream_id: str) -> None:
        """`frontend`: for an error."""
        try:
            after = read_after(request) if request.method == "GET" else 0
            stream = self._find(stream_id, key)
            if stream is None:
                assert self._remote is not None  # noqa: S101 (`_find` raises without it)
                self._start(request, response, self._remote.serve(request, response, key, frontend, stream_id, after))
            elif request.method == "DELETE":
                stream.delete()
                response.send(Answer(status=204))
            else:
                self._table.attach(stream, response, after, has_ids=asks_for_ids(request.headers))
        except CallerError as error:
            response.send(failure_answer(error, frontend, (), request.id))

    def _find(self, stream_id: str, key: Key) -> ResumableStream | None:
        """None: other nodes may have it. Raises `CallerError`."""
        stream = self._table.find(stream_id, key.id, is_anywhere=self._remote is not None)
        if stream is None and (self._remote is None or self._table.own(stream_id) is not None):
            raise not_found()
        return stream


def read_after(request: Request) -> int:
    """The number of the last event that the caller has: `after` in the URL, else `Last-Event-ID`. Raises
    `CallerError`."""
    try:
        values = parse_qs(request.query, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS).get("after")
    except ValueError:
        raise CallerError("invalid_after", "The URL has too many parameters.") from None
    sent = values[-1] if values else request.headers.get("last-event-id", "").strip() or "0"
    if not (sent.isascii() and sent.isdigit()) or len(sent) > _MAX_DIGITS:
        name = "after" if values else "Last-Event-ID"
        raise CallerError("invalid_after", f"{name} must be the number of the last event that was received.")
    return int(sent)
