"""Several calls as one: order, failures, and nothing left behind. The upstream inside does what the test says."""

import asyncio
from collections.abc import Mapping
from random import Random

import pytest

from streamweir.core.call_trace import CallTrace
from streamweir.core.errors import GatewayFault, StreamweirError, UpstreamError
from streamweir.providers.base import UpstreamRequest
from streamweir.upstream.base import Receiver
from streamweir.upstream.batch import BatchCall, BatchUpstream

OK: Mapping[str, str] = {"content-type": "application/json"}
BUSY = UpstreamError("upstream_rate_limited", "busy")


class Inner:
    """One call of the upstream inside, driven by the test."""

    is_refused = False

    def __init__(self, body: bytes, receiver: Receiver, log: list[str]) -> None:
        self.body, self.receiver, self._log = body, receiver, log
        self.resends = 1
        self.trace: CallTrace | None = CallTrace(address=body.decode())
        self.is_paused = False

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    def abort(self) -> None:
        self._log.append(f"abort {self.body.decode()}")

    def release(self) -> None:
        self._log.append(f"release {self.body.decode()}")

    def answer(self, data: bytes) -> None:
        self.receiver.head_received(200, OK)
        self.receiver.body_received(data)
        self.receiver.body_ended()


class Scripted:
    def __init__(self) -> None:
        self.calls: list[Inner] = []
        self.log: list[str] = []
        self.shares: list[float] = []
        self.failures: dict[bytes, Exception] = {}
        self.gate: asyncio.Event | None = None

    async def open(self, request: UpstreamRequest, receiver: Receiver, /) -> Inner:
        assert request.more == ()
        if self.gate is not None:
            await self.gate.wait()
        if request.body in self.failures:
            raise self.failures[request.body]
        self.calls.append(Inner(request.body, receiver, self.log))
        return self.calls[-1]

    async def close(self) -> None:
        self.log.append("close")


class Heard:
    def __init__(self) -> None:
        self.said: list[object] = []
        self.on_head: BatchCall | None = None
        """Aborted at the head, as a relay does that cannot read it."""

    def head_received(self, status: int, _: Mapping[str, str], /) -> None:
        self.said.append(status)
        if self.on_head is not None:
            self.on_head.abort()

    def body_received(self, data: bytes, /) -> None:
        self.said.append(data)

    def body_ended(self) -> None:
        self.said.append("end")

    def call_failed(self, error: StreamweirError, /) -> None:
        self.said.append(error)

    @property
    def body(self) -> bytes:
        return b"".join(each for each in self.said if isinstance(each, bytes))


async def begun(bodies: bytes, parallel: int, count_header: str | None = None) -> tuple[Scripted, Heard, BatchCall]:
    inside, heard = Scripted(), Heard()
    outside = BatchUpstream(
        inside,
        lambda status, _, body: UpstreamError("upstream_server_error", f"{status} {body!r}"),
        inside.shares.append,
    )
    first, *more = [bytes([each]) for each in bodies]
    request = UpstreamRequest(
        path="/p", headers=(), body=first, more=tuple(more), parallel=parallel, count_header=count_header
    )
    call = await outside.open(request, heard)
    await turns()
    await outside.close()
    assert "close" not in inside.log, "the connections are not its own"
    return inside, heard, call


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_one_after_the_other() -> None:
    inside, heard, call = await begun(b"abc", 1)
    for number, data in enumerate((b"1", b"2", b"3")):
        assert len(inside.calls) == number + 1
        inside.calls[number].answer(data)
        await turns()
    assert heard.said[0] == 200
    assert (heard.body, heard.said[-1]) == (b'{"parts":[1,2,3]}', "end")
    assert (call.resends, inside.log) == (3, ["release a", "release b", "release c"])
    call.release()
    assert len(inside.log) == 3
    assert inside.shares == [0.0, pytest.approx(1 / 3), pytest.approx(2 / 3), 1.0]


