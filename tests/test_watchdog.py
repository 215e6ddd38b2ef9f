"""The watchdog of the event loop: it must see what holds the loop, and must not see anything else."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import support.watchdog
from support.deadlines import WAIT_TIMEOUT_S
from support.watchdog import CallbackStuck, Watchdog, WatchedLoop, watched_loop

TESTS = Path(__file__).parent


@pytest.fixture
def dog(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watchdog]:
    """One of its own, for which the code of this file is the gateway's."""
    dog = Watchdog()
    monkeypatch.setattr(support.watchdog, "WATCHDOG", dog)
    monkeypatch.setattr(support.watchdog, "OURS", str(TESTS))
    monkeypatch.setattr(support.watchdog, "REFERENCE_S", 1.0)  # the machine is never slower than that
    yield dog
    assert not dog.found


def run(main: Callable[[], Coroutine[Any, Any, object]]) -> None:
    with asyncio.Runner(loop_factory=watched_loop) as runner:
        runner.run(main())


def burn(seconds: float = 0.2) -> None:
    """Computes for so long, however busy the machine is."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def test_every_test_runs_in_a_watched_loop() -> None:
    assert isinstance(asyncio.get_running_loop(), WatchedLoop)


def test_a_step_of_a_task_that_computes_too_long_is_found_with_its_stack(dog: Watchdog) -> None:
    async def main() -> None:
        await asyncio.sleep(0)
        burn_until_seen()

    def burn_until_seen() -> None:
        """The second thread may come late on a busy machine."""
        burn()
        while dog._runs[threading.get_ident()].stack is None:
            pass

    run(main)
    (found,) = dog.take()
    assert found.startswith("a step of the task test_a_step_of_a_task")
    assert "in burn" in found


@pytest.mark.parametrize("schedule", ["call_soon", "call_later", "call_at", "call_soon_threadsafe"])
def test_a_callback_that_computes_too_long_is_found(dog: Watchdog, schedule: str) -> None:
    async def main() -> None:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        when = {"call_later": (0.001,), "call_at": (loop.time(),)}.get(schedule, ())
        getattr(loop, schedule)(*when, burn)
        getattr(loop, schedule)(*when, over.set)
        await over.wait()

    run(main)
    (found,) = dog.take()
    assert found.startswith("tests.test_watchdog.burn held the event loop")


def test_a_protocol_that_computes_too_long_is_found(dog: Watchdog) -> None:
    class Reader(asyncio.Protocol):
        def data_received(self, _: bytes) -> None:
            burn()

        def eof_received(self) -> None:
            over.set()

    Reader.__module__ = "streamweir.pretended"

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Reader, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"x")
        writer.write_eof()
        await over.wait()
        writer.close()
        server.close()

    over = asyncio.Event()
    run(main)
    (found,) = dog.take()
    assert "Reader.data_received held the event loop" in found


def test_time_on_the_wall_is_not_counted(dog: Watchdog) -> None:  # noqa: ARG001 (it asserts that nothing is found)
    async def main() -> None:
        subprocess.run([sys.executable, "-c", "import time; time.sleep(0.3)"], check=True)

    run(main)


def test_the_garbage_collector_is_not_counted(dog: Watchdog, monkeypatch: pytest.MonkeyPatch) -> None:
    def collecting(phase: str, _: object) -> None:
        if phase == "stop":
            burn()

    async def main() -> None:
        monkeypatch.setattr(gc, "callbacks", [collecting])  # before the watchdog's own: within what it leaves out
        gc.callbacks.insert(0, dog._collecting)
        gc.callbacks.append(dog._collecting)
        gc.collect()

    run(main)


def test_a_slower_machine_has_a_higher_limit(dog: Watchdog, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    async def main() -> None:
        burn()

    monkeypatch.setattr(support.watchdog, "REFERENCE_S", 1e-6)
    run(main)


def test_a_test_may_compute_in_the_loop_of_its_gateway(dog: Watchdog, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    async def main() -> None:
        burn()

    monkeypatch.setattr(support.watchdog, "OURS", "/nowhere")
    run(main)


def test_nothing_is_kept_of_what_ran(dog: Watchdog) -> None:  # noqa: ARG001 (it asserts that nothing is found)
    """A test may count what is left of a connection; the second thread has looked at it meanwhile."""

    class Thing:
        def work(self) -> None:
            burn(0.03)

    def work() -> "weakref.ref[Thing]":
        thing = Thing()

        async def main() -> None:
            asyncio.get_running_loop().call_soon(thing.work)
            await asyncio.sleep(0)

        run(main)
        return weakref.ref(thing)

    left = work()
    gc.collect()
    ends = time.monotonic() + WAIT_TIMEOUT_S
    while left() is not None:
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_a_callback_that_never_ends_is_ended(dog: Watchdog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support.watchdog, "STUCK_S", 0.2)

    async def main() -> None:
        while True:
            pass

    with pytest.raises(CallbackStuck):
        run(main)
    assert "while True" in "".join(dog.take())


def test_the_test_that_held_the_loop_fails_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest, time, support.watchdog as watchdog\n\n"
        "watchdog.OURS, watchdog.REFERENCE_S = __file__, 1.0\n\n"
        "async def test_long() -> None:\n"
        "    end = time.thread_time() + 0.2\n"
        "    while time.thread_time() < end:\n"
        "        pass\n\n"
        "async def test_short() -> None: ...\n\n"
        "@pytest.mark.long_callback('why')\n"
        "async def test_excepted() -> None:\n"
        "    await test_long()\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\nmarkers = long_callback: excepted\n")
    options = ("-q", "-p", "support.watchdog_plugin", "-p", "no:cacheprovider")
    ended = subprocess.run(  # noqa: S603 (our own)
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert "1 failed, 2 passed" in ended.stdout, ended.stdout + ended.stderr
    assert "a step of the task test_long held the event loop" in ended.stdout
