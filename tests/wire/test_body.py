"""The format of a body, detected by its first byte, however it is cut."""

import pytest

from streamweir.providers.base import PART
from streamweir.wire.body import BodyFormat, BodySplitter, Framing, empty_event
from streamweir.wire.sse import EventTooLarge

CASES = [
    (b"data: 1\n\n", BodyFormat.EVENTS, [b"1"]),
    (b"\n\r\n : c\n\ndata: 1\n\n", BodyFormat.EVENTS, [None, b"1"]),
    (b"\xef\xbb\xbfdata: 1\n\n", BodyFormat.EVENTS, [b"1"]),
    (b"\xef\xbb\xbf\xef\xbb\xbfdata: 1\n\n", BodyFormat.EVENTS, [None]),  # one is skipped; the other is part of a name
    (b"event: x\ndata: 1\n\n", BodyFormat.EVENTS, [b"1"]),
    (b'[{"a":1}\n,\r\n{"b":2}]', BodyFormat.ARRAY, [b'{"a":1}', b'{"b":2}']),
    (b'\xef\xbb\xbf \n[{"a":1}]', BodyFormat.ARRAY, [b'{"a":1}']),
    (b'  {"a":1}', BodyFormat.WHOLE, []),
    (b"", None, []),
    (b" \n \r\n", None, []),
    (b"\xef\xbb", None, []),
]


@pytest.mark.parametrize(("body", "format", "data"), CASES)
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_form_and_frames(body: bytes, format: BodyFormat | None, data: list[bytes | None], size: int) -> None:
    splitter = BodySplitter()
    frames = [f for at in range(0, len(body), size) for f in splitter.feed(body[at : at + size])]
    frames += splitter.finish()
    assert splitter.format is format
    assert [frame.data for frame in frames] == data
    if format is BodyFormat.WHOLE:
        assert splitter.whole.strip() == body.strip()


def test_a_whole_body_is_bounded() -> None:
    splitter = BodySplitter(whole_limit=10)
    splitter.feed(b"{" + b" " * 9)
    with pytest.raises(EventTooLarge):
        splitter.feed(b" ")


def test_white_space_without_an_end_is_bounded() -> None:
    splitter = BodySplitter(limit=10)
    for _ in range(10):
        splitter.feed(b"\n" * 100)  # keep-alives mean nothing
    with pytest.raises(EventTooLarge):
        splitter.feed(b" " * 11)


@pytest.mark.parametrize(
    ("body", "is_mid_event"),
    [
        (b"", False),
        (b" ", False),
        (b"data: 1\n\n", False),
        (b"data: 1\n\nda", True),
        (b"data: 1\n", True),
        (b"data: 1\n\n: keep-alive\n", False),
        (b": a\r\n: b\r\n", False),
        (b": a\ndata: 1", True),
        (b'[{"a":1}', False),
        (b'[{"a":1},{"b"', True),
        (b'{"a":1', False),
    ],
)
def test_whether_an_event_is_under_way(body: bytes, is_mid_event: bool) -> None:
    splitter = BodySplitter()
    splitter.feed(body)
    assert splitter.is_mid_event is is_mid_event


NOTHING = {
    "comments": (b"data: 1\n\n", b":\n\n"),
    "comments of one block": (b"data: 1\n\n", b": ping\n"),
    "blocks without data": (b"data: 1\n\n", b"id: 7\n\n"),
    "blank lines": (b"data: 1\n\n", b"\n\r\n"),
    "blank lines at the start": (b"", b"\n\r\n"),
    "the gaps of an array": (b'[{"a":1}', b" ,\n"),
    "spaces at the start": (b" ", b" \t"),
}


@pytest.mark.parametrize(("begin", "nothing"), NOTHING.values(), ids=NOTHING)
def test_what_is_no_event_has_an_end(begin: bytes, nothing: bytes) -> None:
    splitter = BodySplitter()
    splitter.feed(begin)
    piece = nothing * (16_384 // len(nothing))

    def feed_for_long() -> None:
        for _ in range(512):
            splitter.feed(piece)

    with pytest.raises(EventTooLarge):
        feed_for_long()


@pytest.mark.parametrize(("begin", "event"), [(b"", b"data: 1\n\n"), (b"[", b'{"a":1},')])
def test_keep_alives_between_events_do_not_add_up(begin: bytes, event: bytes) -> None:
    splitter = BodySplitter()
    splitter.feed(begin)
    quiet = b": ping\n\n" * 8000 if not begin else b" " * 64_000
    frames = [frame for _ in range(20) for frame in splitter.feed(quiet + event)]
    assert len([frame for frame in frames if frame.data is not None]) == 20


@pytest.mark.parametrize("framing", Framing)
@pytest.mark.parametrize("size", [1, 1000])
def test_an_event_can_follow_a_stream_of_any_framing(framing: Framing, size: int) -> None:
    splitter = BodySplitter(framing=framing)
    body = empty_event(framing, b"first") + empty_event(framing, PART)
    frames = [frame for at in range(0, len(body), size) for frame in splitter.feed(body[at : at + size])]
    assert [frame.event for frame in frames] == [b"first", PART]
    assert all(frame.data is not None for frame in frames)