async def test_numbers_in_a_header_are_written_into_the_document() -> None:
    inside, heard, _ = await begun(b"abcde", 5, "x-count")
    for call, count in zip(inside.calls, ("3", "0", "", "1e3", "007"), strict=True):
        call.receiver.head_received(200, {"x-count": count} if count else {})
        call.receiver.body_received(b"{}")
        call.receiver.body_ended()
    assert (heard.body, heard.said[-1]) == (b'{"parts":[{},{},{},{},{}],"counts":[3,0,null,null,null]}', "end")
    inside, heard, _ = await begun(b"a", 1, "x-count")
    inside.calls[0].receiver.head_received(429, {"x-count": "3"})
    inside.calls[0].receiver.body_received(b"no")
    inside.calls[0].receiver.body_ended()
    assert heard.said == [429, b"no", "end"], "a refusal stays as it is"


async def test_answers_out_of_order_wait_for_their_turn() -> None:
    inside, heard, _ = await begun(b"abcd", 3)
    assert [call.body for call in inside.calls] == [b"a", b"b", b"c"]
    inside.calls[2].answer(b"3")
    await turns()
    assert heard.said == []
    assert len(inside.calls) == 4
    inside.calls[3].answer(b"4")
    inside.calls[0].answer(b"1")
    assert heard.body == b'{"parts":[1,'
    inside.calls[1].answer(b"2")
    assert (heard.body, heard.said[-1]) == (b'{"parts":[1,2,3,4]}', "end")


async def test_what_waits_is_bounded() -> None:
    inside, heard, call = await begun(b"ab", 2)
    late = inside.calls[1]
    late.receiver.head_received(200, OK)
    late.receiver.body_received(b"x" * 1_048_577)
    assert late.is_paused
    call.pause()
    call.resume()
    assert late.is_paused, "its turn has not come"
    call.pause()
    inside.calls[0].answer(b"1")
    await turns()
    assert late.is_paused, "the receiver does not read"
    call.resume()
    assert not late.is_paused
    late.receiver.body_ended()
    assert heard.said[-1] == "end"


async def test_a_call_that_is_opened_while_paused_is_paused() -> None:
    inside, _, call = await begun(b"ab", 1)
    call.pause()
    inside.calls[0].answer(b"1")
    await turns()
    assert inside.calls[1].is_paused
    call.abort()


async def test_its_turn_resumes_it() -> None:
    inside, _, call = await begun(b"ab", 2)
    late = inside.calls[1]
    late.receiver.head_received(200, OK)
    late.receiver.body_received(b"x" * 1_048_577)
    inside.calls[0].answer(b"1")
    await turns()
    assert not late.is_paused
    call.abort()


async def test_the_refusal_of_the_first_is_passed_on() -> None:
    inside, heard, _ = await begun(b"ab", 2)
    inside.calls[0].receiver.head_received(429, OK)
    inside.calls[0].receiver.body_received(b"no")
    inside.calls[0].receiver.body_ended()
    assert heard.said == [429, b"no", "end"]
    assert inside.log == ["release a", "abort b"]


@pytest.mark.parametrize("size", [3, 70_000])
async def test_the_refusal_of_another_is_a_failure(size: int) -> None:
    inside, heard, _ = await begun(b"ab", 2)
    receiver = inside.calls[1].receiver
    receiver.head_received(503, OK)
    receiver.body_received(b"x" * size)
    if size == 3:
        receiver.body_ended()
    shown = "b'xxx'" if size == 3 else "b''"
    assert heard.said == [UpstreamError("upstream_server_error", f"503 {shown}")]
    assert sorted(inside.log) == ["abort a", "abort b"]


async def test_a_reset_ends_all() -> None:
    inside, heard, _ = await begun(b"abc", 2)
    inside.calls[1].receiver.call_failed(BUSY)
    await turns()
    assert heard.said == [BUSY]
    assert (len(inside.calls), sorted(inside.log)) == (2, ["abort a", "abort b"])


