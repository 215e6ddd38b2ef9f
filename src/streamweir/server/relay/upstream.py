"""The upstream's side of an attempt: its call, and the head of the response.

It pauses, resumes, aborts and releases the call; each of these may be done twice or before there is a call. It collects
the body of a refusal. It knows nothing of the caller, and of the answer only its head.
"""

from collections.abc import Mapping

from streamweir.core.errors import StreamweirError, UpstreamError
from streamweir.providers.base import Provider
from streamweir.upstream.base import Call

_MAX_REFUSAL_BYTES = 64 * 1024
_READABLE = ("text/event-stream", "application/json", "application/x-ndjson", "text/plain", "application/octet-stream")


class AttemptUpstream:
    __slots__ = ("_call", "_head", "_provider", "_refusal", "is_billable", "is_paused", "resends", "status")

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._call: Call | None = None
        self._head: Mapping[str, str] = {}
        self._refusal: bytearray | None = None
        self.status = 0
        self.is_paused = False
        self.is_billable = False
        """The request was sent, and the upstream has not refused it."""
        self.resends = 0

    def take_call(self, call: Call) -> None:
        self.is_billable = True
        self._call = call
        if self.is_paused:
            call.pause()

    def take_head(self, status: int, headers: Mapping[str, str]) -> StreamweirError | None:
        """The error, if the head alone shows it. With an error status the call is not billable."""
        self.status = status
        if 300 <= status < 400:
            return self._provider.read_error(status, headers, b"")
        if not 200 <= status < 300:
            self.is_billable, self._head, self._refusal = False, headers, bytearray()
        elif headers.get("content-encoding", "identity").lower() != "identity":
            return UpstreamError("upstream_bad_encoding", "The provider compressed its answer without being asked to.")
        elif not _is_readable(headers.get("content-type", "")):
            return UpstreamError("upstream_bad_response", "The provider answered with an unexpected content type.")
        return None

    def take_refusal(self, data: bytes) -> StreamweirError | None:
        """Adds a piece to the body of a refusal. Returns the error if the body is too long to be read."""
        if self._refusal is not None:
            self._refusal += data
            if len(self._refusal) > _MAX_REFUSAL_BYTES:
                return self._provider.read_error(self.status, self._head, b"")
        return None

    def refusal(self) -> StreamweirError:
        """The error, from the part of the body that arrived."""
        return self._provider.read_error(self.status, self._head, bytes(self._refusal or b""))

    def pause(self) -> None:
        self.is_paused = True
        if self._call is not None:
            self._call.pause()

    def resume(self) -> None:
        self.is_paused = False
        if self._call is not None:
            self._call.resume()

    def drop(self) -> None:
        """Aborts the call, in any state."""
        self.release(is_reusable=False)

    def release(self, *, is_reusable: bool) -> None:
        """`is_reusable`: the answer was complete, and nothing followed it."""
        call, self._call = self._call, None
        if call is None:
            return
        self.resends = call.resends
        if is_reusable:
            call.release()
        else:
            call.abort()


def _is_readable(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return not kind or kind in _READABLE or kind.endswith("+json")
