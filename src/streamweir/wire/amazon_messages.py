"""Anthropic's events in Amazon's frames (Bedrock's InvokeModel for Claude), as the text stream that they are elsewhere.

Each frame of the type `chunk` has the JSON of one event, in base64; it becomes a `Frame` of `wire.sse`, with the lines
that Anthropic itself would have sent and the JSON unchanged. A failure inside the stream becomes Anthropic's `error`
event. So the decoder and the tap of the Messages wire read this one without knowing of it, and a caller of that API
gets the frames as they are. Frames of other types are no part of the answer.
"""

import re
from base64 import b64encode
from typing import Any

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from streamweir.wire import jsonio
from streamweir.wire.amazon import ERROR, EXCEPTION, EventStreamSplitter, Meaning, write_message
from streamweir.wire.sse import DEFAULT_LIMIT, EventTooLarge, Frame, InvalidFrame, write_event, write_frame

ERROR_TYPES = {
    "accessdeniedexception": "permission_error",
    "expiredtokenexception": "authentication_error",
    "invalidsignatureexception": "authentication_error",
    "unrecognizedclientexception": "authentication_error",
    "resourcenotfoundexception": "not_found_error",
    "validationexception": "invalid_request_error",
    "throttlingexception": "rate_limit_error",
    "servicequotaexceededexception": "rate_limit_error",
    "modelnotreadyexception": "overloaded_error",
    "serviceunavailableexception": "overloaded_error",
    "modeltimeoutexception": "timeout_error",
}
"""Anthropic's types, by the name of an exception in lower case. Others are an `api_error`."""

_TYPE = re.compile(rb'\{"type":"([a-z_.]{1,64})"')
"""How the JSON of nearly every event begins."""
_TYPE_NAME = re.compile(r"[a-z_.]{1,64}")
_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")


class _Chunk(Struct, gc=False):
    bytes: bytes


_decode_chunk = Decoder(_Chunk).decode


class MessagesInFramesSplitter(EventStreamSplitter):
    """Bytes to frames of the Messages wire. `limit` is that of the event: a frame is larger by its base64."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        super().__init__(limit * 3 // 2)
        self._event_limit = limit

    def _frame(self, _raw: bytes, meaning: Meaning, payload: bytes, /) -> Frame | None:
        if meaning.event == b"chunk":
            try:
                data = _decode_chunk(payload).bytes
            except (DecodeError, UnicodeDecodeError, RecursionError):
                raise InvalidFrame from None
            found = _TYPE.match(data)
            if found is None or len(data) > jsonio.FAST_BYTES or 10 in data or 13 in data:
                return self._unusual(data)
            event = found[1]
            return Frame(b"event: %b\ndata: %b\n\n" % (event, data), data, event)
        if meaning.event.startswith((EXCEPTION, ERROR)):
            return _error(meaning, payload)
        return None

    def _unfinished(self, _rest: bytes, /) -> Frame:
        return Frame(b"", None, terminated=False)

    def _unusual(self, data: bytes) -> Frame:
        """An event that is large, has line ends, or does not begin with its type."""
        if len(data) > self._event_limit or jsonio.is_dense(data):
            raise EventTooLarge(self._event_limit, [])
        data = data.translate(_LINE_ENDS)  # in JSON they can only be white space
        try:
            value = jsonio.decode(data)
        except jsonio.InvalidJson:
            raise InvalidFrame from None
        kind = value.get("type") if isinstance(value, dict) else None
        if isinstance(kind, str) and _TYPE_NAME.fullmatch(kind):
            return Frame(write_event(kind.encode(), data), data, kind.encode())
        return Frame(write_frame(data), data, b"", True, True)


def write_chunk(document: bytes) -> bytes:
    """A frame with an event's JSON."""
    headers = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    return write_message(headers, b'{"bytes":"%b"}' % b64encode(document))


def _error(meaning: Meaning, payload: bytes) -> Frame:
    name = meaning.event.partition(b"/")[2].decode().partition("#")[0].lower()
    error = {"type": ERROR_TYPES.get(name, "api_error"), "message": _message(meaning.data or payload)}
    data = jsonio.encode({"type": "error", "error": error})
    return Frame(write_event(b"error", data), data, b"error")


def _message(payload: bytes) -> str:
    try:
        value: Any = jsonio.decode(payload)
    except jsonio.InvalidJson:
        return ""
    members = value if isinstance(value, dict) else {}
    texts = [members.get(name) for name in ("message", "Message", "originalMessage")]
    return next((text for text in texts if isinstance(text, str) and text), "")
