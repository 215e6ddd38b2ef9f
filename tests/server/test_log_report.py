"""The log includes the standard library's messages and uncaught exceptions."""

import asyncio
import gc
import json
import logging
import sys
import threading
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest

from streamweir.server.telemetry.log import close_log, configure_log, watch_loop


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_log()


def lines_of(stream: StringIO) -> list[dict[str, Any]]:
    assert close_log()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_the_standard_librarys_log_is_included() -> None:
    stream = StringIO()
    configure_log("json", stream)
    logging.getLogger("asyncio").warning("socket %s", "went")
    broken = logging.makeLogRecord({"name": "some.library", "levelno": 40, "msg": "broken %d", "args": ("format",)})
    logging.getLogger().handlers[-1].handle(broken)
    logging.getLogger("some.library").info("not of interest")
    close_log()
    logging.getLogger("asyncio").warning("after the end")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["level"], first["event"], first["source"]) == ("warning", "socket went", "asyncio")
    assert (second["level"], second["event"]) == ("error", "broken %d")


async def test_exceptions_that_the_loop_reports_are_logged_without_the_tasks_repr() -> None:
    stream = StringIO()
    configure_log("json", stream)
    loop = asyncio.get_running_loop()
    watch_loop(loop)

    async def fail(_prompt: str) -> None:
        raise LookupError("lost")

    task = loop.create_task(fail("tell me a secret"))
    await asyncio.wait({task})
    del task
    gc.collect()
    (event,) = lines_of(stream)
    assert event["event"] == "Task exception was never retrieved"
    assert "LookupError: lost" in event["exception"]
    assert "coro" not in json.dumps(event)


def test_uncaught_exceptions_are_logged() -> None:
    stream = StringIO()
    before = sys.excepthook, threading.excepthook, sys.unraisablehook
    configure_log("json", stream)

    class Bad:
        def __del__(self) -> None:
            raise OSError("in del")

    def fail() -> None:
        raise LookupError("in thread")

    Bad()
    thread = threading.Thread(target=fail, name="worker-thread")
    thread.start()
    thread.join()
    error = KeyError("in main")
    sys.excepthook(KeyError, error, None)
    events = lines_of(stream)
    assert [event["event"] for event in events] == [
        "exception ignored",
        "uncaught exception in a thread",
        "uncaught exception",
    ]
    assert [event["exception"].splitlines()[-1] for event in events] == [
        "OSError: in del",
        "LookupError: in thread",
        "KeyError: 'in main'",
    ]
    assert events[1]["thread"] == "worker-thread"
    assert (sys.excepthook, threading.excepthook, sys.unraisablehook) == before
