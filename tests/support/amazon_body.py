"""Answers in Amazon's binary frames, written as text: `event: NAME` and `data: JSON`, with a blank line between frames.

A name that begins with `:exception/` or `:error/` is a failure inside the stream, as `wire.amazon` reads it.
"""

from typing import Any

from streamweir.wire import jsonio
from streamweir.wire.amazon import ERROR, EXCEPTION, write_message

PADDING = {"p": "abcdefghij"}
"""Each frame has a member of random length."""


def binary_body(text: bytes) -> bytes:
    blocks = [block for block in text.split(b"\n\n") if block.strip()]
    return b"".join([_frame_of(block) for block in blocks])


def frame(name: str, document: Any) -> bytes:
    return _written(name.encode(), jsonio.encode(document))


def answer(*texts: str, stop: str = "end_turn", usage: dict[str, Any] | None = None) -> bytes:
    """A whole stream: these pieces of text, then the end."""
    counts = usage or {"inputTokens": 3, "outputTokens": len(texts), "totalTokens": 3 + len(texts)}
    deltas = [
        frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}, **PADDING}) for text in texts
    ]
    return b"".join(
        [
            frame("messageStart", {"role": "assistant", **PADDING}),
            *deltas,
            frame("contentBlockStop", {"contentBlockIndex": 0, **PADDING}),
            frame("messageStop", {"stopReason": stop, **PADDING}),
            frame("metadata", {"usage": counts, "metrics": {"latencyMs": 5}, **PADDING}),
        ]
    )


def _frame_of(block: bytes) -> bytes:
    name, _, data = block.strip(b"\n").partition(b"\n")
    return _written(name.removeprefix(b"event: "), data.removeprefix(b"data: "))


def _written(name: bytes, payload: bytes) -> bytes:
    kind = name.decode()
    if name.startswith(EXCEPTION):
        headers = {":message-type": "exception", ":exception-type": kind.removeprefix(EXCEPTION.decode())}
    elif name.startswith(ERROR):
        message = jsonio.decode(payload).get("message", "")
        headers = {
            ":message-type": "error",
            ":error-code": kind.removeprefix(ERROR.decode()),
            ":error-message": message,
        }
        return write_message(headers, b"")
    else:
        headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return write_message(headers, payload)
