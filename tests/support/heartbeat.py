"""Whether the event loop turns: counts beats, which stop while the loop is blocked.

async with heartbeat() as heart:
    await something_that_takes_a_while()
assert heart.beats > 1

How many there are depends on how busy the machine is: a loop that is blocked meanwhile beats once at most.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

EVERY_S = 0.01


class Heart:
    def __init__(self) -> None:
        self.beats = 0


@asynccontextmanager
async def heartbeat() -> AsyncIterator[Heart]:
    heart = Heart()

    async def beat() -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            heart.beats += 1

    task = asyncio.create_task(beat())
    try:
        yield heart
    finally:
        task.cancel()
        await asyncio.wait({task})
