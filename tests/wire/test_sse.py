"""The splitter and the writer of `wire/sse`: one row per rule, then cuts, the limit and the cost."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.wire import jsonio, sse
from streamweir.wire.sse import EventTooLarge, Frame, Splitter
from support.sse_reference import Block, split

BOM = b"\xef\xbb\xbf"


def frame(raw: bytes, data: bytes | None, event: bytes = b"", *, terminated: bool = True) -> Frame:
    return frame_of(Block(raw, data, event, terminated, b"", None))


def frame_of(told: Block) -> Frame:
    return Frame(told.raw, told.data, told.event, told.terminated, told.is_plain)


def frames_of(*pieces: bytes, limit: int = sse.DEFAULT_LIMIT) -> list[Frame]:
    splitter = Splitter(limit)
    return [given_out for piece in pieces for given_out in splitter.feed(piece)] + splitter.finish()


def bytes_of(body: bytes) -> list[bytes]:
    return [body[i : i + 1] for i in range(len(body))]


RULES: dict[str, tuple[bytes, list[Frame]]] = {
    "nothing": (b"", []),
    "one event": (b"data: x\n\n", [frame(b"data: x\n\n", b"x")]),
    "two events": (b"data: x\n\ndata: y\n\n", [frame(b"data: x\n\n", b"x"), frame(b"data: y\n\n", b"y")]),
    "CRLF": (b"data: x\r\n\r\n", [frame(b"data: x\r\n\r\n", b"x")]),
    "CR": (b"data: x\r\rdata: y\r\r", [frame(b"data: x\r\r", b"x"), frame(b"data: y\r\r", b"y")]),
    "one CRLF is one line end": (b"data: x\r\ndata: y\r\n\r\n", [frame(b"data: x\r\ndata: y\r\n\r\n", b"x\ny")]),
    "LF CR is two line ends": (b"data: x\n\rdata: y\n\n", [frame(b"data: x\n\r", b"x"), frame(b"data: y\n\n", b"y")]),
    "mixed line ends": (b"data: x\r\n\rdata: y\n\r\n", [frame(b"data: x\r\n\r", b"x"), frame(b"data: y\n\r\n", b"y")]),
    "no other line end": (
        b"data: a\x0bb\x0cc\x1cd\xc2\x85e\xe2\x80\xa8f\xe2\x80\xa9g\n\n",
        [
            frame(
                b"data: a\x0bb\x0cc\x1cd\xc2\x85e\xe2\x80\xa8f\xe2\x80\xa9g\n\n",
                b"a\x0bb\x0cc\x1cd\xc2\x85e\xe2\x80\xa8f\xe2\x80\xa9g",
            )
        ],
    ),
    "BOM once at the start": (BOM + b"data: x\n\n", [frame(b"data: x\n\n", b"x")]),
    "a second BOM is text": (BOM + BOM + b"data: x\n\n", [frame(BOM + b"data: x\n\n", None)]),
    "a later BOM is text": (
        b"data: x\n\n" + BOM + b"data: y\n\n",
        [frame(b"data: x\n\n", b"x"), frame(BOM + b"data: y\n\n", None)],
    ),
    "BOM alone": (BOM, []),
    "half a BOM is text": (BOM[:2], [frame(BOM[:2], None, terminated=False)]),
    "comment inside an event": (b": hi\ndata: x\n:\n\n", [frame(b": hi\ndata: x\n:\n\n", b"x")]),
    "comment alone": (b": keep-alive\n\n", [frame(b": keep-alive\n\n", None)]),
    "field without a colon": (b"data\n\n", [frame(b"data\n\n", b"")]),
    "empty data": (b"data:\n\n", [frame(b"data:\n\n", b"")]),
    "two empty data lines": (b"data\ndata\n\n", [frame(b"data\ndata\n\n", b"\n")]),
    "one space is stripped": (b"data:  x \n\n", [frame(b"data:  x \n\n", b" x ")]),
    "no space to strip": (b"data:x\n\n", [frame(b"data:x\n\n", b"x")]),
    "a tab is kept": (b"data:\tx\n\n", [frame(b"data:\tx\n\n", b"\tx")]),
    "only the first colon splits": (b"data: a:b\n\n", [frame(b"data: a:b\n\n", b"a:b")]),
    "several data lines": (b"data: x\ndata: y\ndata\n\n", [frame(b"data: x\ndata: y\ndata\n\n", b"x\ny\n")]),
    "event": (b"event: ping\ndata: x\n\n", [frame(b"event: ping\ndata: x\n\n", b"x", b"ping")]),
    "the last event field counts": (
        b"event: a\nevent:b\ndata: x\n\n",
        [frame(b"event: a\nevent:b\ndata: x\n\n", b"x", b"b")],
    ),
    "event does not stick": (
        b"event: a\ndata: x\n\ndata: y\n\n",
        [frame(b"event: a\ndata: x\n\n", b"x", b"a"), frame(b"data: y\n\n", b"y")],
    ),
    "names are exact": (b"Data: x\n data: x\ndata : x\n\n", [frame(b"Data: x\n data: x\ndata : x\n\n", None)]),
    "unknown fields": (b"foo: x\ndata: y\nbar\n\n", [frame(b"foo: x\ndata: y\nbar\n\n", b"y")]),
    "a block without data keeps its bytes": (
        b'error: {"code":500}\n\ndata: x\n\n',
        [Frame(b'error: {"code":500}\n\n', None), frame(b"data: x\n\n", b"x")],
    ),
    "a bare document": (b'{"error":\n{}}\n\n', [Frame(b'{"error":\n{}}\n\n', None)]),
    "event without data": (b"event: done\n\n", [frame(b"event: done\n\n", None, b"done")]),
    "blank lines belong to no block": (b"\n\r\n\rdata: x\n\n\n\n\n", [frame(b"data: x\n\n", b"x")]),
    "blank lines alone": (b"\n\r\n\r\n\n", []),
    "unterminated": (b"data: x", [frame(b"data: x", b"x", terminated=False)]),
    "unterminated after its line": (b"data: x\n", [frame(b"data: x\n", b"x", terminated=False)]),
    "unterminated after CR": (b"data: x\r", [frame(b"data: x\r", b"x", terminated=False)]),
    "unterminated after CRLF": (b"data: x\r\n", [frame(b"data: x\r\n", b"x", terminated=False)]),
    "unterminated, without data": (b"dat", [frame(b"dat", None, terminated=False)]),
    "terminated by CR at the very end": (b"data: x\r\n\r", [frame(b"data: x\r\n\r", b"x")]),
    "unterminated after others": (
        b"data: x\n\nevent: e\ndata: y",
        [frame(b"data: x\n\n", b"x"), frame(b"event: e\ndata: y", b"y", b"e", terminated=False)],
    ),
    "bytes are not decoded": (b"data: \xff\x00\xfe\n\n", [frame(b"data: \xff\x00\xfe\n\n", b"\xff\x00\xfe")]),
}


@pytest.mark.parametrize(("body", "expected"), RULES.values(), ids=RULES.keys())
def test_rule(body: bytes, expected: list[Frame]) -> None:
    assert frames_of(body) == expected
    assert frames_of(*bytes_of(body)) == expected
    for cut in range(len(body)):
        assert frames_of(body[:cut], body[cut:]) == expected, f"cut at {cut}"


@pytest.mark.parametrize("body", [body for body, _ in RULES.values()], ids=RULES.keys())
def test_reference_agrees(body: bytes) -> None:
    expected = [frame_of(told) for told in split(body)]
    assert frames_of(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"data: x\n\n", b""),
        (b"id: 1\ndata: x\n\n", b"1"),
        (b"id: 1\ndata: x\n\ndata: y\n\n", b"1"),
        (b"id: 1\n\nid: 2\n\n", b"2"),
        (b"id: 1\n\nid\n\n", b""),
        (b"id: 1\n\nid: a\0b\n\n", b"1"),
    ],
    ids=["none", "set", "sticks", "newest", "emptied", "ignored with NUL"],
)
def test_last_event_id(body: bytes, expected: bytes) -> None:
    splitter = Splitter()
    splitter.feed(body)
    assert splitter.last_event_id == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(b"0", 0), (b"1500", 1500), (b"007", 7), (b"", 42), (b"-1", 42), (b"1.5", 42), (b"1s", 42), (b"\xd9\xa1", 42)],
)
def test_retry_takes_digits_only(value: bytes, expected: int) -> None:
    splitter = Splitter()
    assert splitter.retry_ms is None
    splitter.feed(b"retry: 42\n\n")
    splitter.feed(b"retry: " + value + b"\n\n")
    assert splitter.retry_ms == expected


def test_retry_of_absurd_length_is_ignored() -> None:
    splitter = Splitter()
    splitter.feed(b"retry: " + b"9" * 5000 + b"\n\n")
    assert splitter.retry_ms is None


def test_a_frame_is_given_out_by_the_read_that_ends_it() -> None:
    splitter = Splitter()
    assert splitter.feed(b"data: x\n") == []
    assert splitter.feed(b"\n") == [frame(b"data: x\n\n", b"x")]
    assert splitter.feed(b"data: y\r\n\r\nda") == [frame(b"data: y\r\n\r\n", b"y")]
    assert splitter.feed(b"ta: z\r\r") == []  # an LF may follow, and would belong to it
    assert splitter.feed(b"d") == [frame(b"data: z\r\r", b"z")]


def test_finish_gives_the_rest_once() -> None:
    splitter = Splitter()
    splitter.feed(b"data: x")
    assert splitter.finish() == [frame(b"data: x", b"x", terminated=False)]
    assert splitter.finish() == []


@given(st.lists(st.sampled_from([body for body, _ in RULES.values()])).map(b"".join), st.data())
def test_no_cut_changes_the_frames(body: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))
    places = [0, *cuts, len(body)]
    pieces = [body[a:b] for a, b in pairwise(places)]
    assert frames_of(*pieces) == frames_of(body)


@given(st.binary())
def test_any_bytes_are_split_as_the_reference_does(body: bytes) -> None:
    expected = [frame_of(told) for told in split(body)]
    assert frames_of(body) == expected


LIMIT = len(b"data: 0123\n\n")
AT_LIMIT = [b"data: 0123\n\n", b"data: 01\r\n\r\n", b"data: 0123\r\r", b"data: 012345"]


@pytest.mark.parametrize("block", AT_LIMIT)
@pytest.mark.parametrize("before", [b"", BOM, b"\n\n\n\n", b"data: x\n\n"])
def test_a_block_may_have_exactly_the_limit(block: bytes, before: bytes) -> None:
    body = before + block
    assert len(block) == LIMIT
    assert frames_of(body, limit=LIMIT)[-1].raw == block
    assert frames_of(*bytes_of(body), limit=LIMIT)[-1].raw == block


@pytest.mark.parametrize("block", AT_LIMIT)
@pytest.mark.parametrize("bytewise", [False, True])
def test_a_larger_block_is_a_named_error(block: bytes, bytewise: bool) -> None:
    body = b"data: x\n\n" + block[:6] + b"9" + block[6:] + b"data: lost\n\n"
    splitter = Splitter(LIMIT)
    given_out: list[Frame] = []

    def feed_all() -> None:
        for piece in bytes_of(body) if bytewise else [body]:
            given_out.extend(splitter.feed(piece))

    with pytest.raises(EventTooLarge, match=f"larger than {LIMIT} bytes") as caught:
        feed_all()
    assert given_out + caught.value.frames == [frame(b"data: x\n\n", b"x")]
    assert splitter.feed(b"data: y\n\n") == [], "nothing can be trusted after it"
    assert splitter.finish() == []


def test_an_endless_line_is_not_collected() -> None:
    splitter = Splitter()
    for _ in range(1024):
        assert splitter.feed(b"x" * 1024) == []
    with pytest.raises(EventTooLarge):
        splitter.feed(b"x")


def test_the_default_limit_is_one_mebibyte() -> None:
    block = b"data: " + b"x" * (1024 * 1024 - 8) + b"\n\n"
    assert frames_of(block) == [frame(block, block[6:-2])]
    with pytest.raises(EventTooLarge):
        frames_of(block[:6] + b"x" + block[6:])


def cpu_seconds_of_feeding(splitter: Splitter, count: int) -> float:
    started = time.process_time()
    for _ in range(count):
        splitter.feed(b"x")
    return time.process_time() - started


@pytest.mark.soak
@pytest.mark.alone  # a clock is involved
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_a_byte_costs_the_same_however_much_is_held(line_end: bytes) -> None:
    """To search what is held anew for each byte would cost more than a hundred times as much here."""
    count = 1000
    ratios = []
    for _ in range(3):
        empty, full = Splitter(), Splitter()
        empty.feed(b"data: x" + line_end + b"data: ")
        full.feed(b"data: x" + line_end + b"data: " + b"x" * (sse.DEFAULT_LIMIT - 100 * count))
        ratios.append(cpu_seconds_of_feeding(full, count) / cpu_seconds_of_feeding(empty, count))
    assert min(ratios) < 10


def test_written_frames_are_read_back() -> None:
    text = 'line\nCR\rCRLF\r\n\u2028\u2029\x85\0 data: [DONE]\n\ndata: {"forged":true}\n\n'
    written = sse.write_frame(jsonio.encode({"text": text}))
    assert written.startswith(b"data: {")
    assert written.count(b"\n") == 2
    (read,) = frames_of(written)
    assert read.is_plain
    assert read.data is not None
    assert jsonio.decode(read.data) == {"text": text}


@given(st.text())
def test_no_text_forges_a_frame(text: str) -> None:
    assert len(frames_of(sse.write_frame(jsonio.encode(text)) + sse.DONE)) == 2


@given(st.text())
def test_a_frame_with_a_name_can_be_read_again(text: str) -> None:
    (read,) = frames_of(sse.write_event(b"live", jsonio.encode(text)))
    assert read.data is not None
    assert (read.event, jsonio.decode(read.data), read.is_plain) == (b"live", text, False)


def test_a_comment_is_one_line_and_no_event() -> None:
    assert sse.write_comment(b"keep-alive") == b": keep-alive\n"
    assert sse.write_comment(b"a\r\nb\nc\rd") == b": a b c d\n"
    assert frames_of(sse.write_comment(b"x") + b"data: y\n\n") == [frame(b": x\ndata: y\n\n", b"y")]


def test_done() -> None:
    assert frames_of(sse.DONE) == [frame(b"data: [DONE]\n\n", b"[DONE]")]
