"""Frames of Amazon's binary event stream as Bedrock sends them, for `bench.engine` and `bench.lockstep`.

Converse, and Anthropic's events inside of frames (InvokeModel), with the members and about the padding that recorded
ones have.
"""

from base64 import b64encode
from collections.abc import Sequence

from streamweir.wire.amazon import write_message

PADDING = b"abcdefghijklmnopqrstuvwxyzABCDE"


def event(kind: str, payload: bytes) -> bytes:
    return write_message({":event-type": kind, ":content-type": "application/json", ":message-type": "event"}, payload)


def converse_start() -> bytes:
    return event("messageStart", b'{"p":"%b","role":"assistant"}' % PADDING)


def converse_text(quoted: bytes) -> bytes:
    """`quoted`: the text as JSON."""
    return event("contentBlockDelta", b'{"contentBlockIndex":0,"delta":{"text":%b},"p":"%b"}' % (quoted, PADDING))


def converse_end() -> bytes:
    usage = b'{"inputTokens":9,"outputTokens":9,"totalTokens":18,"cacheReadInputTokens":0,"cacheWriteInputTokens":0}'
    return b"".join(
        [
            event("contentBlockStop", b'{"contentBlockIndex":0,"p":"%b"}' % PADDING),
            event("messageStop", b'{"p":"%b","stopReason":"end_turn"}' % PADDING),
            event("metadata", b'{"metrics":{"latencyMs":802},"p":"%b","usage":%b}' % (PADDING, usage)),
        ]
    )


def chunk(document: bytes) -> bytes:
    return event("chunk", b'{"bytes":"%b","p":"%b"}' % (b64encode(document), PADDING))


def chunks(documents: Sequence[bytes]) -> bytes:
    return b"".join([chunk(document) for document in documents])
