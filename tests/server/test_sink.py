"""A slow, full or dead reader of the log costs lines, never the loop."""

import fcntl
import os
import threading
from io import StringIO

from streamweir.server.telemetry.sink import Sink


def report(count: int) -> bytes:
    return b"dropped %d\n" % count


def test_lines_are_written_in_order() -> None:
    stream = StringIO()
    sink = Sink(stream, report)
    for number in range(1000):
        sink.write(b"%d\n" % number)
    assert sink.close()
    assert stream.getvalue() == "".join(f"{number}\n" for number in range(1000))
    assert sink.dropped == 0


def test_a_line_is_written_without_waiting_for_the_next() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as source, os.fdopen(writer, "w") as stream:
        sink = Sink(stream, report)
        sink.write(b"one\n")
        assert source.readline() == b"one\n"
        sink.write(b"two\n")
        assert source.readline() == b"two\n"
        assert sink.close()


def test_a_reader_that_stops_costs_lines_that_are_counted_and_reported() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as source, os.fdopen(writer, "w") as stream:
        sink = Sink(stream, report, max_bytes=100_000, linger_s=0.001)
        line = b"x" * 999 + b"\n"
        for _ in range(1000):
            sink.write(line)
        lost = sink.dropped
        assert lost >= 1000 - 100 - 64 - 4, "more than buffer, pipe and one write cannot be on the way"
        kept = 1000 - lost
        whole, reported = 0, 0
        while whole < kept or reported < lost:
            text = source.readline()
            if text == line:
                whole += 1
            else:
                reported += int(text.removeprefix(b"dropped "))
        assert (whole, reported) == (kept, lost)
        sink.write(b"again\n")
        assert source.readline() == b"again\n"
        assert sink.close()
        assert sink.dropped == lost


def test_closing_waits_no_longer_than_its_timeout() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        sink = Sink(stream, report, linger_s=0.001)
        for _ in range(1000):
            sink.write(b"x" * 999 + b"\n")
        assert not sink.close(0.01)
        sink.write(b"too late\n")
        assert sink.dropped == 1
        os.close(reader)  # the write that hangs fails, and the thread ends
        threads = [thread for thread in threading.enumerate() if thread.name == "log"]
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()


def test_a_closed_pipe_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        sink = Sink(stream, report)
        sink.write(b"one\n")
        sink.write(b"two\n")
        assert sink.close()
        assert sink.dropped == 2


def test_a_closed_stream_is_no_error() -> None:
    stream = StringIO()
    sink = Sink(stream, report)
    stream.close()
    sink.write(b"one\n")
    assert sink.close()
    assert sink.dropped == 1


def test_a_pipe_that_does_not_block_is_waited_for() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with os.fdopen(reader, "rb") as source, os.fdopen(writer, "w") as stream:
        sink = Sink(stream, report, linger_s=0.001)
        line = b"x" * 999 + b"\n"
        for _ in range(500):
            sink.write(line)
        assert [source.readline() for _ in range(500)] == [line] * 500
        assert sink.close()


def test_writes_to_a_shared_pipe_are_whole_lines() -> None:
    """Up to 4096 bytes a write is not mixed with another process's; so no write ends inside of a line."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering=0) as source, os.fdopen(writer, "w") as stream:
        flags = os.O_DIRECT if hasattr(os, "O_DIRECT") else 0  # packet mode: one read gives one write
        if flags:
            fcntl.fcntl(writer, fcntl.F_SETFL, fcntl.fcntl(writer, fcntl.F_GETFL) | flags)
        sink = Sink(stream, report)
        for number in range(100):
            sink.write(b"%099d\n" % number)
        assert sink.close()
        packets: list[bytes] = []
        while sum(map(len, packets)) < 10_000:
            packets.append(source.read(65536))
        assert all(packet.endswith(b"\n") for packet in packets)
        if flags:
            assert max(map(len, packets)) <= 4096
