"""How an endpoint is asked: at which address, in which manner, within which bounds, and with its key kept."""

import asyncio
from collections.abc import Callable

import pytest

from streamweir.conformance.plan import RequestOptions, plan
from streamweir.conformance.probe import Bounds, WrongAddress, find_endpoint
from streamweir.conformance.probe_session import Loss
from support.broken_endpoint import KEY, MODEL, Asked, BrokenEndpoint, Defect, Play
from support.conformance_check import ask
from support.dialect_rules import BITSEEK, OPENAI
from support.scripted_upstream import closed_port

NAMES = [each.name for each in plan(RequestOptions(model=MODEL))]


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://host", "http://host/v1/chat/completions"),
        ("http://host/", "http://host/v1/chat/completions"),
        ("https://host/v1", "https://host/v1/chat/completions"),
        ("https://host/v1/", "https://host/v1/chat/completions"),
        ("https://host/opentoken/v1/chat/completions", "https://host/opentoken/v1/chat/completions"),
        ("https://host/chat/completions", "https://host/chat/completions"),
        ("https://host/api?version=2#top", "https://host/api/chat/completions?version=2"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1/chat/completions"),
    ],
)
def test_an_address(text: str, url: str) -> None:
    assert str(find_endpoint(text).url) == url


def test_an_address_is_shown_without_its_query() -> None:
    assert find_endpoint("https://host/v1?key=secret").shown == "https://host/v1/chat/completions"


