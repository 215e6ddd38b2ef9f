"""A log that is not read: docs/spec/failures.md G24. Requests continue; lines that do not fit are counted."""

import json
import os
import threading
from functools import partial

import pytest

from streamweir.server.telemetry.log import close_log, configure_log, dropped_lines
from streamweir.server.telemetry.sink import Sink
from support.gateway import KEY, gateway, until
from support.serve_process import get

ROOM = 16 * 1024


async def test_g24_a_blocked_sink_costs_lines_and_no_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamweir.server.telemetry.log.Sink", partial(Sink, max_bytes=ROOM, linger_s=0.0))
    reading, writing = os.pipe()
    log = os.fdopen(writing, "w")
    configure_log("json", log)
    before, asked = dropped_lines(), 0
    try:
        async with gateway('[[providers]]\nname = "sim"\nkind = "sim"\n') as gate, await gate.connect() as client:
            while dropped_lines() < before + 50:  # the pipe is full, and so is the sink
                await client.send(get("/v1/models", KEY))
                assert (await client.response()).status == 200
                asked += 1
            assert (await gate.ask(model="sim/hello", stream=True)).status == 200
            asked += 1
            await client.send(get("/metrics"))
            told = (await client.response()).body.decode()
            dropped = dropped_lines() - before
            assert f"streamweir_log_lines_dropped_total {float(dropped_lines())}" in told.splitlines()
            await gate.settled(asked)

            lines: list[str] = []
            reader = threading.Thread(target=_read, args=(reading, lines))
            reader.start()
            await until(lambda: any('"log lines dropped"' in line for line in lines))
            assert (await gate.ask(model="sim/hello", stream=True)).status == 200
    finally:
        close_log()
        log.close()
    reader.join()
    events = [json.loads(line) for line in lines]
    (report,) = [event for event in events if event["event"] == "log lines dropped"]
    assert report["count"] == dropped
    assert len([event for event in events if event["event"] == "request"]) == asked - dropped + 1


def _read(number: int, lines: list[str]) -> None:
    with os.fdopen(number) as pipe:
        lines.extend(pipe)
