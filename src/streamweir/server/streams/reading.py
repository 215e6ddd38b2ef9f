"""`GET` and `DELETE /v1/streams/{id}`: a caller comes back to a stream of its key, or ends it.

    GET ?after=N, or Last-Event-ID: N    what came behind the Nth event, then what comes, in the stream's own API
    DELETE                               ends it: 204

A stream of another key is not found, like one that never was. These requests leave no row in the request log: what is
recorded is in the row of the request that began the stream.
"""

from urllib.parse import parse_qs

from streamweir.core.errors import CallerError
from streamweir.frontends.base import Frontend
from streamweir.policy.access import Key
from streamweir.server.http.answers import failure_answer
from streamweir.server.http.message import Answer, Request, Response
from streamweir.server.streams.table import StreamTable, asks_for_ids

_MAX_DIGITS = 12
_MAX_PARAMETERS = 100


class StreamReading:
    def __init__(self, table: StreamTable) -> None:
        self._table = table

    def serve(self, request: Request, response: Response, key: Key, frontend: Frontend, stream_id: str) -> None:
        """`frontend`: for an error."""
        try:
            if request.method == "DELETE":
                self._delete(response, key, stream_id)
            else:
                self._read(request, response, key, stream_id)
        except CallerError as error:
            response.send(failure_answer(error, frontend, (), request.id))

    def _read(self, request: Request, response: Response, key: Key, stream_id: str) -> None:
        after = read_after(request)
        stream = self._table.find(stream_id, key.id)
        if stream is None:
            raise not_found()
        self._table.attach(stream, response, after, has_ids=asks_for_ids(request.headers))

    def _delete(self, response: Response, key: Key, stream_id: str) -> None:
        stream = self._table.find(stream_id, key.id)
        if stream is None:
            raise not_found()
        stream.delete()
        response.send(Answer(status=204))


def not_found() -> CallerError:
    return CallerError("stream_not_found", "No stream of this key has this id.")


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
