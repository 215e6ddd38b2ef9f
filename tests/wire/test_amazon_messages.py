"""Anthropic's events in Amazon's frames: given as the text stream that Anthropic itself would have sent."""

import json
from base64 import b64encode

import pytest

from streamweir.wire.amazon import write_message
from streamweir.wire.amazon_messages import MessagesInFramesSplitter
from streamweir.wire.sse import EventTooLarge, Frame, InvalidFrame, Splitter

CHUNK = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}


def payload(document: bytes) -> bytes:
    return json.dumps({"bytes": b64encode(document).decode(), "p": "abcdefghij"}).encode()


def chunk(document: bytes) -> bytes:
    return write_message(CHUNK, payload(document))


EVENTS = [
    b'{"type":"message_start","message":{"id":"msg_bdrk_1","model":"claude"}}',
    '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"größer 🦦"}}'.encode(),
    b'{"index":0,"type":"content_block_stop"}',
    b'{ "type" : "ping" }',
    b'{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":9}}',
]
BODY = b"".join(chunk(document) for document in EVENTS)
TYPES = [b"message_start", b"content_block_delta", b"content_block_stop", b"ping", b"message_stop"]


@pytest.mark.parametrize("size", [1, 3, 64, 10_000])
def test_events_are_those_of_a_text_stream_with_their_json_unchanged(size: int) -> None:
    splitter = MessagesInFramesSplitter()
    frames = [frame for at in range(0, len(BODY), size) for frame in splitter.feed(BODY[at : at + size])]
    assert splitter.finish() == []
    assert [(frame.event, frame.data) for frame in frames] == list(zip(TYPES, EVENTS, strict=True))
    assert Splitter().feed(b"".join(frame.raw for frame in frames)) == frames


@pytest.mark.parametrize(
    ("document", "event"),
    [(b'{"type":"ping",\r\n "a":1}', b"ping"), (b'{"a":1}', b""), (b'{"type":7}', b""), (b'{"type":"a\\nb"}', b"")],
)
def test_no_document_can_write_a_line_of_its_own(document: bytes, event: bytes) -> None:
    [frame] = MessagesInFramesSplitter().feed(chunk(document))
    assert frame.event == event
    assert json.loads(frame.data or b"") == json.loads(document)
    assert Splitter().feed(frame.raw) == [frame]


DEEP = b'{"x":%b%b,"bytes":"e30="}' % (b"[" * 20_000, b"]" * 20_000)


@pytest.mark.parametrize(
    "unreadable",
    [
        DEEP,
        b'{"bytes":"???"}',
        b'{"bytes":7}',
        b'{"p":"ab"}',
        b"{",
        b"",
        payload(b"no json"),
        payload(b'{"type":"ping"\n'),
    ],
)
def test_a_chunk_that_cannot_be_read_ends_the_stream(unreadable: bytes) -> None:
    splitter = MessagesInFramesSplitter()
    with pytest.raises(InvalidFrame) as refusal:
        splitter.feed(BODY + write_message(CHUNK, unreadable))
    assert [frame.event for frame in refusal.value.frames] == TYPES


@pytest.mark.parametrize(
    ("headers", "document", "kind", "text"),
    [
        ({":exception-type": "throttlingException"}, b'{"message":"Slow down"}', "rate_limit_error", "Slow down"),
        ({":exception-type": "ThrottlingException"}, b'{"Message":"Slow down"}', "rate_limit_error", "Slow down"),
        ({":exception-type": "validationException"}, b'{"message":"Bad"}', "invalid_request_error", "Bad"),
        ({":exception-type": "accessDeniedException"}, b"{}", "permission_error", ""),
        ({":exception-type": "serviceUnavailableException"}, b"", "overloaded_error", ""),
        ({":exception-type": "modelTimeoutException"}, b"[]", "timeout_error", ""),
        ({":exception-type": "modelStreamErrorException"}, b'{"originalMessage":"Broke"}', "api_error", "Broke"),
        ({":exception-type": "someOtherException"}, b"no json", "api_error", ""),
        ({}, b'{"message":7}', "api_error", ""),
    ],
)
def test_an_exception_is_an_error_event(headers: dict[str, str], document: bytes, kind: str, text: str) -> None:
    [frame] = MessagesInFramesSplitter().feed(write_message({**headers, ":message-type": "exception"}, document))
    assert (frame.event, frame.data is not None) == (b"error", True)
    assert json.loads(frame.data or b"") == {"type": "error", "error": {"type": kind, "message": text}}
    assert Splitter().feed(frame.raw) == [frame]


def test_an_error_of_the_connection_is_an_error_event() -> None:
    headers = {":message-type": "error", ":error-code": "ThrottlingException", ":error-message": "Slow\r\ndown"}
    [frame] = MessagesInFramesSplitter().feed(write_message(headers, b""))
    expected = {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow\r\ndown"}}
    assert json.loads(frame.data or b"") == expected
    assert Splitter().feed(frame.raw) == [frame]


def test_frames_of_other_types_are_no_part_of_the_answer() -> None:
    other = write_message({":event-type": "metadata", ":message-type": "event"}, b'{"a":1}')
    assert [frame.event for frame in MessagesInFramesSplitter().feed(other + BODY)] == TYPES


def test_what_the_end_of_the_body_cuts_off_is_marked_and_shows_none_of_its_bytes() -> None:
    splitter = MessagesInFramesSplitter()
    splitter.feed(BODY[:-1])
    assert splitter.finish() == [Frame(b"", None, terminated=False)]


def test_the_limit_is_that_of_the_event() -> None:
    document = b'{"type":"ping","a":"%b"}' % (b"x" * 1000)
    assert len(MessagesInFramesSplitter(len(document)).feed(chunk(document))) == 1
    large = b'{"type":"ping","a":"%b"}' % (b"x" * 100_000)
    assert len(MessagesInFramesSplitter(len(large)).feed(chunk(large))) == 1
    with pytest.raises(EventTooLarge):
        MessagesInFramesSplitter(len(large) - 1).feed(chunk(large))
    with pytest.raises(EventTooLarge):
        MessagesInFramesSplitter().feed(chunk(b'{"type":"ping","a":[' + b"[]," * 100_000 + b"[]]}"))
