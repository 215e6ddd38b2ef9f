"""Builds the URL, the headers and the body of a request. Pure.

The body contains the members that the caller passed, unchecked: the server checks them. `stream` is added, and for a
stream also `stream_options.include_usage`: two of the dialects send no usage without it.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

from streamweir import __version__
from streamweir.wire import jsonio
from streamweir.wire.messages import VERSION

Messages = str | Sequence[Mapping[str, Any]]
"""The messages of a conversation; a string is one message of the user."""

_SET_BY_METHOD = ("stream",)


def endpoint_url(base_url: str, endpoint: str) -> str:
    """The URL of an endpoint (`/chat/completions`). For a host without a path, `/v1` is added."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not _has_valid_host(parts):
        raise ValueError("base_url must be an address such as https://example.com/v1")
    path = parts.path.rstrip("/") or "/v1"
    if not path.endswith(endpoint):
        path += endpoint
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _has_valid_host(parts: SplitResult) -> bool:
    """Checked here, because httpx2 raises other exceptions than `ClientError` for such a host or port."""
    try:
        (parts.hostname or "").encode("idna")
        return parts.netloc.isprintable() and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def shown_url(url: str) -> str:
    """For messages: without user name, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def build_headers(api_key: str, more: Mapping[str, str], *, stream: bool) -> dict[str, str]:
    """`more`: the caller's own headers, which override these."""
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
        if not is_valid_header_value(value):
            raise ValueError(f"the header {name!r} holds signs that no header can carry")
    return headers


def messages_headers(api_key: str) -> dict[str, str]:
    """What the Messages API wants beside the others. Some servers read the key here, some as a bearer token."""
    return {"anthropic-version": VERSION, **({"x-api-key": api_key} if api_key else {})}


def is_valid_header_value(value: str) -> bool:
    """Checked here, because the error message of the HTTP library would contain the value."""
    return value.isascii() and value.isprintable()


def requested_choices(parameters: Mapping[str, Any]) -> int | None:
    """The requested number of choices. None: one, or an invalid number, which the server refuses."""
    n = parameters.get("n")
    return n if type(n) is int and n > 1 else None


def build_body(
    model: str | None,
    messages: Messages,
    parameters: Mapping[str, Any],
    *,
    stream: bool,
    include_usage: bool = True,
    prompt: str = "messages",
) -> bytes:
    """`prompt`: the member that has the conversation."""
    reserved = [name for name in _SET_BY_METHOD if name in parameters]
    if reserved:
        raise ValueError(f"{reserved[0]!r} is set by the method that is called")
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    body: dict[str, Any] = {} if model is None else {"model": model}
    if prompt in parameters:
        raise ValueError(f"{prompt!r} is given as messages")
    body |= {prompt: list(messages), **parameters, "stream": stream}
    if stream and include_usage:
        body.setdefault("stream_options", {"include_usage": True})
    return jsonio.encode(body)
