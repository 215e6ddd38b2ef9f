"""A background task that ends unasked is reported and started again, more slowly each time; its failing shows."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from streamweir.background import BackgroundTasks, Backoff, TaskEnd

QUICK = Backoff(first_s=0.0)
NEVER_HEALTHY = Backoff(first_s=0.0, healthy_s=3600.0)


class Watched:
    """Tasks whose ends are kept; every start of `run` takes the next step, and waits for ever when none is left."""

    def __init__(self, backoff: Backoff, *steps: Callable[[], Awaitable[None]]) -> None:
        self.ends: asyncio.Queue[TaskEnd] = asyncio.Queue()
        self.changes: asyncio.Queue[list[str]] = asyncio.Queue()
        self.tasks = BackgroundTasks(self.ends.put_nowait, self._changed, backoff=backoff)
        self.steps = list(steps)
        self.starts = 0
        self.waits = asyncio.Event()

    def _changed(self) -> None:
        self.changes.put_nowait(self.tasks.failing)

    async def run(self) -> None:
        self.starts += 1
        if self.steps:
            await self.steps.pop(0)()
        else:
            self.waits.set()
            await asyncio.Event().wait()


@asynccontextmanager
async def watched(backoff: Backoff, *steps: Callable[[], Awaitable[None]]) -> AsyncIterator[Watched]:
    made = Watched(backoff, *steps)
    before = asyncio.all_tasks()
    try:
        yield made
    finally:
        await made.tasks.stop()
        assert not made.tasks.running
        assert asyncio.all_tasks() == before


async def fail() -> None:
    raise ZeroDivisionError


async def leave() -> None:
    return


async def cancel() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


@pytest.mark.parametrize(("step", "reason"), [(fail, "ZeroDivisionError"), (leave, "returned"), (cancel, "cancelled")])
async def test_after_any_end_it_is_reported_counted_and_restarted(
    step: Callable[[], Awaitable[None]], reason: str
) -> None:
    async with watched(QUICK, step) as made:
        made.tasks.start("work", made.run)
        assert made.tasks.ends == {"work": 0}
        await made.waits.wait()
        end = made.ends.get_nowait()
        assert (end.name, end.reason, end.failures, end.restart_s) == ("work", reason, 1, 0.0)
        assert isinstance(end.fault, ZeroDivisionError) == (step is fail)
        assert (made.starts, made.tasks.ends, made.tasks.failing) == (2, {"work": 1}, [])


async def test_one_that_is_killed_from_outside_is_started_again() -> None:
    async with watched(QUICK) as made:
        kept = made.tasks.start("work", made.run)
        await made.waits.wait()
        made.waits.clear()
        assert kept.task is not None
        kept.task.cancel()
        await made.waits.wait()
        assert made.starts == 2


async def test_the_pause_doubles_up_to_its_bound() -> None:
    backoff = Backoff(first_s=0.0001, max_delay_s=0.0004, healthy_s=3600.0)
    async with watched(backoff, *[fail] * 5) as made:
        made.tasks.start("work", made.run)
        await made.waits.wait()
        pauses = [made.ends.get_nowait().restart_s for _ in range(5)]
    assert pauses == [0.0001, 0.0002, 0.0004, 0.0004, 0.0004]


async def test_after_failures_in_a_row_it_is_failing_until_it_has_run_for_a_while() -> None:
    async with watched(Backoff(first_s=0.0, healthy_s=0.01), *[fail] * 4) as made:
        made.tasks.start("work", made.run)
        assert await made.changes.get() == ["work"]
        assert await made.changes.get() == []
        assert (made.starts, made.tasks.ends) == (5, {"work": 4})


async def test_after_a_healthy_interval_failures_are_counted_from_zero() -> None:
    async with watched(Backoff(first_s=0.0, healthy_s=0.0), *[fail] * 5) as made:
        made.tasks.start("work", made.run)
        await made.waits.wait()
        assert [made.ends.get_nowait().failures for _ in range(5)] == [1] * 5
        assert made.changes.empty()


async def test_an_end_that_is_expected_is_neither_reported_nor_mended() -> None:
    async with watched(NEVER_HEALTHY) as made:
        go = asyncio.Event()

        async def until_told() -> None:
            await go.wait()

        made.steps.append(until_told)
        kept = made.tasks.start("work", made.run)
        await asyncio.sleep(0)
        kept.expect_end()
        go.set()
        await kept.over()
        assert (made.starts, made.ends.empty(), made.tasks.ends) == (1, True, {"work": 0})


async def test_a_fault_after_its_end_was_asked_for_is_reported_and_not_mended() -> None:
    async with watched(QUICK, fail) as made:
        kept = made.tasks.start("work", made.run)
        kept.expect_end()
        await kept.over()
        assert (made.starts, (await made.ends.get()).restart_s) == (1, None)


async def test_stopped_between_two_starts_it_is_over_and_not_failing() -> None:
    async with watched(Backoff(first_s=3600.0, max_delay_s=3600.0, max_failures=1), fail) as made:
        kept = made.tasks.start("work", made.run)
        assert await made.changes.get() == ["work"]
        await kept.stop()
        assert await made.changes.get() == []
        assert made.starts == 1


async def test_a_report_that_fails_keeps_nothing_from_being_started_again() -> None:
    async with watched(QUICK, fail) as made:
        faults: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))

        def report(_: TaskEnd) -> None:
            raise LookupError

        made.tasks.report = report
        made.tasks.start("work", made.run)
        await made.waits.wait()
        asyncio.get_running_loop().set_exception_handler(None)
        assert [type(fault) for fault in faults] == [LookupError]
