"""The program that reads one large whole answer: `python -m streamweir.server.relay.large_answer_process`.

Started by `server.relay.large_answer`, its only user, for one answer, and gone with it: the decoder holds the
interpreter for as long as it works, which no thread of the gateway could bear, and what it has taken of
memory is given back. On stdin: who sent the answer, the answer, and how it is to be written. On stdout:
the events that matter, in small groups, an empty one as their end, and the body; but for the two bodies
all of it is `pipeline.large_answer_wire`. It ends where its pipes do, so with the gateway at the latest when it has
something to say. It is given no secrets and opens nothing; its memory and its time are bounded.
"""

import contextlib
import os
import signal
import struct
import sys
from typing import BinaryIO

from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline.large_answer import LargeAnswer
from streamweir.pipeline.large_answer_wire import COMPLETION_ID, EVENTS, ORIGIN, WRITING
from streamweir.providers.registry import provider_named

SIZE = struct.Struct("!Q")
MOST_MEMORY = 4 * 1024**3
"""Of addresses: an answer of 64 MiB becomes some twenty times as much. Beyond it the program ends."""
MOST_CPU_S = 120
"""The largest answers take a few. Beyond it the system ends the program."""


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # a listening socket of the gateway's may have come along
    _bound()
    os.nice(5)  # the gateway goes first
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anybody prints is no answer
    status = 1
    with contextlib.suppress(BrokenPipeError, EOFError, MemoryError):  # nobody waits for it any more, or it is too much
        _serve(source, sink)
        status = 0
    os._exit(status)


def _serve(source: BinaryIO, sink: BinaryIO) -> None:
    origin = ORIGIN.decode(_receive(source))
    answer = LargeAnswer(provider_named(origin.provider), origin.choices)
    for events in answer.read(_receive(source)):
        _send(sink, EVENTS.encode(events))
    _send(sink, b"")
    writing = WRITING.decode(_receive(source))
    written = answer.write(FRONTENDS.by_name[writing.frontend], writing)
    _send(sink, COMPLETION_ID.encode(written.completion_id))
    _send(sink, written.body)


def _receive(source: BinaryIO) -> bytes:
    (size,) = SIZE.unpack(_exactly(source, SIZE.size))
    return _exactly(source, size)


def _exactly(source: BinaryIO, size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _send(sink: BinaryIO, data: bytes) -> None:
    sink.write(SIZE.pack(len(data)))
    sink.write(data)
    sink.flush()


def _bound() -> None:
    try:
        import resource
    except ImportError:  # not on this system
        return
    # No file of its memory either, where it is ended: the answer would be in it.
    for kind, most in ((resource.RLIMIT_AS, MOST_MEMORY), (resource.RLIMIT_CPU, MOST_CPU_S), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


if __name__ == "__main__":
    main()
