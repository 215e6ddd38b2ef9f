"""Amazon's binary frames, however they are cut; what makes one invalid, and what bounds them.

`fuzz/test_fuzz_amazon.py` compares the splitter with Amazon's own parser.
"""

import json
from binascii import crc32
from itertools import pairwise

import pytest

from streamweir.wire.amazon import MAX_HEADERS, EventStreamSplitter, readable, write_message
from streamweir.wire.body import BodyFormat, BodySplitter, Framing
from streamweir.wire.sse import DEFAULT_LIMIT, MAX_BYTES_WITHOUT_DATA, EventTooLarge, Frame, InvalidFrame


def event(kind: str, payload: bytes = b"{}") -> bytes:
    return write_message({":event-type": kind, ":content-type": "application/json", ":message-type": "event"}, payload)


def message(headers: bytes, payload: bytes = b"{}", *, size: int = 0, headers_size: int | None = None) -> bytes:
    """With right checksums, whatever the rest is."""
    sizes = (16 + len(headers) + len(payload) + size, len(headers) if headers_size is None else headers_size)
    prelude = b"".join(number.to_bytes(4, "big") for number in sizes)
    before = prelude + crc32(prelude).to_bytes(4, "big") + headers + payload
    return before + crc32(before).to_bytes(4, "big")


def header(name: bytes, kind: int, value: bytes) -> bytes:
    return bytes([len(name)]) + name + bytes([kind]) + value


def text_header(name: bytes, value: bytes) -> bytes:
    return header(name, 7, len(value).to_bytes(2, "big") + value)


START = event("messageStart", b'{"role":"assistant"}')
DELTA = event("contentBlockDelta", '{"delta":{"text":"größer"},"p":"abc"}'.encode())
BODY = START + DELTA + DELTA


def split(body: bytes, *cuts: int, limit: int = DEFAULT_LIMIT) -> list[Frame]:
    splitter = EventStreamSplitter(limit)
    places = [0, *cuts, len(body)]
    frames = [frame for a, b in pairwise(places) for frame in splitter.feed(body[a:b])]
    return frames + splitter.finish()


@pytest.mark.parametrize("size", [1, 2, 7, 16, len(START), 1000])
def test_frames_are_the_same_however_they_are_cut(size: int) -> None:
    assert split(BODY, *range(size, len(BODY), size)) == [
        Frame(START, b'{"role":"assistant"}', b"messageStart"),
        Frame(DELTA, '{"delta":{"text":"größer"},"p":"abc"}'.encode(), b"contentBlockDelta"),
        Frame(DELTA, '{"delta":{"text":"größer"},"p":"abc"}'.encode(), b"contentBlockDelta"),
    ]


def test_a_frame_is_given_with_its_last_byte_and_not_later() -> None:
    splitter = EventStreamSplitter()
    for at in range(len(START)):
        frames = splitter.feed(START[at : at + 1])
        assert splitter.is_mid_event is (at < len(START) - 1)
        assert len(frames) == (at == len(START) - 1)


@pytest.mark.parametrize("end", range(1, len(DELTA)))
def test_what_the_end_of_the_body_cuts_off_is_marked(end: int) -> None:
    frames = split(START + DELTA[:end])
    assert frames[1:] == [Frame(DELTA[:end], None, terminated=False)]


FAILURES = {
    "an exception": (
        {":exception-type": "throttlingException", ":message-type": "exception"},
        b'{"message":"Too many tokens"}',
        (b":exception/throttlingException", {"message": "Too many tokens"}),
    ),
    "an exception without a text": (
        {":exception-type": "modelStreamErrorException", ":message-type": "exception"},
        b"",
        (b":exception/modelStreamErrorException", {}),
    ),
    "an exception without a name": ({":message-type": "exception"}, b"", (b":exception/", {})),
    "an error": (
        {":error-code": "InternalError", ":error-message": 'It "broke"\n', ":message-type": "error"},
        b"ignored",
        (b":error/InternalError", {"message": 'It "broke"\n'}),
    ),
}


@pytest.mark.parametrize(("headers", "payload", "expected"), FAILURES.values(), ids=FAILURES)
def test_failures_are_frames(headers: dict[str, str], payload: bytes, expected: tuple[bytes, object]) -> None:
    [frame] = split(write_message(headers, payload))
    assert frame.data is not None
    assert (frame.event, json.loads(frame.data)) == expected


def test_a_frame_without_a_type_is_no_event_and_an_empty_payload_is_an_empty_object() -> None:
    nameless, empty = message(b"", b'{"a":1}'), event("messageStop", b"")
    assert split(nameless + empty) == [Frame(nameless, None), Frame(empty, b"{}", b"messageStop")]


def test_headers_of_every_kind_are_skipped() -> None:
    values = [b"", b"", b"\1", b"\0\1", b"\0" * 4, b"\0" * 8, b"\0\3abc", b"\0\3abc", b"\0" * 8, b"\0" * 16]
    headers = b"".join(header(f"h{kind}".encode(), kind, value) for kind, value in enumerate(values))
    [frame] = split(message(headers + text_header(b":event-type", b"x")))
    assert frame.event == b"x"


