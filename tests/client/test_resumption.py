"""How far a stream was read and when its client comes back: by pieces and numbers that are handed in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.client.resume import Resume, Resumption, is_stream_id
from streamweir.wire.sse import EventTooLarge
from support.answers import anthropic_frames, openai_frames

FRAMES = [frame for pair in zip(openai_frames(), anthropic_frames(), strict=False) for frame in pair]


def resumption(random: float = 1.0, **settings: float) -> Resumption:
    return Resumption("strm_1", Resume(**settings), 1024 * 1024, lambda: random)  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(1, 60)), max_size=12))
def test_any_cuts_give_the_bytes_of_an_uninterrupted_stream(cuts: list[tuple[int, int]]) -> None:
    position, received = resumption(), b""
    for kept, piece in [*cuts, (1_000_000, 7)]:
        sent = b"".join(FRAMES[position.events :])[:kept]
        for start in range(0, len(sent), piece):
            received += position.feed(sent[start : start + piece])
        if kept != 1_000_000:
            position.resumed()
    assert received == b"".join(FRAMES)
    assert position.events == len(FRAMES)


def test_comments_are_no_events() -> None:
    position = resumption()
    position.feed(b": keep-alive\n\n: again\ndata: 1\n\nevent: nothing\n\ndata: [DONE]\n\n")
    assert position.events == 2


def test_an_event_that_did_not_end_is_the_rest() -> None:
    position = resumption()
    assert position.feed(b"data: 1\n\ndata: 2\n") == b"data: 1\n\n"
    assert position.rest() == b"data: 2\n"


def test_an_event_beyond_the_limit_is_not_kept() -> None:
    position = Resumption("strm_1", Resume(), 100, lambda: 0.0)
    with pytest.raises(EventTooLarge):
        position.feed(b"data: " + b"a" * 200)


def test_pauses_double_and_begin_again_with_every_event() -> None:
    position = resumption(most=4, base_s=1, cap_s=3)
    assert [position.pause_s() for _ in range(5)] == [1, 2, 3, 3, None]
    position.feed(b"data: 1\n\n")
    assert [position.pause_s() for _ in range(2)] == [1, 2]
    position.feed(b": a comment\n\n")
    assert position.pause_s() == 3
    assert resumption(0.5, base_s=1).pause_s() == 0.5


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("strm_Ab-1", True), ("", False), ("a/../b", False), ("a b", False), ("a\n", False), ("a" * 129, False)],
)
def test_what_becomes_a_part_of_a_url(text: str, is_one: bool) -> None:
    assert is_stream_id(text) is is_one
