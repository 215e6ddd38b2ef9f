"""Everything that the client raises, and what it carries.

    ClientError
    +-- RequestFailed          a status that is no success: status, type, code, param, retry_after_s, request_id
    |   +-- RequestRefused         400, 413, 422 and every other 4xx: the request itself
    |   +-- AuthenticationFailed   401
    |   +-- PermissionDenied       403
    |   +-- NotFound               404: the path, or the model
    |   +-- Conflict               409
    |   +-- RateLimited            429
    |   +-- ServerFailed           5xx
    +-- Unreachable            no status came: refused, no such host, TLS, too slow, or it broke before
    +-- StreamBroken           an answer began and is not whole: `completion` is what arrived of it
    |   +-- StreamError            the server said so, in an error frame: type, code, param
    |   +-- StreamTruncated        the end that the dialect promises never came
    |   +-- StreamTimeout          nothing came for too long: `phase` says what was waited for
    |   +-- StreamInvalid          a frame, or a whole body, that cannot be read
    |   +-- StreamTooLarge         beyond the bounds that the caller has set
    +-- InvalidToolArguments   the arguments of a call are no JSON object, or not whole

An error is a value that pure code makes; only the shells raise it. Its text is the server's own where there is one,
without the caller's key in it.
"""

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from streamweir.client.answer import Completion, ToolCall

Phase = Literal["first_event", "between_events"]


class ClientError(Exception):
    """The base: whatever goes wrong between a caller and an endpoint."""

    def __init__(self, message: str, *, request_id: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.request_id = request_id
        """The server's own name of the request, where it gave one: what to ask its operator about."""

    may_retry = False
    """Asking again could help, and nothing of an answer has been given out."""


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
        told = " ".join(word for word in (self.type, self.code) if word)
        return f"{self.status}{f' ({told})' if told else ''}: {self.message}"


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


def kind_of(status: int) -> type[RequestFailed]:
    """The class for a status that is no success."""
    found = _BY_STATUS.get(status)
    if found is not None:
        return found
    if status >= 500:
        return ServerFailed
    return RequestRefused if status >= 400 else RequestFailed


class Unreachable(ClientError):
    may_retry = True


class StreamBroken(ClientError):
    """The base of what can end an answer that has begun, or should have."""

    def __init__(self, message: str, completion: "Completion", *, request_id: str | None = None) -> None:
        super().__init__(message, request_id=request_id)
        self.completion = completion
        """What arrived, which may be nothing. It is not whole."""


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
        told = " ".join(word for word in (self.type, self.code) if word)
        return f"{told}: {self.message}" if told else self.message


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
        """Every choice had finished: the last word of the stream alone is missing, and usage perhaps."""
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
