"""`parse` and `aparse`: the same answer from any iterable of bytes, for callers with their own HTTP client."""

from collections.abc import AsyncIterator, Iterator

import pytest

from streamweir.client import (
    AsyncStream,
    Event,
    Limits,
    StreamCompleted,
    StreamError,
    StreamStarted,
    StreamTooLarge,
    StreamTruncated,
    TextDelta,
    aparse,
    parse,
)
from support.answers import TEXTS, error_body, error_frame, openai_frames, openai_stream

FRAMES = openai_frames()
TEXT = "".join(TEXTS)


async def slowly(frames: list[bytes]) -> AsyncIterator[bytes]:
    for frame in frames:
        yield frame


def test_iterating_gives_events_and_ends_with_the_answer() -> None:
    stream = parse(FRAMES)
    events: list[Event] = list(stream)
    assert isinstance(events[0], StreamStarted)
    assert isinstance(events[-1], StreamCompleted)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == TEXT
    assert stream.final().text == TEXT, "asked for again it is there"
    assert list(stream) == []
    assert stream.usage is not None
    assert (stream.request_id, stream.attempts, stream.tool_calls) == (None, 1, [])


def test_text_yields_the_text_and_nothing_is_read_ahead() -> None:
    taken = []

    def source() -> Iterator[bytes]:
        for frame in FRAMES:
            taken.append(frame)
            yield frame

    stream = parse(source())
    texts = stream.text()
    assert next(texts) == TEXTS[0]
    assert len(taken) == 2, "the frame with the role, and the first text"
    assert stream.so_far.text == TEXTS[0]
    assert not stream.so_far.is_whole
    assert [TEXTS[0], *texts] == list(TEXTS)


def test_it_has_begun_with_the_first_content() -> None:
    stream = parse(FRAMES)
    stream.begin()
    assert stream.so_far.text == TEXTS[0]
    assert stream.final().text == TEXT
    nothing = parse([FRAMES[0]])
    nothing.begin()
    assert nothing.so_far.is_empty


def test_text_of_another_choice() -> None:
    assert list(parse(FRAMES).text(choice=1)) == []


def test_it_may_be_left_and_taken_up_again() -> None:
    stream = parse(FRAMES)
    for _ in stream:
        break
    assert stream.final().text == TEXT


def test_an_error_is_raised_after_the_events_before_it() -> None:
    stream = parse([b"".join(openai_frames(finish=None, done=False, usage=None)), error_frame(error_body("No.", "t"))])
    seen: list[str] = []
    with pytest.raises(StreamError, match="No"):
        seen.extend(stream.text())
    assert "".join(seen) == TEXT
    with pytest.raises(StreamError):
        stream.final()


def test_what_the_iterable_raises_goes_through() -> None:
    def source() -> Iterator[bytes]:
        yield FRAMES[0] + FRAMES[1]
        raise ConnectionResetError("gone")

    stream = parse(source())
    with pytest.raises(ConnectionResetError):
        stream.final()
    assert stream.so_far.text == TEXTS[0]
    with pytest.raises(StreamTruncated):
        stream.final()


def test_bounds_are_parameters() -> None:
    with pytest.raises(StreamTooLarge):
        parse([openai_stream()], limits=Limits(answer_bytes=200)).final()
    with pytest.raises(StreamTooLarge):
        parse([openai_stream()], limits=Limits(event_bytes=100)).final()


async def test_the_async_client_returns_the_same() -> None:
    stream = aparse(slowly(FRAMES))
    assert isinstance(stream, AsyncStream)
    await stream.begin()
    assert stream.so_far.text == TEXTS[0]
    events = [event async for event in stream]
    assert events == list(parse(FRAMES))
    assert (await stream.final()).text == TEXT
    assert [text async for text in aparse(slowly(FRAMES)).text()] == list(TEXTS)
    assert [text async for text in aparse(slowly(FRAMES)).text(choice=1)] == []


async def test_the_async_client_raises_the_same() -> None:
    stream = aparse(slowly(FRAMES[:-1]), "aivene")
    with pytest.raises(StreamTruncated) as raised:
        await stream.final()
    assert raised.value.completion.text == stream.so_far.text == TEXT
    clean = aparse(slowly(FRAMES[:2]), "bitseek")
    assert (await clean.final()).finish_reason is None
