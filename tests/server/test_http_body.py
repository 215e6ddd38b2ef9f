"""The framing of request bodies: every cut gives the same, no byte of the next request is taken, the bad is refused."""

import random

import pytest
from httptools import HttpParserError, HttpRequestParser
from hypothesis import given
from hypothesis import strategies as st

from streamweir.core.errors import CallerError
from streamweir.server.http.body import MANY_CHUNKS, MAX_CHUNKS_PER_TURN, SMALL_CHUNK, Body, ChunkedBody, SizedBody

MOST = 1000
NEXT = b"GET / HTTP/1.1\r\n"


def read(body: Body, data: bytes, size: int | None = None) -> tuple[bytes, int]:
    at = 0
    while at < len(data) and not body.is_complete:
        at += body.feed(data[at : at + (size or len(data))])
    assert body.is_complete
    return body.take(), at


@pytest.mark.parametrize("size", [None, 1, 4, 100])
def test_a_sized_body(size: int | None) -> None:
    assert read(SizedBody(10), b"0123456789" + NEXT, size) == (b"0123456789", 10)


CHUNKED = [
    (b"0\r\n\r\n", b""),
    (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
    (b"5\r\nhello\r\n00000007\r\n world!\r\n000\r\n\r\n", b"hello world!"),
    (b"a\r\n0123456789\r\nA\r\n\r\n\r\n\r\n\r\n\r\n\r\n0\r\n\r\n", b"0123456789\r\n\r\n\r\n\r\n\r\n"),
    (b'5;name=value;q="x y"\r\nhello\r\n0;last\r\n\r\n', b"hello"),
    (b"5\r\nhello\r\n0\r\nx-checksum: abc\r\nx-other:\r\n\r\n", b"hello"),
]


@pytest.mark.parametrize(("wire", "body"), CHUNKED)
@pytest.mark.parametrize("size", [None, 1, 2, 3, 7])
def test_a_chunked_body(wire: bytes, body: bytes, size: int | None) -> None:
    assert read(ChunkedBody(MOST), wire + NEXT, size) == (body, len(wire))


def chunks(count: int, size: int = 1) -> bytes:
    return b"%x\r\n%b\r\n" % (size, b"a" * size) * count


def test_one_call_reads_so_many_chunks_and_no_more() -> None:
    wire, body, at, calls = chunks(1000) + b"0\r\n\r\n" + NEXT, ChunkedBody(MOST), 0, 0
    while not body.is_complete:
        before = body.size
        at += body.feed(wire[at:])
        calls += 1
        assert 0 < body.size - before <= MAX_CHUNKS_PER_TURN or body.is_complete
    assert (body.take(), wire[at:]) == (b"a" * 1000, NEXT)
    assert calls == 1001 // MAX_CHUNKS_PER_TURN + 1


def test_a_body_in_very_many_very_small_chunks_is_refused_long_before_its_end() -> None:
    body = ChunkedBody(1 << 30)
    with pytest.raises(CallerError, match=f"in {MANY_CHUNKS} chunks for {MANY_CHUNKS} bytes") as caught:
        read(body, chunks(MANY_CHUNKS + 1))
    assert caught.value.code == "invalid_value"
    assert body.size == MANY_CHUNKS


@pytest.mark.parametrize(
    "wire", [chunks(MANY_CHUNKS - 1), chunks(1, 1 << 20) + chunks(8000), chunks(3 * MANY_CHUNKS, SMALL_CHUNK + 1)]
)
def test_some_small_chunks_or_many_that_are_not_are_read(wire: bytes) -> None:
    body, _ = read(ChunkedBody(1 << 30), wire + b"0\r\n\r\n")
    assert set(body) == {ord("a")}


BROKEN = {
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "not hexadecimal": b"5g\r\nhello\r\n0\r\n\r\n",
    "signed": b"+5\r\nhello\r\n0\r\n\r\n",
    "negative": b"-1\r\nhello\r\n0\r\n\r\n",
    "prefixed": b"0x5\r\nhello\r\n0\r\n\r\n",
    "underscored": b"1_0\r\n0123456789abcdef\r\n0\r\n\r\n",
    "blank before": b" 5\r\nhello\r\n0\r\n\r\n",
    "blank after": b"5 \r\nhello\r\n0\r\n\r\n",
    "blank before extension": b"5 ;x\r\nhello\r\n0\r\n\r\n",
    "tab after": b"5\t\r\nhello\r\n0\r\n\r\n",
    "too many digits": b"000000005\r\nhello\r\n0\r\n\r\n",
    "overflowing": b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "size ends with LF": b"5\nhello\r\n0\r\n\r\n",
    "size ends with CR": b"5\rhello\r\n0\r\n\r\n",
    "size ends with CRCRLF": b"5\r\r\nhello\r\n0\r\n\r\n",
    "extension with CR": b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    "extension with LF": b"5;a\nhello\r\n0\r\n\r\n",
    "extension with NUL": b"5;a\x00\r\nhello\r\n0\r\n\r\n",
    "longer than its size": b"4\r\nhello\r\n0\r\n\r\n",
    "shorter than its size": b"6\r\nhello\r\n0\r\n\r\n",
    "chunk ends with LF": b"5\r\nhello\n0\r\n\r\n",
    "chunk ends with CR": b"5\r\nhello\r0\r\n\r\n",
    "chunk without an end": b"5\r\nhello0\r\n\r\n",
    "last line ends with LF": b"0\r\n\n",
    "trailer without colon": b"0\r\nnonsense\r\n\r\n",
    "trailer folded": b"0\r\nx: a\r\n b\r\n\r\n",
    "trailer with blank before colon": b"0\r\nx : a\r\n\r\n",
    "trailer ends with LF": b"0\r\nx: a\n\r\n",
    "trailer content-length": b"0\r\nContent-Length: 5\r\n\r\n",
    "trailer transfer-encoding": b"0\r\ntransfer-encoding: chunked\r\n\r\n",
    "trailer host": b"0\r\nHOST: b\r\n\r\n",
    "trailer authorization": b"0\r\nauthorization: Bearer x\r\n\r\n",
}


@pytest.mark.parametrize("size", [None, 1])
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_body(name: str, size: int | None) -> None:
    with pytest.raises(CallerError) as caught:
        read(ChunkedBody(MOST), BROKEN[name], size)
    assert caught.value.code == "invalid_value"


@pytest.mark.parametrize("begun", [b"x", b"5x", b"5\r\nhellox", b"5\r\nhello\rx"])
def test_what_cannot_become_a_chunk_is_refused_at_once(begun: bytes) -> None:
    with pytest.raises(CallerError, match="not valid HTTP"):
        read(ChunkedBody(MOST), begun, 1)


def test_the_limit_is_met_before_the_bytes_are() -> None:
    assert read(ChunkedBody(10), b"a\r\n0123456789\r\n0\r\n\r\n")[0] == b"0123456789"
    for wire in (b"b\r\n", b"a\r\n0123456789\r\n1\r\n", b"ffffffff\r\n"):
        with pytest.raises(CallerError) as caught:
            read(ChunkedBody(10), wire)
        assert caught.value.code == "request_too_large"


@pytest.mark.parametrize(
    "wire",
    [
        b"1;" + b"a" * 2000,
        (b"1;" + b"a" * 500 + b"\r\nx\r\n") * 40,
        b"0\r\n" + b"x: " + b"a" * 2000,
        b"0\r\n" + b"x: y\r\n" * 5000,
    ],
)
def test_what_surrounds_the_chunks_is_bounded(wire: bytes) -> None:
    with pytest.raises(CallerError) as caught:
        read(ChunkedBody(MOST), wire, 4096)
    assert caught.value.code == "invalid_value"


class _Sink:
    def __init__(self) -> None:
        self.body = b""
        self.is_complete = False

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.is_complete = True


def read_as_llhttp(wire: bytes) -> bytes | None:
    """None: refused, or not whole."""
    sink = _Sink()
    parser = HttpRequestParser(sink)
    try:
        parser.feed_data(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n" + wire)
    except HttpParserError:
        return None
    return sink.body if sink.is_complete else None


pieces = st.lists(
    st.sampled_from(
        [b"\r\n", b"\r", b"\n", b"0", b"1", b"5", b"a", b";x", b"; y", b" ", b"hello", b"x: y", b"\x00", b""]
    )
    | st.binary(max_size=3),
    max_size=12,
)


@given(pieces, st.integers(0, 2**32))
def test_every_reader_gets_the_same(parts: list[bytes], seed: int) -> None:
    """What this reader accepts, llhttp accepts too, and reads alike: there is no second opinion to smuggle by."""
    chance = random.Random(seed)
    wire = b"5\r\nhello\r\n" * chance.randrange(2) + b"".join(parts) + b"\r\n0\r\n\r\n" * chance.randrange(2)
    body = ChunkedBody(MOST)
    try:
        used = body.feed(wire)
    except CallerError:
        return
    if body.is_complete:
        assert read_as_llhttp(wire[:used]) == body.take()
