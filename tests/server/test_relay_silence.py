"""When an attempt ends whose choices have all finished, to the exact time: with a clock that the test sets."""

import asyncio

import pytest

from streamweir.core.verdict import Verdict
from streamweir.pipeline.plan import Mode
from streamweir.providers.base import Target, UpstreamRequest
from streamweir.providers.registry import provider_named
from streamweir.upstream.base import Receiver
from support.answers import TEXTS, openai_frames
from support.attempt import chat_of, prepared, texts_of
from support.deadlines import WAIT_TIMEOUT_S

ROLE, *TEXT, FINISH, USAGE, DONE = openai_frames()
COMMENT = b": ping\n\n"
TIMEOUTS = {"idle_s": 3.0, "silence_s": 2.0, "keepalive_s": 100.0, "total_at": 1000.0}


class QuietUpstream:
    """An upstream and its call: the test says what comes."""

    resends = 0
    is_refused = False
    trace = None

    async def open(self, _request: UpstreamRequest, _receiver: Receiver, /) -> "QuietUpstream":
        return self

    async def close(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def abort(self) -> None: ...

    def release(self) -> None: ...


LAST_READS = {
    "the finish alone": [(0.0, ROLE + TEXT[0]), (0.3, b"".join(TEXT[1:])), (0.5, FINISH)],
    "text and finish in one read": [(0.0, ROLE + TEXT[0]), (0.5, b"".join(TEXT[1:]) + FINISH)],
    "everything in the first read": [(0.5, b"".join([ROLE, *TEXT, FINISH]))],
    "the usage behind it": [(0.0, ROLE + b"".join(TEXT)), (0.2, FINISH), (0.5, USAGE)],
    "no text at all": [(0.0, ROLE), (0.5, FINISH)],
}


@pytest.mark.parametrize("reads", LAST_READS.values(), ids=LAST_READS)
@pytest.mark.parametrize("comments", [(), (0.6, 1.9, 2.0, 2.4), (1.7,)], ids=str)
@pytest.mark.parametrize("comment", [COMMENT, b"\n"], ids=["comment", "blank line"])
@pytest.mark.parametrize("mode", [Mode.PASS, Mode.TRANSLATE])
async def test_a_finished_stream_ends_silence_s_after_its_last_event(
    reads: list[tuple[float, bytes]], comments: tuple[float, ...], comment: bytes, mode: Mode
) -> None:
    """docs/spec/quirks.md Q45: neither the timer's interval nor comments make it later."""
    run = prepared(mode=mode, timeouts=TIMEOUTS)
    relay, begun_at = run.relay, run.relay._time()
    now = begun_at
    relay._time = lambda: now
    request = provider_named("openai").build_request(chat_of("openai", True), Target(model="m"))
    run.task = asyncio.get_running_loop().create_task(relay.run(QuietUpstream(), request))
    await asyncio.sleep(0)
    relay.head_received(200, {"content-type": "text/event-stream"})
    due = [(at, data) for at, data in [*reads, *((at, comment) for at in comments)]]
    for _ in range(100):
        timer_at = relay._timer.due - begun_at
        if due and due[0][0] <= timer_at:
            at, data = due.pop(0)
            now = begun_at + at
            relay.body_received(data)
        else:
            now = begun_at + timer_at
            relay._timer.fire()
        if relay.is_over:
            break
    assert now - begun_at == pytest.approx(2.5, abs=0.1)
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        await run.task
    run.watch.timers.stop()
    assert texts_of(run.documents) == ("".join(TEXTS) if TEXT[0] in b"".join(data for _, data in reads) else "")
    assert run.documents[-1] == "[DONE]"
    assert run.meter.settle().verdict is Verdict.COMPLETED
