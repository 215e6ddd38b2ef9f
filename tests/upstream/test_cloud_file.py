"""Files with credentials on a file system that hangs: who waits for them, and who does not."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from threading import Event, Thread

import pytest

from streamweir.core.errors import GatewayFault, UpstreamError
from streamweir.upstream.cloud.file import FileFault, FileReads
from support.deadlines import WAIT_TIMEOUT_S

ENDS_WHILE_IT_READS = """
import asyncio, threading
from streamweir.upstream.cloud.file import FileReads

async def main():
    reads, began = FileReads(), threading.Event()
    def read():
        began.set()
        threading.Event().wait()
    reading = asyncio.ensure_future(reads.run(read))
    await asyncio.to_thread(began.wait)
    reading.cancel()

asyncio.run(main())
print("ended")
"""


def waiting_for(event: Event, then: Callable[[], str]) -> Callable[[], str]:
    def read() -> str:
        event.wait()
        return then()

    return read


async def test_a_file_system_that_hangs_keeps_one_thread() -> None:
    reads, back = FileReads(), Event()
    first = asyncio.ensure_future(reads.run(waiting_for(back, str)))
    await asyncio.sleep(0)
    first.cancel()
    for _ in range(3):
        with pytest.raises(UpstreamError) as caught:
            await reads.run(str)
        assert caught.value.code == "upstream_timeout"
    back.set()
    async with asyncio.timeout(WAIT_TIMEOUT_S):
        while True:  # it is read again once the thread is free
            try:
                assert await reads.run(lambda: "read") == "read"
                break
            except UpstreamError:
                await asyncio.sleep(0)


async def test_what_reading_raises_is_raised_where_it_is_waited_for() -> None:
    def read() -> str:
        raise FileFault("it is not a file")

    reads = FileReads()
    for _ in range(2):
        with pytest.raises(FileFault, match="it is not a file"):
            await reads.run(read)


async def test_a_machine_without_a_thread_left_reads_it_when_there_is_one_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    reads = FileReads()
    with monkeypatch.context() as full:
        full.setattr(Thread, "start", refuse)
        for _ in range(2):
            with pytest.raises(GatewayFault) as caught:
                await reads.run(str)
            assert caught.value.code == "overloaded"
    assert await reads.run(lambda: "read") == "read"


def test_the_end_of_the_process_does_not_wait_for_a_file() -> None:
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-c", ENDS_WHILE_IT_READS], capture_output=True, text=True, timeout=WAIT_TIMEOUT_S, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ended\n", "")
