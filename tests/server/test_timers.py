"""Alarms: each rings when it is due, whatever becomes of the others, and those that will not ring take no room."""

import asyncio

from streamweir.server.http.timers import DeadlineTimer, TimerQueue


class Sleeper:
    def __init__(self, name: str, heard: list[str]) -> None:
        self.name = name
        self.heard = heard

    def wake(self) -> None:
        self.heard.append(self.name)
        if self.name == "broken":
            raise RuntimeError("woken")


async def test_alarms_ring_in_the_order_of_their_times() -> None:
    clock, heard, now = TimerQueue(), list[str](), asyncio.get_running_loop().time()
    for name, after_s in (("third", 0.03), ("first", 0.01), ("second", 0.02)):
        DeadlineTimer(clock, Sleeper(name, heard)).by(now + after_s)
    await asyncio.sleep(0.06)
    assert heard == ["first", "second", "third"]


async def test_a_later_time_changes_nothing_and_an_earlier_one_does() -> None:
    clock, heard, now = TimerQueue(), list[str](), asyncio.get_running_loop().time()
    timer = DeadlineTimer(clock, Sleeper("it", heard))
    timer.by(now + 0.05)
    timer.by(now + 10)
    timer.by(now + 0.01)
    await asyncio.sleep(0.03)
    assert heard == ["it"]
    await asyncio.sleep(0.04)
    assert heard == ["it"], "the time that was given up passes in silence"
    timer.by(now)
    await asyncio.sleep(0.01)
    assert heard == ["it", "it"]


async def test_one_that_has_ended_is_never_heard_again() -> None:
    clock, heard, now = TimerQueue(), list[str](), asyncio.get_running_loop().time()
    timer, other = DeadlineTimer(clock, Sleeper("ended", heard)), DeadlineTimer(clock, Sleeper("other", heard))
    timer.by(now + 0.01)
    other.by(now + 0.02)
    timer.end()
    timer.end()
    timer.by(now)
    await asyncio.sleep(0.04)
    assert heard == ["other"]


async def test_ended_between_its_time_and_its_ring() -> None:
    heard = list[str]()
    timer = DeadlineTimer(TimerQueue(), Sleeper("it", heard))
    timer.end()
    timer.ring()
    assert not heard


async def test_one_whose_sleeper_breaks_does_not_keep_the_others_from_ringing() -> None:
    loop, clock, heard = asyncio.get_running_loop(), TimerQueue(), list[str]()
    faults: list[str] = []
    loop.set_exception_handler(lambda _, context: faults.append(str(context.get("exception"))))
    for name in ("broken", "whole"):
        DeadlineTimer(clock, Sleeper(name, heard)).by(loop.time() + 0.01)
    later = DeadlineTimer(clock, Sleeper("later", heard))
    later.by(loop.time() + 0.02)
    await asyncio.sleep(0.04)
    assert heard == ["broken", "whole", "later"]
    assert faults == ["woken"]


async def test_what_will_not_ring_takes_no_room() -> None:
    clock, heard, now = TimerQueue(), list[str](), asyncio.get_running_loop().time()
    moving = DeadlineTimer(clock, Sleeper("moved", heard))
    for _ in range(10):
        DeadlineTimer(clock, Sleeper("kept", heard)).by(now + 0.02)
    for number in range(5000):
        gone = DeadlineTimer(clock, Sleeper("gone", heard))
        gone.by(now + 1000)
        gone.end()
        moving.by(now + 6000 - number)
        assert len(clock._heap) < 150
    await asyncio.sleep(0.04)
    assert heard == ["kept"] * 10
    clock.stop()
