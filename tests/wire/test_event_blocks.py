"""`wire.event_blocks`: one row per rule, then the same events as the splitter finds in the same bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.wire.event_blocks import event_blocks, is_one_event, with_id
from streamweir.wire.sse import Splitter

RULES: dict[str, tuple[bytes, list[bytes]]] = {
    "nothing": (b"", []),
    "one event": (b"data: x\n\n", [b"data: x\n\n"]),
    "two events": (b"data: x\n\ndata: [DONE]\n\n", [b"data: x\n\n", b"data: [DONE]\n\n"]),
    "a named event": (b"event: a\ndata: x\n\n", [b"event: a\ndata: x\n\n"]),
    "CRLF": (b"data: x\r\n\r\ndata: y\r\n\r\n", [b"data: x\r\n\r\n", b"data: y\r\n\r\n"]),
    "CR": (b"data: x\r\rdata: y\r\r", [b"data: x\r\r", b"data: y\r\r"]),
    "a comment of one line": (b": keep-alive\n", []),
    "a comment before an event is inside of it": (b": hi\ndata: x\n\n", [b": hi\ndata: x\n\n"]),
    "a comment with a blank line": (b": hi\n\ndata: x\n\n", [b"data: x\n\n"]),
    "an event without data": (b"event: a\n\ndata: x\n\n", [b"data: x\n\n"]),
    "data without a colon": (b"data\n\n", [b"data\n\n"]),
    "another field that begins with data": (b"database: x\n\n", []),
    "blank lines between": (b"data: x\n\n\n\ndata: y\n\n", [b"data: x\n\n", b"data: y\n\n"]),
    "an end that is missing": (b"data: x\n\ndata: y\n", [b"data: x\n\n"]),
}


@pytest.mark.parametrize(("data", "expected"), RULES.values(), ids=RULES)
def test_events_of_a_piece_are_found(data: bytes, expected: list[bytes]) -> None:
    assert event_blocks(data) == expected


@pytest.mark.parametrize(("data", "expected"), RULES.values(), ids=RULES)
def test_a_piece_that_is_certainly_one_event_is_one(data: bytes, expected: list[bytes]) -> None:
    if is_one_event(data):
        assert expected == [data]


LINES = st.sampled_from([b"data: x", b"data", b"event: a", b": c", b"id: 7", b"retry: 5", b"datax: 1", b""])
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
PIECES = st.lists(st.tuples(LINES, ENDS), max_size=12).map(lambda lines: b"".join(a + b for a, b in lines))


def dispatched(data: bytes) -> list[bytes]:
    """What a client dispatches of it, with the last id."""
    splitter = Splitter(at_start=False)
    return [
        frame.data for frame in splitter.feed(data) + splitter.finish() if frame.data is not None and frame.terminated
    ]


@given(PIECES)
def test_the_same_events_as_a_client_dispatches(data: bytes) -> None:
    blocks = event_blocks(data)
    assert dispatched(b"".join(blocks)) == dispatched(data)
    assert len(blocks) == len(dispatched(data))
    if is_one_event(data):
        assert dispatched(data) == dispatched(b"".join(blocks))
        assert len(blocks) == 1


@given(PIECES, st.integers(1, 10**6))
def test_an_id_is_the_last_of_its_event_and_changes_nothing_else(data: bytes, number: int) -> None:
    for block in event_blocks(data):
        numbered = with_id(block, number)
        assert dispatched(numbered) == dispatched(block)
        splitter = Splitter(at_start=False)
        splitter.feed(numbered)
        splitter.finish()
        assert splitter.last_event_id == b"%d" % number
