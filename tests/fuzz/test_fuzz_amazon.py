"""A seeded part of the fuzzing in every test run, and that the fuzzer sees what it looks for."""

from binascii import crc32
from random import Random

import pytest

from fuzz.amazon import SEARCH, Case, difference, shrunk
from streamweir.wire.amazon import EventStreamSplitter, write_message
from streamweir.wire.amazon_messages import MessagesInFramesSplitter, write_chunk
from streamweir.wire.sse import Frame, SplitError, Splitter
from support.soak import SOAKS

FRAME = write_message({":event-type": "messageStop", ":message-type": "event"}, b"{}")


def test_splitter_does_as_botocore() -> None:
    assert SEARCH.first_failure(count=4000, seed=4000) is None


PIECES = (
    *(
        b'{"type":"',
        b"ping",
        b"error",
        b'"',
        b"}",
        b"{",
        b",",
        b":",
        b"[",
        b"]",
        b'"a":1',
        b'"type":',
        b"\\n",
        b"\\ud83d",
    ),
    *(
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"data: x",
        b"\0",
        b"\xff",
        "größer".encode(),
        b'{"type":"ping"}',
        b"null",
        b"\\u000a",
    ),
)


def test_no_event_in_a_frame_can_write_another_one() -> None:
    """Whatever is in a chunk: the caller's stream has one event for it, or the answer ends."""
    rng, read = Random(20), 0
    for _ in range(50_000 if SOAKS else 2000):
        document = rng.choice((b"", b'{"type":"ping"')) + b"".join(rng.choices(PIECES, k=rng.randrange(7)))
        try:
            frames = MessagesInFramesSplitter().feed(write_chunk(document))
        except SplitError:
            continue
        read += 1
        assert Splitter().feed(b"".join(frame.raw for frame in frames)) == frames, document
        assert len(frames) == 1
    assert read > 100


class SplitterWithoutChecksums(EventStreamSplitter):
    """Wrong on purpose: it makes the last checksum right before it checks it."""

    def _read(self, raw: bytes, headers_size: int, checksum: int) -> Frame | None:
        return super()._read(raw[:-4] + crc32(raw[:-4]).to_bytes(4, "big"), headers_size, checksum)


def test_fuzzer_finds_a_splitter_that_does_not_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.amazon.EventStreamSplitter", SplitterWithoutChecksums)
    report = SEARCH.first_failure(count=1000, seed=1)
    assert report is not None
    assert report.startswith("seed 1, input ")


def test_shrinking_keeps_the_failure() -> None:
    case = Case(FRAME + FRAME, (3, 9, 40))
    assert shrunk(case, lambda smaller: len(smaller.body) > len(FRAME)) == Case(FRAME + FRAME[:1], ())
    assert difference(case) is None
