"""A recording is parsed with the offset of everything, like the gateway's splitter, and never crashes."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamweir.conformance import Recording, RequestInfo, check, nearest
from streamweir.conformance.parsed_answer import parse_answer, parse_json
from streamweir.conformance.recording import Kind, Piece
from streamweir.frontends.chat.table import DIALECTS
from streamweir.wire.sse import Splitter
from support import valid_answers as right
from support.answer_changes import Defect
from support.defects import DEFECTS
from support.soak import part_of

ROOT = Path(__file__).parents[1] / "fixtures"
FIXTURES = sorted(ROOT.glob("*/*/response.sse"))
ALPHABET = [
    b"data",
    b":",
    b" ",
    b"\n",
    b"\r",
    b"{",
    b"}",
    b'"',
    b"[DONE]",
    b"\xef\xbb\xbf",
    b"\xff",
    b"x",
    b": p",
    b"1",
]
lines = st.lists(st.sampled_from(ALPHABET), max_size=40).map(b"".join)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(sorted(DIALECTS))


def test_every_frame_has_its_offset() -> None:
    body = right.written(right.tool())
    frames = parse_answer(Recording(body=body)).frames
    assert [frame.number for frame in frames] == list(range(1, len(frames) + 1))
    assert all(body[frame.offset :].startswith(frame.raw) for frame in frames)
    assert b"".join(frame.raw for frame in frames) == body


@pytest.mark.parametrize("path", part_of(FIXTURES, 4), ids=lambda path: f"{path.parent.parent.name}/{path.parent.name}")
def test_it_reads_the_data_that_the_splitter_reads(path: Path) -> None:
    body = path.read_bytes()
    splitter = Splitter()
    found = [frame.data for frame in [*splitter.feed(body), *splitter.finish()]]
    # Two documents whose blank line was lost are one event to the splitter.
    mine = b"\n".join(frame.data for frame in parse_answer(Recording(body=body)).frames if frame.data is not None)
    if Recording(body=body).kind is Kind.STREAM:
        assert mine == b"\n".join(data for data in found if data is not None)


@given(body=lines)
@example(body=b"\xef\xbb\xbf")
@example(body=b"data: {}\r\rdata: {}\r\n\r\n")
def test_lines_put_together_are_the_body(body: bytes) -> None:
    recording = Recording(body=body)
    answer = parse_answer(recording)
    if answer.kind is Kind.STREAM:
        start = 3 if answer.has_bom else 0
        assert b"".join(line.text + line.end for line in answer.lines) == body[start:]


@given(body=lines | st.binary(max_size=60), name=names)
def test_no_bytes_make_it_raise(body: bytes, name: str) -> None:
    for request in (RequestInfo(), right.REQUEST, RequestInfo(stream=False, include_usage=False)):
        check(Recording(body=body, request=request, headers=()), DIALECTS[name])


@given(value=values, name=names, at=st.integers(0, 3), data=st.data())
def test_no_member_makes_it_raise(value: object, name: str, at: int, data: st.DataObject) -> None:
    """Any value in the place of any member of a right answer."""
    documents = data.draw(st.sampled_from([right.text, right.tool, right.failed]))(name)
    place: object = documents[at % len(documents)]
    while True:
        members = list(place) if isinstance(place, dict) else list(range(len(place))) if isinstance(place, list) else []
        if not members:
            return
        member = data.draw(st.sampled_from(members))
        assert isinstance(place, dict | list)
        inner = place[member]
        if not isinstance(inner, dict | list) or data.draw(st.booleans()):
            place[member] = value
            break
        place = inner
    body = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in documents)
    check(right.recorded(body), DIALECTS[name])
    check(right.whole(documents[0]), DIALECTS[name])
    check(right.failure(documents[-1]), DIALECTS[name])


@given(defect=st.sampled_from(DEFECTS), cut=st.floats(0, 1))
def test_no_cut_makes_it_raise(defect: Defect, cut: float) -> None:
    recording = defect.recording
    body = recording.body[: int(len(recording.body) * cut)]
    for was_cut in (False, True):
        nearest([Recording(body=body, request=recording.request, was_cut=was_cut)])


def test_a_cut_recording_may_lack_its_end() -> None:
    body = right.written(right.tool()).replace(b"get_weather", "wétter".encode())
    for at in range(1, len(body)):
        report = check(Recording(body=body[:at], request=right.REQUEST, was_cut=True), DIALECTS["openai"])
        assert [finding.rule for finding in report.findings] == []


def test_an_answer_that_broke_off_is() -> None:
    body = right.written(right.text())
    for at in range(1, len(body)):
        report = check(Recording(body=body[:at], request=right.REQUEST), DIALECTS["openai"])
        assert not report.holds


@pytest.mark.parametrize(
    ("body", "status", "stream", "kind"),
    [
        (b'data: {"a":1}\n\n', None, None, Kind.STREAM),
        (b"", None, None, Kind.STREAM),
        (b'{"id":"1"}', None, None, Kind.WHOLE),
        (b'{"error":{}}', None, None, Kind.WHOLE),
        (b'{"error":{"message":"no"}}', None, None, Kind.FAILURE),
        (b'{"detail":"no"}', 404, None, Kind.FAILURE),
        (b"<html>", 502, True, Kind.FAILURE),
        (b"{", None, False, Kind.WHOLE),
        (b"{", None, True, Kind.STREAM),
        (b"[1]", 200, None, Kind.WHOLE),
    ],
)
def test_kind(body: bytes, status: int | None, stream: bool | None, kind: Kind) -> None:
    assert Recording(body=body, status=status, request=RequestInfo(stream=stream)).kind is kind


def test_headers_are_found_in_any_case() -> None:
    recording = Recording(body=b"", headers=(("X-A", "1"), ("x-a", "2")), pieces=(Piece(0, 0.1),))
    assert (recording.header("x-A"), recording.header("x-b"), Recording(body=b"").header("a")) == ("1", None, None)


@pytest.mark.parametrize(
    ("text", "problem", "repeated", "is_half"),
    [
        (b'{"a":1}', False, (), False),
        (b'{"a":1,"a":{"b":1,"b":2}}', False, ("b", "a"), False),
        (b'{"a":NaN}', True, (), False),
        (b'{"a":1e999}', False, (), False),
        (b'{"a":"\\ud83d"}', False, (), True),
        (b'{"a":"\\ud83d\\ude00"}', False, (), False),
        (b'{"a":' + b"9" * 30 + b"}", False, (), False),
        (b"[" * 5000, True, (), False),
        (b"[" * 400 + b"]" * 400, False, (), False),
        (b"", True, (), False),
    ],
)
def test_json(text: bytes, problem: bool, repeated: tuple[str, ...], is_half: bool) -> None:
    found = parse_json(text)
    assert (found.problem is not None, found.repeated, found.has_lone_surrogate) == (problem, repeated, is_half)