FLIPPED = bytearray(DELTA)
FLIPPED[40] ^= 1
PRELUDE_FLIPPED = bytearray(DELTA)
PRELUDE_FLIPPED[11] ^= 1
PRELUDE_FLIPPED[-4:] = crc32(PRELUDE_FLIPPED[:-4]).to_bytes(4, "big")
INVALID = {
    "another payload": bytes(FLIPPED),
    "another checksum of the prelude": bytes(PRELUDE_FLIPPED),
    "another checksum": DELTA[:-1] + bytes([DELTA[-1] ^ 1]),
    "another length": bytes([0, 0, 1, 0]) + DELTA[4:],
    "no length": message(b"", b"", size=-16),
    "a length without its end": message(b"", b"", size=-1),
    "headers beyond the frame": message(b"", b"{}", headers_size=3),
    "headers beyond Amazon's limit": message(header(b"a", 6, b"\xff\xff" + b"x" * 65535) * 3, b""),
    "a name beyond the headers": message(b"\5ab"),
    "a name without a type": message(b"\2ab"),
    "a value beyond the headers": message(header(b"a", 7, b"\0\5abc")),
    "a value without its size": message(header(b"a", 7, b"\0")),
    "a number beyond the headers": message(header(b"a", 5, b"\0" * 7)),
    "an unknown type of header": message(header(b"a", 10, b"")),
    "a header twice": message(text_header(b"a", b"1") + text_header(b"a", b"2")),
    "a name that is no text": message(text_header(b"\xff", b"1")),
    "a value that is no text": message(text_header(b"a", b"\xff")),
    "a page": b"<html><body>Bad gateway</body></html>",
    "an event of a text stream": b"event: message_start\ndata: {}\n\n",
}


@pytest.mark.parametrize("invalid", INVALID.values(), ids=INVALID)
@pytest.mark.parametrize("is_cut", [False, True])
def test_an_invalid_frame_ends_the_stream_and_loses_nothing_before_it(invalid: bytes, is_cut: bool) -> None:
    splitter = EventStreamSplitter()
    frames: list[Frame] = []
    body = START + invalid + DELTA
    cuts = [body[at : at + 1] for at in range(len(body))] if is_cut and len(body) < 10_000 else [body]

    def feed() -> None:
        for piece in cuts:
            frames.extend(splitter.feed(piece))

    with pytest.raises(InvalidFrame) as refusal:
        feed()
    assert [frame.event for frame in frames + refusal.value.frames] == [b"messageStart"]
    assert splitter.feed(DELTA) == []
    assert splitter.finish() == []
    assert not splitter.is_mid_event


def test_an_invalid_frame_that_comes_alone_ends_the_stream_too() -> None:
    splitter = EventStreamSplitter()
    with pytest.raises(InvalidFrame):
        splitter.feed(bytes(FLIPPED))
    assert splitter.feed(DELTA) == []


def test_a_frame_is_bounded_and_known_to_be_too_large_by_its_prelude() -> None:
    large = event("x", b"a" * 1000)
    assert [frame.event for frame in split(START + large, limit=len(large))] == [b"messageStart", b"x"]
    splitter = EventStreamSplitter(len(large) - 1)
    with pytest.raises(EventTooLarge) as refusal:
        splitter.feed(START + large[:12])
    assert [frame.event for frame in refusal.value.frames] == [b"messageStart"]


def test_a_dense_payload_is_too_large() -> None:
    with pytest.raises(EventTooLarge):
        split(event("x", b"[" + b"[]," * 150_000 + b"[]]"))


def test_frames_without_a_type_have_an_end() -> None:
    nameless = message(b"", b"")
    splitter = EventStreamSplitter()
    count = MAX_BYTES_WITHOUT_DATA // len(nameless)
    splitter.feed(nameless * count)
    splitter.feed(START)
    splitter.feed(nameless * count)
    with pytest.raises(EventTooLarge):
        splitter.feed(nameless)


LONG = {b"a": b"x" * 65535, b"b": b"x" * 65511}


def test_headers_up_to_amazons_limit_are_read() -> None:
    long = [header(name, 6, len(value).to_bytes(2, "big") + value) for name, value in LONG.items()]
    headers = b"".join([*long, text_header(b":event-type", b"x")])
    assert len(headers) == MAX_HEADERS
    [frame] = split(message(headers))
    assert frame.event == b"x"
    with pytest.raises(InvalidFrame):
        split(message(headers + header(b"c", 0, b"")))


@pytest.mark.parametrize("framing", [Framing.AMAZON, Framing.AMAZON_MESSAGES])
@pytest.mark.parametrize("body", [b'{"message":"no"}', b' \n{"message":"no"}', b'\xef\xbb\xbf{"message":"no"}'])
def test_a_whole_document_is_recognised_by_its_first_byte(framing: Framing, body: bytes) -> None:
    splitter = BodySplitter(framing=framing)
    assert [frame for at in range(len(body)) for frame in splitter.feed(body[at : at + 1])] == []
    assert splitter.format is BodyFormat.WHOLE
    assert json.loads(splitter.whole) == {"message": "no"}


def test_frames_in_a_body_are_split_by_the_same_splitter_from_the_second_read_on() -> None:
    splitter = BodySplitter(framing=Framing.AMAZON)
    assert [frame.event for frame in splitter.feed(START)] == [b"messageStart"]
    assert isinstance(splitter.events, EventStreamSplitter)
    assert [frame.event for frame in splitter.events.feed(DELTA[:20])] == []
    assert splitter.is_mid_event
    assert [frame.terminated for frame in splitter.finish()] == [False]


def test_an_array_is_no_frame() -> None:
    with pytest.raises(InvalidFrame):
        BodySplitter(framing=Framing.AMAZON).feed(b"[1, 2, 3, 4, 5]")


def test_a_frame_can_be_written_as_text() -> None:
    first, second = split(START + message(b"", b"{}"))
    assert readable(first) == b'event: messageStart\ndata: {"role":"assistant"}\n\n'
    assert readable(second) == b""
