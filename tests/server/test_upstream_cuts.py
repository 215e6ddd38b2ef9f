"""The upstream cut at every place: docs/spec/failures.md U17 and U20, for each wire, each dialect, by FIN and by RST.

An answer is laid out as it stands on the wire, head and chunk framing included, and played up to
each offset. However much of it came, the caller gets one of three things: a status of a failure,
where no word had come; the words that had come whole, one error frame and the terminator; or, where
the wire's own end had come, all of it. Never half a frame, never an end that looks like one. And
each of the requests leaves one record and no connection.

Streams of the Messages API are in `test_messages_cuts`.
`make test` tries the places where something begins or ends, and the bytes beside them, `make soak` every byte.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

import pytest

from conftest import SOAKS
from streamweir.server.telemetry.record import RequestRecord
from support.answers import TEXTS, anthropic_frames, gemini_frames, openai_frames, openai_whole
from support.gateway import Gate, chat_request, frames_of, nothing_left
from support.outcome import (
    BUFFERING,
    DIALECTS,
    assert_completed,
    assert_error_frame,
    assert_refused,
    assert_whole,
    is_chunk_without_finish,
    path_of,
    serving,
)
from support.raw_client import Reply
from support.script import Fin, Head, Raw, Rst, Seen, Step, chunk_bytes, head_bytes
from support.wire_samples import VOICES, Voice

pytestmark = pytest.mark.usefixtures("no_jitter")

How = Literal["fin", "rst"]
Cut = tuple[int, How]
TRUNCATED, RESET, EMPTY = "upstream_stream_truncated", "upstream_stream_reset", "upstream_empty_response"
LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True)
class Wire:
    """One answer as bytes, and what is known of it at each of them."""

    kind: str
    data: bytes
    words: Sequence[tuple[int, str]]
    """The offset at which each piece of text is there whole, and the piece."""
    complete_at: int
    """From here on the wire has said that this is all."""
    usage_at: int | None
    """From here on the provider has told all the tokens; None: it never does."""
    edges: Sequence[int]
    """Where frames, chunks and the head begin and end."""

    @property
    def text(self) -> str:
        return "".join(word for _, word in self.words)

    def text_at(self, offset: int) -> str:
        return "".join(word for at, word in self.words if at <= offset)

    def cuts(self, *hows: How) -> list[Cut]:
        near = {edge + step for edge in self.edges for step in (-1, 0, 1)}
        chosen = range(len(self.data) + 1) if SOAKS else near
        return [(offset, how) for offset in sorted(chosen) if 0 <= offset <= len(self.data) for how in hows]


def streamed(kind: str) -> Wire:
    """An event stream, each frame in a chunk of its own."""
    frames = {
        "openai": openai_frames(TEXTS[:2]),
        "anthropic": anthropic_frames(TEXTS[:2]),
        "gemini": gemini_frames(TEXTS),
    }[kind]
    parts = [head_bytes(200, Head().fields, "chunked"), *map(chunk_bytes, frames), LAST_CHUNK]
    starts = list(accumulate(map(len, parts), initial=0))
    ends = [end - 2 for end in starts[2:-1]]  # a frame is there before the line end of its chunk
    first = {"openai": 1, "anthropic": 2, "gemini": 0}[kind]
    texts = TEXTS if kind == "gemini" else TEXTS[:2]
    data = b"".join(parts)
    # Gemini's wire has no last frame: only the end of the body tells that it is all.
    complete_at = len(data) if kind == "gemini" else ends[-1]
    usage_at = {"openai": ends[-2], "anthropic": ends[-2], "gemini": ends[0]}[kind]
    bodies = [start + part.index(b"\r\n") + 2 for start, part in zip(starts[1:-2], parts[1:-1], strict=True)]
    words = list(zip(ends[first:], texts, strict=False))
    return Wire(kind, data, words, complete_at, usage_at, [*starts, *ends, *bodies])


def buffered(voice: Voice) -> Wire:
    """A JSON document with its length."""
    body = openai_whole() if voice.kind == "openai" else voice.whole
    head = head_bytes(200, Head(content_type="application/json").fields, len(body))
    end = len(head) + len(body)
    return Wire(voice.kind, head + body, [(end, "".join(TEXTS))], end, end, [0, len(head), end])


def script_for(wire: Wire) -> Any:
    """Each request says by its model where it is to be cut."""

    def chosen(request: Seen) -> Sequence[Step]:
        found = re.search(rb"cut-(\d+)-(fin|rst)", request.path.encode() + request.body)
        assert found is not None
        return [Raw(wire.data[: int(found[1])]), Fin() if found[2] == b"fin" else Rst()]

    return chosen


async def replies(gate: Gate, cuts: Sequence[Cut], dialect: str, is_streamed: bool) -> list[Reply]:
    """One caller asks for all the cuts, one after the other, on one connection."""
    found = []
    async with await gate.connect() as client:
        for offset, how in cuts:
            model = f"up/cut-{offset}-{how}"
            await client.send(chat_request(path=path_of(dialect), model=model, stream=is_streamed))
            found.append(await client.response())
    return found


def without_ids(documents: list[Any]) -> list[Any]:
    """What differs from answer to answer is left out."""
    own = ("id", "created", "model")
    return [
        each if each == "[DONE]" else {name: value for name, value in each.items() if name not in own}
        for each in documents
    ]


def check_stream(wire: Wire, cut: Cut, reply: Reply, dialect: str, full: list[Any]) -> tuple[str, str | None]:
    """Whether the reply is what the cut allows. Gives the verdict and the code that belong to it."""
    offset, how = cut
    text = wire.text_at(offset)
    code = RESET if how == "rst" else TRUNCATED if offset else EMPTY
    if reply.status != 200:
        assert text == "" or how == "rst"  # a reset may overtake the last bytes before it
        assert_refused(reply, code, dialect)
        return "truncated", code
    documents = without_ids(frames_of(reply.body))
    if documents == full:
        assert offset >= wire.complete_at
        assert_completed(reply, dialect, text=wire.text)
        return "completed", None
    assert offset < wire.complete_at or how == "rst"
    if dialect != "bitseek":
        assert documents.pop() == "[DONE]"
        assert_error_frame(documents.pop(), code, dialect)
    else:
        assert_error_frame(frames_of(reply.body)[-1], code, dialect)
        documents.pop()
    assert documents == full[: len(documents)]
    assert all(is_chunk_without_finish(each) for each in documents)
    came = "".join(choice["delta"].get("content") or "" for each in documents for choice in each["choices"])
    assert came == text or (how == "rst" and came and text.startswith(came))
    return "truncated", code


def check_whole(wire: Wire, cut: Cut, reply: Reply, dialect: str) -> tuple[str, str | None]:
    offset, how = cut
    if reply.status == 200:
        assert offset >= wire.complete_at
        assert_whole(reply, text=wire.text)
        return "completed", None
    assert offset < wire.complete_at or how == "rst"
    code = RESET if how == "rst" else TRUNCATED if offset else EMPTY
    assert_refused(reply, code, dialect)
    return "truncated", code


def check_facts(wire: Wire, cut: Cut, reply: Reply, record: RequestRecord, verdict: str, code: str | None) -> None:
    assert record.id == reply.header("x-request-id")
    assert (record.verdict, record.error, record.status) == (verdict, code, reply.status)
    attempts = [each.error for each in record.attempts]
    if reply.status == 200:
        assert attempts == [code]  # never again, once something was sent
        assert record.usage is not None
        is_told = wire.usage_at is not None and cut[0] >= wire.usage_at
        if cut[1] == "fin" or not is_told:
            assert record.usage_source == ("provider" if is_told else "estimate")
    else:
        assert attempts
        assert set(attempts) == {code}
        assert len(attempts) <= 3


async def assert_honest(wire: Wire, dialect: str, is_streamed: bool, cuts: Sequence[Cut]) -> None:
    async with nothing_left(), serving(script_for(wire), wire.kind) as (gate, up):
        whole_cut: Cut = (len(wire.data), "fin")
        found = await replies(gate, [whole_cut, *cuts], dialect, is_streamed)
        records = {record.id: record for record in await gate.settled(len(found))}  # what is counted ends later
        full = without_ids(frames_of(found[0].body)) if is_streamed else []
        for cut, reply in zip([whole_cut, *cuts], found, strict=True):
            record = records[reply.header("x-request-id") or ""]
            try:
                if is_streamed:
                    verdict, code = check_stream(wire, cut, reply, dialect, full)
                else:
                    verdict, code = check_whole(wire, cut, reply, dialect)
                check_facts(wire, cut, reply, record, verdict, code)
            except AssertionError as failure:
                failure.add_note(f"cut at {cut} of {len(wire.data)}: {reply} {record}")
                raise
        await up.vacated()


@pytest.mark.parametrize("voice", VOICES, ids=lambda voice: voice.kind)
@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_u17_u20_a_stream_cut(voice: Voice, how: How) -> None:
    wire = streamed(voice.kind)
    await assert_honest(wire, "openai", True, wire.cuts(how))


@pytest.mark.diagonal
@pytest.mark.parametrize("voice", VOICES, ids=lambda voice: voice.kind)
@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name not in ("openai", "messages", "responses")])
async def test_u17_u20_a_stream_cut_in_each_dialect(voice: Voice, dialect: str) -> None:
    wire = streamed(voice.kind)
    await assert_honest(wire, dialect, True, wire.cuts("fin", "rst"))


@pytest.mark.diagonal
@pytest.mark.parametrize("voice", VOICES, ids=lambda voice: voice.kind)
@pytest.mark.parametrize("dialect", BUFFERING)
@pytest.mark.parametrize("form", ["stream", "document"])
async def test_u17_u20_a_buffered_answer_cut(voice: Voice, form: str, dialect: str) -> None:
    wire = streamed(voice.kind) if form == "stream" else buffered(voice)
    await assert_honest(wire, dialect, False, wire.cuts("fin", "rst"))
