"""An event loop whose clock can be moved forward: as if a callback had held the loop for so long.

    with asyncio.Runner(loop_factory=StandstillLoop) as runner:
        runner.run(main())

    async def main() -> None:
        cast("StandstillLoop", asyncio.get_running_loop()).stand_still(3600)

Limits of an hour can pass in a test of milliseconds, and none passes because the machine is busy.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

T = TypeVar("T")


class StandstillLoop(asyncio.SelectorEventLoop):
    _moved_s = 0.0

    def time(self) -> float:
        return super().time() + self._moved_s

    def stand_still(self, seconds: float) -> None:
        self._moved_s += seconds


def the_loop() -> StandstillLoop:
    return cast("StandstillLoop", asyncio.get_running_loop())


def run_on_it(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    with asyncio.Runner(loop_factory=StandstillLoop) as runner:
        return runner.run(work())
