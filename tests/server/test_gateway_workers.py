"""Several workers behind one address, as the program starts them: docs/spec/failures.md G4, and `/metrics` over all.

What a supervisor does is held by `test_supervisor` with tiny workers; here the workers are gateways.
"""

import asyncio
import os
import signal
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streamweir.server.process.run_file import running_on
from support.answers import TEXTS
from support.gateway import KEY, chat_request, frames_of, text_of
from support.raw_client import CutShort
from support.script import End, Head, Send, Step, Wait
from support.serve_process import BEGUN, REST, Program, begin, get, served_before, spread

EACH = 3


async def metrics(program: Program) -> dict[str, float]:
    """Without the labels: the sum over them."""
    reply = await program.answer(get("/metrics", KEY))
    assert reply.status == 200
    sums: dict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(reply.body.decode()):
        for sample in family.samples:
            sums[sample.name] += sample.value
    return sums


async def test_g4_a_worker_that_dies_takes_only_its_own_streams_with_it(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    script: list[Step] = [Head(), Send(BEGUN), Wait(go_on), Send(REST), End()]
    async with (
        served_before(script, tmp_path, "", "--workers", "2") as (program, up),
        AsyncExitStack() as stack,
    ):
        pids = {number: (await program.logged("worker serves", number=number))["pid"] for number in (0, 1)}
        (running,) = running_on(tmp_path / "data", os.geteuid())
        assert (running.file.pid, running.file.workers) == (program.pid, 2)
        callers = await spread(stack, program, EACH)
        streams = {number: [await begin(client) for client in callers[number]] for number in callers}
        before = await metrics(program)
        assert (before["streamweir_workers"], before["streamweir_open_streams"]) == (2, 2 * EACH)

        os.kill(pids[0], signal.SIGKILL)
        for stream in streams[0]:
            with pytest.raises((CutShort, ConnectionError)):
                await stream.rest()
        await up.aborted(EACH)
        assert (await program.logged("worker ended", number=0))["signal"] == "SIGKILL"
        assert (await program.answer(get("/health"))).status == 200, "while the place is still empty, perhaps"
        assert (await program.logged("worker serves", number=0))["pid"] not in pids.values()

        go_on.set()
        for stream in streams[1]:
            reply = await stream.rest()
            assert text_of(reply.body) == "".join(TEXTS)
            assert frames_of(reply.body)[-1] == "[DONE]"
        again = await spread(stack, program, EACH)
        for client in (again[0][0], again[1][0]):
            await client.send(chat_request(model="up/m", stream=True))
            assert text_of((await client.response()).body) == "".join(TEXTS)
        after = await metrics(program)
        assert (after["streamweir_workers"], after["streamweir_open_streams"]) == (2, 0)
        assert after["streamweir_worker_restarts_total"] == 1
        assert after["streamweir_time_to_first_token_seconds_count"] == EACH + 2, "over both workers"
        program.signal(signal.SIGTERM)
        assert await program.status() == 0
