"""The exceptions of the client and their attributes.

    ClientError
    +-- RequestFailed          a status that is not a success: status, type, code, param, retry_after_s, request_id
    |   +-- RequestRefused         400, 413, 422 and every other 4xx: the request itself
    |   +-- AuthenticationFailed   401
    |   +-- PermissionDenied       403
    |   +-- NotFound               404: the path, or the model
    |   +-- Conflict               409
    |   +-- RateLimited            429
    |   +-- ServerFailed           5xx
    +-- Unreachable            no status was received: refused, no such host, TLS, timeout, reset
    +-- StreamBroken           an answer began and is incomplete: `completion` is what arrived
    |   +-- StreamError            the server sent an error frame: type, code, param
    |   +-- StreamTruncated        the end that the dialect requires did not arrive
    |   +-- StreamTimeout          nothing arrived for too long: `phase` says what was expected
    |   +-- StreamInvalid          a frame or a body that cannot be parsed
    |   +-- StreamTooLarge         larger than the limits that the caller has set
    +-- InvalidToolArguments   the arguments of a call are not a JSON object, or incomplete

Pure code creates errors as values; only `stream` and `http` raise them. The message is the server's own if it sent one,
without the caller's key.
"""

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from streamweir.client.answer import Completion, ToolCall

Phase = Literal["first_event", "between_events"]


class ClientError(Exception):
    """The base class of all errors of the client."""

    def __init__(self, message: str, *, request_id: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.request_id = request_id
        """The server's id of the request, if it sent one. Its operator can find the request by it."""

    may_retry = False
    """A retry may succeed, and no part of an answer has been returned to the caller."""


class RequestFailed(ClientError):
    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str | None = None,
        code: str | None = None,
        param: str | None = None,
        retry_after_s: float | None = None,
        request_id: str | None = None,
        may_retry: bool = False,
    ) -> None:
        super().__init__(message, request_id=request_id)
        self.status = status
        self.type = type
        self.code = code
        self.param = param
        self.retry_after_s = retry_after_s
        self.may_retry = may_retry

    def __str__(self) -> str:
        details = " ".join(word for word in (self.type, self.code) if word)
        return f"{self.status}{f' ({details})' if details else ''}: {self.message}"


class RequestRefused(RequestFailed):
    pass


class AuthenticationFailed(RequestFailed):
    pass


class PermissionDenied(RequestFailed):
    pass


class NotFound(RequestFailed):
    pass


class Conflict(RequestFailed):
    pass


class RateLimited(RequestFailed):
    pass


class ServerFailed(RequestFailed):
    pass


_BY_STATUS: dict[int, type[RequestFailed]] = {
    401: AuthenticationFailed,
    403: PermissionDenied,
    404: NotFound,
    409: Conflict,
    429: RateLimited,
}


def error_class(status: int) -> type[RequestFailed]:
    """The exception class for a status that is not a success."""
    found = _BY_STATUS.get(status)
    if found is not None:
        return found
    if status >= 500:
        return ServerFailed
    return RequestRefused if status >= 400 else RequestFailed


class Unreachable(ClientError):
    may_retry = True


class StreamBroken(ClientError):
    """The base class of errors that end an answer, or prevent its first event."""

    def __init__(self, message: str, completion: "Completion", *, request_id: str | None = None) -> None:
        super().__init__(message, request_id=request_id)
        self.completion = completion
        """The part that arrived; may be empty."""


class StreamError(StreamBroken):
    def __init__(
        self,
        message: str,
        completion: "Completion",
        *,
        type: str | None = None,
        code: str | None = None,
        param: str | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, completion, request_id=request_id)
        self.type = type
        self.code = code
        self.param = param

    def __str__(self) -> str:
        details = " ".join(word for word in (self.type, self.code) if word)
        return f"{details}: {self.message}" if details else self.message


class StreamTruncated(StreamBroken):
    def __init__(
        self,
        message: str,
        completion: "Completion",
        *,
        is_finished: bool = False,
        may_retry: bool = False,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, completion, request_id=request_id)
        self.is_finished = is_finished
        """Every choice had finished: only the terminator is missing, and perhaps the usage."""
        self.may_retry = may_retry


class StreamTimeout(StreamBroken):
    def __init__(self, message: str, completion: "Completion", *, phase: Phase, request_id: str | None = None) -> None:
        super().__init__(message, completion, request_id=request_id)
        self.phase = phase


class StreamInvalid(StreamBroken):
    pass


class StreamTooLarge(StreamBroken):
    pass


class InvalidToolArguments(ClientError):
    def __init__(self, message: str, call: "ToolCall") -> None:
        super().__init__(message)
        self.call = call