async def test_the_first_that_cannot_be_opened_raises() -> None:
    inside, heard = Scripted(), Heard()
    inside.failures[b"a"] = BUSY
    request = UpstreamRequest(path="/p", headers=(), body=b"a", more=(b"b",), parallel=4)
    with pytest.raises(UpstreamError):
        await BatchUpstream(inside, lambda *_: BUSY, inside.shares.append).open(request, heard)
    await turns()
    assert (heard.said, inside.calls) == ([], [])


async def test_another_that_cannot_be_opened_fails_all() -> None:
    inside, heard, _ = await begun(b"ab", 1)
    inside.failures[b"b"] = BUSY
    inside.calls[0].answer(b"1")
    await turns()
    assert heard.said[-1] == BUSY
    assert "end" not in heard.said


async def test_a_bug_while_opening_is_reported_and_fails_all() -> None:
    inside, heard, _ = await begun(b"ab", 1)
    inside.failures[b"b"] = ZeroDivisionError("a bug")
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
    inside.calls[0].answer(b"1")
    await turns()
    assert isinstance(heard.said[-1], GatewayFault)
    assert [repr(each) for each in reported] == ["ZeroDivisionError('a bug')"]


async def test_an_abort_while_a_call_is_being_opened_leaves_nothing() -> None:
    inside, heard, call = await begun(b"ab", 1)
    inside.gate = asyncio.Event()
    inside.calls[0].answer(b"1")
    await turns()
    said = list(heard.said)
    call.abort()
    inside.gate.set()
    await turns()
    assert (len(inside.calls), heard.said) == (1, said)


async def test_an_abort_from_inside_a_callback() -> None:
    inside, heard, call = await begun(b"ab", 2)
    heard.on_head = call
    inside.calls[0].receiver.head_received(200, OK)
    assert heard.said == [200]
    assert sorted(inside.log) == ["abort a", "abort b"]


@pytest.mark.parametrize("seed", range(8))
async def test_whatever_the_order_of_the_pieces_the_answer_is_the_same(seed: int) -> None:
    """Calls answer in any order, in any pieces, while the receiver pauses and resumes at random."""
    chance = Random(seed)
    count, parallel = chance.randrange(2, 9), chance.randrange(1, 5)
    inside, heard, call = await begun(bytes(range(97, 97 + count)), parallel)
    answers = [str(number).encode() * chance.randrange(1, 6) for number in range(count)]
    left = {number: list(answers[number]) for number in range(count)}
    has_head: set[int] = set()
    while left:
        await turns()
        assert sum(each in left for each in range(len(inside.calls))) <= parallel
        number = chance.choice([each for each in range(len(inside.calls)) if each in left])
        receiver = inside.calls[number].receiver
        if number not in has_head:
            has_head.add(number)
            receiver.head_received(200, OK)
        elif left[number]:
            receiver.body_received(bytes([left[number].pop(0)]))
        else:
            del left[number]
            receiver.body_ended()
        if chance.random() < 0.2:
            call.pause()
            call.resume()
    assert heard.body == b'{"parts":[' + b",".join(answers) + b"]}"
    assert [each for each in heard.said if not isinstance(each, bytes)] == [200, "end"]
    assert inside.shares[-1] == 1.0


async def test_the_trace_is_that_of_the_call_that_failed_else_of_the_last() -> None:
    inside, _, call = await begun(b"abc", 3)
    assert call.trace == CallTrace(address="c")
    inside.calls[1].receiver.call_failed(BUSY)
    assert call.trace == CallTrace(address="b")
    inside, heard, call = await begun(b"ab", 1)
    inside.calls[0].answer(b"1")
    await turns()
    inside.calls[1].receiver.head_received(503, {"x-request-id": "of-b"})
    inside.calls[1].receiver.body_ended()
    assert call.trace == CallTrace(address="b")
    error = heard.said[-1]
    assert isinstance(error, UpstreamError)
    assert error.report is not None
    assert (error.report.status, error.report.request_id) == (503, "of-b")