@pytest.mark.parametrize(
    "text", ["host/v1", "ftp://host/v1", "http://", "http://me:pw@host/v1", "http://host:99999999"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(WrongAddress) as refused:
        find_endpoint(text)
    assert "pw" not in str(refused.value)


async def test_all_is_asked_in_order_over_one_connection() -> None:
    async with BrokenEndpoint(OPENAI) as endpoint:
        heard = await ask(endpoint.base_url, MODEL, KEY)
    assert [each.name for each in heard.heard] == NAMES
    assert heard.sent == len(NAMES) == len(endpoint.asked)
    assert all(each.loss is None for each in heard.heard)
    left = NAMES.index("cancelled")
    assert {each.connection for each in heard.heard[: left + 1]} == {0}
    assert {each.connection for each in heard.heard[left + 1 :]} == {1}, "the one that was left is closed"
    recording = heard.recording("cancelled")
    assert recording.was_cut
    assert recording.body.count(b"\n\n") >= 2
    assert all(request.headers["accept-encoding"] == "identity" for request in endpoint.asked)


@pytest.mark.parametrize("most", [1, 5])
async def test_no_more_requests_than_allowed(most: int) -> None:
    async with BrokenEndpoint(OPENAI) as endpoint:
        heard = await ask(endpoint.base_url, MODEL, KEY, Bounds(requests=most))
    assert len(endpoint.asked) == heard.sent == most
    assert [each.name for each in heard.heard] == NAMES[:most]
    assert heard.why_missing(NAMES[most]) == f"only {most} requests were allowed"


async def test_no_longer_than_allowed() -> None:
    async with BrokenEndpoint(OPENAI, _hang_from(2)) as endpoint:
        heard = await ask(endpoint.base_url, MODEL, KEY, Bounds(total_s=2.0))
    assert heard.of("plain").loss is None
    assert heard.of("buffered").loss is Loss.LATE
    assert heard.why_missing("unknown-model") == "the 2 s were over"


async def test_an_answer_that_is_too_large_is_left() -> None:
    async with BrokenEndpoint(OPENAI) as endpoint:
        heard = await ask(endpoint.base_url, MODEL, KEY, Bounds(requests=1, answer_bytes=1000))
    (only,) = heard.heard
    assert only.loss is Loss.LARGE
    assert only.recording is not None
    assert only.recording.was_cut
    assert len(only.recording.body) == 1000


async def test_where_nobody_listens() -> None:
    heard = await ask(f"http://127.0.0.1:{closed_port()}/v1", MODEL, KEY)
    (only,) = heard.heard
    assert (only.loss, only.recording) == (Loss.UNREACHABLE, None)
    assert not heard.has_answer
    assert heard.why_missing("plain") == "the first request was not answered well"


async def test_nothing_more_is_asked_where_the_key_is_wrong() -> None:
    async with BrokenEndpoint(OPENAI) as endpoint:
        heard = await ask(endpoint.base_url, MODEL, "sk-not-this-one")
    assert [each.recording.status for each in heard.heard if each.recording is not None] == [401]
    assert len(endpoint.asked) == 1
    assert not heard.has_answer


@pytest.mark.parametrize(
    ("complaint", "wanted"),
    [
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            {"max_completion_tokens", "seed"},
        ),
        ("temperature does not support 0 with this model", {"max_tokens", "seed"}),
        ("Unknown member: seed", {"max_tokens", "temperature"}),
    ],
)
async def test_asked_in_the_manner_that_the_model_wants(complaint: str, wanted: set[str]) -> None:
    """Whatever the refusal names is said otherwise, from then on."""

    def refuse(asked: Asked, play: Play) -> None:
        names = {"max_completion_tokens", "max_tokens", "temperature", "seed"} & asked.body.keys()
        if play.is_stream and not names <= wanted | ({"temperature"} if "temp" not in complaint else set()):
            play.status, play.frames = 400, []
            play.document = {"error": {"message": complaint, "type": "invalid_request_error"}}

    async with BrokenEndpoint(OPENAI, refuse) as endpoint:
        heard = await ask(endpoint.base_url, MODEL, KEY, Bounds(requests=4))
    assert [each.name for each in heard.heard] == NAMES[:3]
    assert heard.has_answer
    assert wanted <= endpoint.asked[-1].body.keys()
    assert heard.sent == 4, "the refused one counts"


async def test_a_manner_that_is_never_right() -> None:
    def refuse(_: Asked, play: Play) -> None:
        play.status, play.frames = 400, []
        play.document = {"error": {"message": "no: max_completion_tokens, temperature, seed", "type": "x"}}

    async with BrokenEndpoint(OPENAI, refuse) as endpoint:
        heard = await ask(endpoint.base_url, MODEL, KEY)
    assert len(heard.heard) == 1
    assert 1 < len(endpoint.asked) <= 4


def _told(change: Callable[[Play], None]) -> Defect:
    return lambda _, play: change(play)


async def test_the_key_is_in_no_recording() -> None:
    def tell(asked: Asked, play: Play) -> None:
        play.fields["x-you-are"] = asked.headers.get("authorization", "nobody")
        play.pieces = [*play.written(), b": " + asked.headers.get("authorization", "").encode() + b"\n"]

    async with BrokenEndpoint(OPENAI, tell) as endpoint:
        heard = await ask(endpoint.base_url, MODEL, KEY, Bounds(requests=3))
    for each in heard.heard:
        assert each.recording is not None
        assert each.has_leaked
        assert KEY.encode() not in each.recording.body
        assert KEY not in str(each.recording.headers)
        assert b"*" * len(KEY) in each.recording.body
    assert "Good5qP8" not in repr(heard.heard)


async def test_a_short_key_is_no_secret() -> None:
    async with BrokenEndpoint(OPENAI, _told(lambda play: play.fields.update(x="none"))) as endpoint:
        heard = await ask(endpoint.base_url, MODEL, "none", Bounds(requests=1))
    assert not heard.heard[0].has_leaked


async def test_an_endpoint_that_breaks_off_before_it_answers_is_asked_again_once() -> None:
    """A kept connection may be closed in the moment in which it is used."""

    def close(asked: Asked, play: Play) -> None:
        play.is_gone = asked.number in (1, 2)

    async with BrokenEndpoint(OPENAI, close) as endpoint:
        heard = await ask(endpoint.base_url, MODEL, KEY, Bounds(requests=5))
    assert [each.loss for each in heard.heard] == [None, Loss.CUT, None, None]
    assert heard.of("plain").recording is None


async def test_pieces_have_their_times() -> None:
    async with BrokenEndpoint(BITSEEK, pause_s=0.002) as endpoint:
        heard = await ask(endpoint.base_url, MODEL, KEY)
    recording = heard.recording("long")
    times = [piece.at_s for piece in recording.pieces]
    assert len(times) > 30
    assert times == sorted(times)
    assert recording.ended_s is not None
    assert 0 < times[0] < times[-1] <= recording.ended_s
    offsets = [piece.offset for piece in recording.pieces]
    assert offsets[0] == 0
    assert all(recording.body[at:].startswith(b"data: ") for at in offsets)


def _hang_from(number: int) -> Defect:
    def hang(asked: Asked, play: Play) -> None:
        if asked.number >= number:
            play.pause_s = 60.0

    return hang


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
async def test_an_answer_is_left_whatever_ends_its_lines(line_end: bytes) -> None:
    def end_lines(_: Asked, play: Play) -> None:
        play.pieces = [piece.replace(b"\n", line_end) for piece in play.written()] if play.is_stream else None

    async with BrokenEndpoint(OPENAI, end_lines) as endpoint:
        heard = await ask(endpoint.base_url, MODEL, KEY)
    assert heard.recording("cancelled").was_cut


async def test_a_check_can_be_cancelled() -> None:
    async with BrokenEndpoint(OPENAI, _hang_from(0)) as endpoint:
        asking = asyncio.create_task(ask(endpoint.base_url, MODEL, KEY))
        while not endpoint.asked:
            await asyncio.sleep(0.001)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
