"""How an endpoint is asked: at which address, in which manner, within which bounds, and with its key kept."""

import asyncio
from collections.abc import Callable

import pytest

from streamweir.conformance.plan import RequestOptions, plan
from streamweir.conformance.probe import InvalidAddress, ProbeLimits, find_endpoint
from streamweir.conformance.probe_session import FailureKind
from support.broken_endpoint import KEY, MODEL, BrokenEndpoint, Defect, ReceivedRequest, ScriptedResponse
from support.conformance_check import run_probe
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
    assert find_endpoint("https://host/v1?key=secret").shown_url == "https://host/v1/chat/completions"


@pytest.mark.parametrize(
    "text", ["host/v1", "ftp://host/v1", "http://", "http://me:pw@host/v1", "http://host:99999999"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(InvalidAddress) as refused:
        find_endpoint(text)
    assert "pw" not in str(refused.value)


async def test_all_is_asked_in_order_over_one_connection() -> None:
    async with BrokenEndpoint(OPENAI) as endpoint:
        session = await run_probe(endpoint.base_url, MODEL, KEY)
    assert [each.name for each in session.exchanges] == NAMES
    assert session.request_count == len(NAMES) == len(endpoint.requests)
    assert all(each.failure_kind is None for each in session.exchanges)
    cancelled = NAMES.index("cancelled")
    assert {each.connection for each in session.exchanges[: cancelled + 1]} == {0}
    assert {each.connection for each in session.exchanges[cancelled + 1 :]} == {1}, "the one that was left is closed"
    recording = session.recording("cancelled")
    assert recording.was_cut
    assert recording.body.count(b"\n\n") >= 2
    assert all(request.headers["accept-encoding"] == "identity" for request in endpoint.requests)


@pytest.mark.parametrize("count", [1, 5])
async def test_no_more_requests_than_allowed(count: int) -> None:
    async with BrokenEndpoint(OPENAI) as endpoint:
        session = await run_probe(endpoint.base_url, MODEL, KEY, ProbeLimits(requests=count))
    assert len(endpoint.requests) == session.request_count == count
    assert [each.name for each in session.exchanges] == NAMES[:count]
    assert session.why_missing(NAMES[count]) == f"only {count} requests were allowed"


async def test_no_longer_than_allowed() -> None:
    async with BrokenEndpoint(OPENAI, _hang_from(2)) as endpoint:
        session = await run_probe(endpoint.base_url, MODEL, KEY, ProbeLimits(total_s=2.0))
    assert session.exchange("plain").failure_kind is None
    assert session.exchange("buffered").failure_kind is FailureKind.TIMED_OUT
    assert session.why_missing("unknown-model") == "the 2 s were over"


async def test_an_answer_that_is_too_large_is_left() -> None:
    async with BrokenEndpoint(OPENAI) as endpoint:
        session = await run_probe(endpoint.base_url, MODEL, KEY, ProbeLimits(requests=1, answer_bytes=1000))
    (only,) = session.exchanges
    assert only.failure_kind is FailureKind.TOO_LARGE
    assert only.recording is not None
    assert only.recording.was_cut
    assert len(only.recording.body) == 1000


async def test_where_nothing_listens() -> None:
    session = await run_probe(f"http://127.0.0.1:{closed_port()}/v1", MODEL, KEY)
    (only,) = session.exchanges
    assert (only.failure_kind, only.recording) == (FailureKind.UNREACHABLE, None)
    assert not session.has_answer
    assert session.why_missing("plain") == "the first request was not answered well"


async def test_nothing_more_is_asked_where_the_key_is_wrong() -> None:
    async with BrokenEndpoint(OPENAI) as endpoint:
        session = await run_probe(endpoint.base_url, MODEL, "sk-not-this-one")
    assert [each.recording.status for each in session.exchanges if each.recording is not None] == [401]
    assert len(endpoint.requests) == 1
    assert not session.has_answer


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            {"max_completion_tokens", "seed"},
        ),
        ("temperature does not support 0 with this model", {"max_tokens", "seed"}),
        ("Unknown member: seed", {"max_tokens", "temperature"}),
    ],
)
async def test_asked_in_the_manner_that_the_model_wants(message: str, wanted: set[str]) -> None:
    """Whatever the refusal names is said otherwise, from then on."""

    def refuse(request: ReceivedRequest, response: ScriptedResponse) -> None:
        names = {"max_completion_tokens", "max_tokens", "temperature", "seed"} & request.body.keys()
        if response.is_stream and not names <= wanted | ({"temperature"} if "temp" not in message else set()):
            response.status, response.frames = 400, []
            response.document = {"error": {"message": message, "type": "invalid_request_error"}}

    async with BrokenEndpoint(OPENAI, refuse) as endpoint:
        session = await run_probe(endpoint.base_url, MODEL, KEY, ProbeLimits(requests=4))
    assert [each.name for each in session.exchanges] == NAMES[:3]
    assert session.has_answer
    assert wanted <= endpoint.requests[-1].body.keys()
    assert session.request_count == 4, "the refused one counts"


