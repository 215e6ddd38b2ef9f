"""A client for streamed answers: chat completions in one of the four dialects, Messages, and Responses.

    with Client("http://127.0.0.1:8080", api_key=key) as client:
        with client.stream(model="sim/hello", messages="Hi") as stream:
            for text in stream.text():
                print(text, end="")
            print(stream.usage)

`Client(..., api="messages")` speaks Anthropic's Messages API, `api="responses"` OpenAI's Responses API. `parse` and
`aparse` read bytes from any other source. The readers and the modules that they use are pure. `Client` and
`AsyncClient` need httpx2 (the extra `client`), which is imported when one of them is first used. Nothing here imports
the gateway.
"""

from typing import TYPE_CHECKING, Any

from streamweir.client.answer import Answer, Choice, Completion, ToolCall
from streamweir.client.error import (
    AuthenticationFailed,
    ClientError,
    Conflict,
    InvalidToolArguments,
    NotFound,
    PermissionDenied,
    RateLimited,
    RequestFailed,
    RequestRefused,
    ServerFailed,
    StreamBroken,
    StreamError,
    StreamInvalid,
    StreamTimeout,
    StreamTooLarge,
    StreamTruncated,
    Unreachable,
)
from streamweir.client.reader import Limits, Reader
from streamweir.client.resume import Resume
from streamweir.client.stream import AsyncStream, Stream, aparse, parse
from streamweir.client.timeouts import Retries, Timeouts
from streamweir.core.events import (
    ChoiceFinished,
    Event,
    Extra,
    FinishReason,
    LogprobsDelta,
    ReasoningDelta,
    RefusalDelta,
    StreamCompleted,
    StreamStarted,
    StreamTagged,
    TextDelta,
    ToolCallDelta,
    ToolCallStarted,
    UsageDiscarded,
    UsageReported,
)
from streamweir.core.usage import Usage

if TYPE_CHECKING:
    from streamweir.client.http import AsyncClient, Client
    from streamweir.client.messages_reader import MessagesReader
    from streamweir.client.responses_reader import ResponsesReader

__all__ = [
    "Answer",
    "AsyncClient",
    "AsyncStream",
    "AuthenticationFailed",
    "Choice",
    "ChoiceFinished",
    "Client",
    "ClientError",
    "Completion",
    "Conflict",
    "Event",
    "Extra",
    "FinishReason",
    "InvalidToolArguments",
    "Limits",
    "LogprobsDelta",
    "MessagesReader",
    "NotFound",
    "PermissionDenied",
    "RateLimited",
    "Reader",
    "ReasoningDelta",
    "RefusalDelta",
    "RequestFailed",
    "RequestRefused",
    "ResponsesReader",
    "Resume",
    "Retries",
    "ServerFailed",
    "Stream",
    "StreamBroken",
    "StreamCompleted",
    "StreamError",
    "StreamInvalid",
    "StreamStarted",
    "StreamTagged",
    "StreamTimeout",
    "StreamTooLarge",
    "StreamTruncated",
    "TextDelta",
    "Timeouts",
    "ToolCall",
    "ToolCallDelta",
    "ToolCallStarted",
    "Unreachable",
    "Usage",
    "UsageDiscarded",
    "UsageReported",
    "aparse",
    "parse",
]


def __getattr__(name: str) -> Any:
    """Imports httpx2 only if a client is used: it takes long to import, and `parse` does not need it.

    The same for what reads an API that is not used.
    """
    if name == "MessagesReader":
        from streamweir.client import messages_reader

        return messages_reader.MessagesReader
    if name == "ResponsesReader":
        from streamweir.client import responses_reader

        return responses_reader.ResponsesReader
    if name not in ("Client", "AsyncClient"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from streamweir.client import http
    except ModuleNotFoundError as reason:
        if reason.name != "httpx2":
            raise
        raise ImportError(f"{name} needs httpx2: install streamweir[client]", name="httpx2") from reason
    return getattr(http, name)
