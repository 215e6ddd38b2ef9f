"""What is asked, and of whom: the address, the headers and the body of a request. Pure.

The body is what the caller wrote, member by member; nothing is checked that the server checks. Added are `stream`
and, for a stream, the wish for usage: in two of the dialects none comes without it.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

from streamweir import __version__
from streamweir.wire import jsonio

Messages = str | Sequence[Mapping[str, Any]]
"""A conversation; a text alone is one message of a user's."""

_OURS = ("stream",)


def url_of(base_url: str) -> str:
    """Where chat completions are asked for. A bare host is taken at its `/v1`."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not _can_be_found(parts):
        raise ValueError("base_url must be an address such as https://example.com/v1")
    path = parts.path.rstrip("/") or "/v1"
    if not path.endswith("/chat/completions"):
        path += "/chat/completions"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _can_be_found(parts: SplitResult) -> bool:
    """Asked beforehand, for what else is said of such a host or port is no `ClientError`."""
    try:
        (parts.hostname or "").encode("idna")
        return parts.netloc.isprintable() and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def shown_url(url: str) -> str:
    """For people: without a password that may be in it, and without its query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def headers_of(api_key: str, more: Mapping[str, str], *, stream: bool) -> dict[str, str]:
    """`more` are the caller's own, which come before ours."""
    headers = {
        "accept": "text/event-stream" if stream else "application/json",
        "accept-encoding": "identity",  # a compressed stream is often a buffered one
        "content-type": "application/json",
        "user-agent": f"streamweir/{__version__}",
    }
    if api_key:
        headers["authorization"] = f"Bearer {api_key}"
    headers |= {name.lower(): value for name, value in more.items()}
    for name, value in headers.items():
        if not can_be_sent(value):
            raise ValueError(f"the header {name!r} holds signs that no header can carry")
    return headers


def can_be_sent(value: str) -> bool:
    """In a header. Asked beforehand, for the library beneath would show what it cannot send."""
    return value.isascii() and value.isprintable()


def choices_in(parameters: Mapping[str, Any]) -> int | None:
    """How many are asked for. None: one, or a number that the server is to refuse."""
    n = parameters.get("n")
    return n if type(n) is int and n > 1 else None


def body_of(
    model: str | None, messages: Messages, parameters: Mapping[str, Any], *, stream: bool, include_usage: bool = True
) -> bytes:
    taken = [name for name in _OURS if name in parameters]
    if taken:
        raise ValueError(f"{taken[0]!r} is set by the method that is called")
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    body: dict[str, Any] = {} if model is None else {"model": model}
    body |= {"messages": list(messages), **parameters, "stream": stream}
    if stream and include_usage:
        body.setdefault("stream_options", {"include_usage": True})
    return jsonio.encode(body)