async def test_a_manner_that_is_never_right() -> None:
    def refuse(_: ReceivedRequest, response: ScriptedResponse) -> None:
        response.status, response.frames = 400, []
        response.document = {"error": {"message": "no: max_completion_tokens, temperature, seed", "type": "x"}}

    async with BrokenEndpoint(OPENAI, refuse) as endpoint:
        session = await run_probe(endpoint.base_url, MODEL, KEY)
    assert len(session.exchanges) == 1
    assert 1 < len(endpoint.requests) <= 4


def _with_change(change: Callable[[ScriptedResponse], None]) -> Defect:
    return lambda _, response: change(response)


async def test_the_key_is_in_no_recording() -> None:
    def repeat_key(request: ReceivedRequest, response: ScriptedResponse) -> None:
        response.fields["x-you-are"] = request.headers.get("authorization", "nobody")
        response.pieces = [*response.written(), b": " + request.headers.get("authorization", "").encode() + b"\n"]

    async with BrokenEndpoint(OPENAI, repeat_key) as endpoint:
        session = await run_probe(endpoint.base_url, MODEL, KEY, ProbeLimits(requests=3))
    for each in session.exchanges:
        assert each.recording is not None
        assert each.leaked_key
        assert KEY.encode() not in each.recording.body
        assert KEY not in str(each.recording.headers)
        assert b"*" * len(KEY) in each.recording.body
    assert "Good5qP8" not in repr(session.exchanges)


async def test_a_short_key_is_no_secret() -> None:
    async with BrokenEndpoint(OPENAI, _with_change(lambda response: response.fields.update(x="none"))) as endpoint:
        session = await run_probe(endpoint.base_url, MODEL, "none", ProbeLimits(requests=1))
    assert not session.exchanges[0].leaked_key


async def test_an_endpoint_that_breaks_off_before_it_answers_is_asked_again_once() -> None:
    """A kept connection may be closed in the moment in which it is used."""

    def close(request: ReceivedRequest, response: ScriptedResponse) -> None:
        response.is_gone = request.number in (1, 2)

    async with BrokenEndpoint(OPENAI, close) as endpoint:
        session = await run_probe(endpoint.base_url, MODEL, KEY, ProbeLimits(requests=5))
    assert [each.failure_kind for each in session.exchanges] == [None, FailureKind.CUT, None, None]
    assert session.exchange("plain").recording is None


async def test_pieces_have_their_times() -> None:
    async with BrokenEndpoint(BITSEEK, pause_s=0.002) as endpoint:
        session = await run_probe(endpoint.base_url, MODEL, KEY)
    recording = session.recording("long")
    times = [piece.at_s for piece in recording.pieces]
    assert len(times) > 30
    assert times == sorted(times)
    assert recording.ended_s is not None
    assert 0 < times[0] < times[-1] <= recording.ended_s
    offsets = [piece.offset for piece in recording.pieces]
    assert offsets[0] == 0
    assert all(recording.body[at:].startswith(b"data: ") for at in offsets)


def _hang_from(number: int) -> Defect:
    def hang(request: ReceivedRequest, response: ScriptedResponse) -> None:
        if request.number >= number:
            response.pause_s = 60.0

    return hang


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
async def test_an_answer_is_cancelled_with_any_line_ends(line_end: bytes) -> None:
    def end_lines(_: ReceivedRequest, response: ScriptedResponse) -> None:
        response.pieces = (
            [piece.replace(b"\n", line_end) for piece in response.written()] if response.is_stream else None
        )

    async with BrokenEndpoint(OPENAI, end_lines) as endpoint:
        session = await run_probe(endpoint.base_url, MODEL, KEY)
    assert session.recording("cancelled").was_cut


async def test_a_check_can_be_cancelled() -> None:
    async with BrokenEndpoint(OPENAI, _hang_from(0)) as endpoint:
        asking = asyncio.create_task(run_probe(endpoint.base_url, MODEL, KEY))
        while not endpoint.requests:
            await asyncio.sleep(0.001)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
