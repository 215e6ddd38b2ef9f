"""Timers: each fires when it is due, whatever happens to the others, and ended ones take no memory."""

import asyncio

from streamweir.server.http.timers import DeadlineTimer, TimerQueue


class Target:
    def __init__(self, name: str, fired: list[str]) -> None:
        self.name = name
        self.fired = fired

    def on_timer(self) -> None:
        self.fired.append(self.name)
        if self.name == "broken":
            raise RuntimeError("woken")


async def test_timers_fire_in_the_order_of_their_times() -> None:
    timers, fired, now = TimerQueue(), list[str](), asyncio.get_running_loop().time()
    for name, after_s in (("third", 0.03), ("first", 0.01), ("second", 0.02)):
        DeadlineTimer(timers, Target(name, fired)).fire_by(now + after_s)
    await asyncio.sleep(0.06)
    assert fired == ["first", "second", "third"]


async def test_a_later_time_changes_nothing_and_an_earlier_one_does() -> None:
    timers, fired, now = TimerQueue(), list[str](), asyncio.get_running_loop().time()
    timer = DeadlineTimer(timers, Target("it", fired))
    timer.fire_by(now + 0.05)
    timer.fire_by(now + 10)
    timer.fire_by(now + 0.01)
    await asyncio.sleep(0.03)
    assert fired == ["it"]
    await asyncio.sleep(0.04)
    assert fired == ["it"], "the time that was given up passes in silence"
    timer.fire_by(now)
    await asyncio.sleep(0.01)
    assert fired == ["it", "it"]


async def test_an_ended_timer_never_fires_again() -> None:
    timers, fired, now = TimerQueue(), list[str](), asyncio.get_running_loop().time()
    timer, other = DeadlineTimer(timers, Target("ended", fired)), DeadlineTimer(timers, Target("other", fired))
    timer.fire_by(now + 0.01)
    other.fire_by(now + 0.02)
    timer.end()
    timer.end()
    timer.fire_by(now)
    await asyncio.sleep(0.04)
    assert fired == ["other"]


async def test_ended_between_its_time_and_its_callback() -> None:
    fired = list[str]()
    timer = DeadlineTimer(TimerQueue(), Target("it", fired))
    timer.end()
    timer.fire()
    assert not fired


async def test_a_fault_in_one_timer_does_not_stop_the_others() -> None:
    loop, timers, fired = asyncio.get_running_loop(), TimerQueue(), list[str]()
    faults: list[str] = []
    loop.set_exception_handler(lambda _, context: faults.append(str(context.get("exception"))))
    for name in ("broken", "whole"):
        DeadlineTimer(timers, Target(name, fired)).fire_by(loop.time() + 0.01)
    later = DeadlineTimer(timers, Target("later", fired))
    later.fire_by(loop.time() + 0.02)
    await asyncio.sleep(0.04)
    assert fired == ["broken", "whole", "later"]
    assert faults == ["woken"]


async def test_ended_timers_take_no_memory() -> None:
    timers, fired, now = TimerQueue(), list[str](), asyncio.get_running_loop().time()
    moving = DeadlineTimer(timers, Target("moved", fired))
    for _ in range(10):
        DeadlineTimer(timers, Target("kept", fired)).fire_by(now + 0.02)
    for number in range(5000):
        gone = DeadlineTimer(timers, Target("gone", fired))
        gone.fire_by(now + 1000)
        gone.end()
        moving.fire_by(now + 6000 - number)
        assert len(timers._heap) < 150
    await asyncio.sleep(0.04)
    assert fired == ["kept"] * 10
    timers.stop()
