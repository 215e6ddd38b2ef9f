"""The journal's frames: a file that was cut or damaged anywhere gives a prefix of what was written, and reports it."""

import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.store.db.request_log import Row
from streamweir.store.journal.entries import Entry, Extend, Hold, Progress, Refused, Settle
from streamweir.store.journal.frames import MAX_FRAME_BYTES, encode_frame, read_frames
from support.entries import extend, hold, progress, refused, settle

ENTRIES: list[Entry] = [
    hold("r1"),
    extend("r1"),
    progress(("r1", "p/m", 7), ("r2", "p/m", 9)),
    settle("r1"),
    refused("r3"),
    hold("r4", 0, account="key:k:total"),
]

numbers = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
holds = st.builds(
    Hold,
    request_id=texts,
    instance=texts,
    at_ms=numbers,
    workspace_id=texts,
    key_id=texts,
    key_name=texts,
    dialect=texts,
    model=texts,
    stream=st.booleans(),
    amount=numbers,
    account=st.none() | texts,
    prices=texts,
    prompt_tokens=numbers,
    idempotency=st.none() | st.binary(max_size=32),
    body_digest=st.none() | st.binary(max_size=32),
)
rows = st.builds(
    Row,
    request_id=texts,
    at_ms=numbers,
    instance=texts,
    status=st.integers(0, 999),
    verdict=texts,
    duration_ms=numbers,
    model=st.none() | texts,
    cost=st.none() | numbers,
    stream=st.booleans(),
)
entries = st.one_of(
    holds,
    st.builds(Extend, request_id=texts, at_ms=numbers, number=numbers, amount=numbers),
    st.builds(
        Progress,
        at_ms=numbers,
        rows=st.lists(st.tuples(texts, texts, numbers), max_size=3),
        times=st.lists(st.tuples(st.none() | numbers, st.none() | numbers), max_size=3),
    ),
    st.builds(Settle, row=rows, account=st.none() | texts, frees_idempotency=st.booleans()),
    st.builds(Refused, row=rows),
)


@given(st.lists(entries, max_size=8))
def test_what_is_written_is_read(written: list[Entry]) -> None:
    reading = read_frames(b"".join(map(encode_frame, written)))
    assert reading.entries == written
    assert (reading.unknown, reading.dropped_bytes) == ([], 0)


def test_every_cut_gives_a_prefix_and_the_number_of_bytes_behind_it() -> None:
    frames = [encode_frame(entry) for entry in ENTRIES]
    data = b"".join(frames)
    ends = [sum(map(len, frames[:count])) for count in range(len(frames) + 1)]
    for cut in range(len(data) + 1):
        reading = read_frames(data[:cut])
        whole = sum(end <= cut for end in ends) - 1
        assert reading.entries == ENTRIES[:whole]
        assert reading.dropped_bytes == cut - ends[whole]


def test_every_flipped_bit_ends_the_reading_before_its_frame() -> None:
    frames = [encode_frame(entry) for entry in ENTRIES]
    data = b"".join(frames)
    start = 0
    for number, frame in enumerate(frames):
        for bit in range(start * 8, (start + len(frame)) * 8, 3):
            damaged = bytearray(data)
            damaged[bit // 8] ^= 1 << bit % 8
            reading = read_frames(bytes(damaged))
            assert reading.entries == ENTRIES[:number]
            assert reading.dropped_bytes == len(data) - start
        start += len(frame)


@given(st.lists(entries, max_size=3), st.binary(max_size=64))
def test_garbage_after_the_frames_changes_nothing_before_it(written: list[Entry], rubbish: bytes) -> None:
    reading = read_frames(b"".join(map(encode_frame, written)) + rubbish)
    assert reading.entries[: len(written)] == written
    assert reading.dropped_bytes <= len(rubbish)


def test_zeros_which_a_power_failure_leaves_are_no_frames() -> None:
    reading = read_frames(encode_frame(ENTRIES[0]) + bytes(4096))
    assert reading.entries == ENTRIES[:1]
    assert reading.dropped_bytes == 4096


def test_a_whole_frame_that_is_not_understood_is_handed_out_and_the_reading_goes_on() -> None:
    payload = msgspec.msgpack.encode({"type": "of a newer program", "what": 1})
    stranger = len(payload).to_bytes(4, "little") + zlib.crc32(payload, len(payload)).to_bytes(4, "little") + payload
    reading = read_frames(encode_frame(ENTRIES[0]) + stranger + encode_frame(ENTRIES[1]))
    assert reading.entries == ENTRIES[:2]
    assert reading.unknown == [payload]
    assert reading.dropped_bytes == 0


def test_a_frame_of_the_version_before_is_read() -> None:
    """It did not tell when the pieces of an answer went out."""
    payload = msgspec.msgpack.encode({"type": "progress", "at_ms": 5, "rows": [["r1", "p/m", 7]]})
    frame = len(payload).to_bytes(4, "little") + zlib.crc32(payload, len(payload)).to_bytes(4, "little") + payload
    assert read_frames(frame).entries == [progress(("r1", "p/m", 7), at_ms=5)]


def test_an_entry_beyond_any_size_is_refused() -> None:
    with pytest.raises(ValueError, match="bytes"):
        encode_frame(progress(*[("x" * 1024, "", 0)] * (MAX_FRAME_BYTES // 1024)))


@pytest.mark.parametrize("entry", [hold("\ud800"), hold("r", 2**64)])
def test_what_no_database_takes_is_refused(entry: Entry) -> None:
    with pytest.raises((ValueError, OverflowError)):
        encode_frame(entry)
