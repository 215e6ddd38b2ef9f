"""The upstream's side of an attempt: its call, and the head of the response.

It pauses, resumes, aborts and releases the call; each of these may be done twice or before there is a call. It collects
the body of a refusal. It knows nothing of the caller, and of the answer only its head.
"""

from collections.abc import Mapping

from streamweir.core.call_trace import CallTrace
from streamweir.core.errors import ErrorReport, StreamweirError, UpstreamError
from streamweir.providers.base import Provider
from streamweir.providers.refusal import read_refusal, request_id_in
from streamweir.server.telemetry.record import AttemptRecord
from streamweir.upstream.base import Call

_MAX_REFUSAL_BYTES = 64 * 1024
_READABLE = (
    *("text/event-stream", "application/json", "application/x-ndjson", "text/plain", "application/octet-stream"),
    "application/vnd.amazon.eventstream",
)


class AttemptUpstream:
    __slots__ = (
        "_call",
        "_head",
        "_head_at",
        "_provider",
        "_refusal",
        "is_billable",
        "is_paused",
        "request_id",
        "resends",
        "status",
        "trace",
    )

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
        self.request_id: str | None = None
        """The provider's own."""
        self.trace: CallTrace | None = None
        """Known when the call is over."""
        self._head_at: float | None = None

    def complete_attempt(self, attempt: AttemptRecord) -> None:
        """Adds what is known of the call. After its end."""
        attempt.resends, attempt.status, attempt.provider_request_id = self.resends, self.status, self.request_id
        trace, head_at = self.trace, self._head_at
        attempt.trace = trace
        if trace is not None and trace.sent_at is not None and head_at is not None:
            attempt.first_byte_s = max(0.0, head_at - trace.sent_at)

    def take_call(self, call: Call) -> None:
        self.is_billable = True
        self._call = call
        if self.is_paused:
            call.pause()

    def take_head(self, status: int, headers: Mapping[str, str], now: float) -> StreamweirError | None:
        """The error, if the head alone shows it. With an error status the call is not billable."""
        self.status = status
        self.request_id = request_id_in(headers)
        self._head_at = now
        if 300 <= status < 400:
            return self._provider.read_error(status, headers, b"")
        if not 200 <= status < 300:
            self.is_billable, self._head, self._refusal = False, headers, bytearray()
        elif headers.get("content-encoding", "identity").lower() != "identity":
            message = "The provider compressed its answer without being asked to."
            return _unreadable("upstream_bad_encoding", message, headers, "content-encoding")
        elif not _is_readable(headers.get("content-type", "")):
            message = "The provider answered with an unexpected content type."
            return _unreadable("upstream_bad_response", message, headers, "content-type")
        return None

    def take_refusal(self, data: bytes) -> StreamweirError | None:
        """Adds a piece to the body of a refusal. Returns the error if the body is too long to be read."""
        if self._refusal is not None:
            self._refusal += data
            if len(self._refusal) > _MAX_REFUSAL_BYTES:
                return read_refusal(self._provider.read_error, self.status, self._head, b"")
        return None

    def refusal(self) -> StreamweirError:
        """The error, from the part of the body that arrived."""
        return read_refusal(self._provider.read_error, self.status, self._head, bytes(self._refusal or b""))

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
        self.resends, self.trace = call.resends, call.trace
        if call.is_refused:
            self.is_billable = False
        if is_reusable:
            call.release()
        else:
            call.abort()


def _unreadable(code: str, message: str, headers: Mapping[str, str], name: str) -> UpstreamError:
    error = UpstreamError(code, message)
    error.report = ErrorReport(text=f"{name}: {headers.get(name, '')}")
    return error


def _is_readable(content_type: str) -> bool:
    if content_type in _READABLE:  # nearly always
        return True
    kind = content_type.partition(";")[0].strip().lower()
    return not kind or kind in _READABLE or kind.endswith("+json")
