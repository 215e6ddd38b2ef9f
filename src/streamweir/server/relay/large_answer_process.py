"""The program that parses one large whole answer: `python -m streamweir.server.relay.large_answer_process`.

`server.relay.large_answer` starts it for one answer. It is a process because the decoder holds the interpreter lock
while it works, which would block all threads of the gateway, and because its memory is freed at its end.

stdin: the origin of the answer, the answer, and how to write it. stdout: the relevant events in small groups, an empty
group, and the body. Except for the two bodies, the format is `pipeline.large_answer_wire`. The program ends when its
pipes are closed. It gets no secrets and opens no files; its memory and CPU time are limited.
"""

import contextlib
import os
import signal
import struct
import sys
from typing import BinaryIO

from streamweir.frontends.table import FRONTENDS
from streamweir.pipeline.large_answer import LargeAnswer
from streamweir.pipeline.large_answer_wire import ANSWER_SOURCE, COMPLETION_ID, EVENTS, REPLY_DATA
from streamweir.providers.registry import provider_named

SIZE = struct.Struct("!Q")
MAX_MEMORY_BYTES = 4 * 1024**3
"""Of address space: an answer of 64 MiB needs about twenty times as much. Beyond it the program ends."""
MAX_CPU_S = 120
"""The largest answers need a few seconds. Beyond it the system ends the program."""


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # a listening socket of the gateway may be inherited
    _limit_resources()
    os.nice(5)  # the gateway has priority
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # printed text must not become part of the output
    status = 1
    with contextlib.suppress(BrokenPipeError, EOFError, MemoryError):  # the pipe is closed, or memory used up
        _serve(source, sink)
        status = 0
    os._exit(status)


def _serve(source: BinaryIO, sink: BinaryIO) -> None:
    origin = ANSWER_SOURCE.decode(_receive(source))
    answer = LargeAnswer(provider_named(origin.provider), origin.choices)
    for events in answer.read(_receive(source)):
        _send(sink, EVENTS.encode(events))
    _send(sink, b"")
    reply_data = REPLY_DATA.decode(_receive(source))
    written = answer.write(FRONTENDS.by_name[reply_data.frontend], reply_data)
    _send(sink, COMPLETION_ID.encode(written.completion_id))
    _send(sink, written.body)


def _receive(source: BinaryIO) -> bytes:
    (size,) = SIZE.unpack(_read_exactly(source, SIZE.size))
    return _read_exactly(source, size)


def _read_exactly(source: BinaryIO, size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _send(sink: BinaryIO, data: bytes) -> None:
    sink.write(SIZE.pack(len(data)))
    sink.write(data)
    sink.flush()


def _limit_resources() -> None:
    try:
        import resource
    except ImportError:  # not on this system
        return
    # No core dump: it would contain the answer.
    for kind, limit in (
        (resource.RLIMIT_AS, MAX_MEMORY_BYTES),
        (resource.RLIMIT_CPU, MAX_CPU_S),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


if __name__ == "__main__":
    main()
