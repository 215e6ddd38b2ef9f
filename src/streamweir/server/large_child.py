"""The program that reads one large whole answer: `python -m streamweir.server.large_child`.

Started by `server.large`, its only user, for one answer, and gone with it: the decoder holds the
interpreter for as long as it works, which no thread of the gateway could bear, and what it has taken of
memory is given back. On stdin: who sent the answer, the answer, and how it is to be written. On stdout:
the events that matter, in small groups, an empty one as their end, and the body. At the end of its
stdin it ends. It is given no secrets, and opens nothing.
"""

import contextlib
import os
import pickle
import signal
import struct
import sys
from typing import Any, BinaryIO

from streamweir.stages.large import LargeAnswer

SIZE = struct.Struct("!Q")
MOST_MEMORY = 4 * 1024**3
"""Of addresses: an answer of 64 MiB becomes some twenty times as much. Beyond it the program ends."""


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _bound_memory()
    os.nice(5)  # the gateway goes first
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anybody prints is no answer
    with contextlib.suppress(BrokenPipeError, EOFError):  # nobody waits for it any more
        _serve(source, sink)
    os._exit(0)


def _serve(source: BinaryIO, sink: BinaryIO) -> None:
    provider, choices = pickle.loads(_receive(source))  # noqa: S301 (from the gateway, by its own pipe)
    answer = LargeAnswer(provider, choices)
    for events in answer.read(_receive(source)):
        _send(sink, pickle.dumps(events))
    _send(sink, b"")
    written = answer.write(pickle.loads(_receive(source)))  # noqa: S301 (as above)
    _send(sink, written.completion_id.encode())
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


def _bound_memory() -> None:
    try:
        import resource
    except ImportError:  # not on this system
        return
    limits: Any = resource.getrlimit(resource.RLIMIT_AS)
    most = MOST_MEMORY if limits[1] == resource.RLIM_INFINITY else min(MOST_MEMORY, limits[1])
    resource.setrlimit(resource.RLIMIT_AS, (most, limits[1]))


if __name__ == "__main__":
    main()
