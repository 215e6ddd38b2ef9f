"""Processes that write into journals as fast as they can, each killed in the middle of it.

`python -m support.tiny_journal FOLDER FIRST COUNT`: one child after the other, numbered from FIRST,
forked so that a start costs nothing. A child says through a pipe which of its entries it was told
were written; it is killed when it has said so of a number drawn by its seed. For each a line goes to
the output: its number, and how many it had said.
"""

import asyncio
import os
import random
import signal
import sys
from pathlib import Path

import uvloop

from streamweir.store.journal.entries import Entry
from streamweir.store.journal.handle import WriteHandle
from streamweir.store.journal.journal import Journal
from support.entries import hold, settle

_SEGMENT_BYTES = 4_000
_MOST_ACKS, _MOST_ENTRIES = 50, 80


def instance_of(seed: int) -> str:
    return f"i{seed}"


def entry_of(seed: int, number: int) -> Entry:
    """The child's entries in their order: a hold, then its settlement."""
    request_id = f"{seed}.{number // 2}"
    return settle(request_id) if number % 2 else hold(request_id, instance=instance_of(seed))


async def _write_on(folder: Path, seed: int, output: int) -> None:
    chance = random.Random(seed)
    journal = Journal(folder, instance_of(seed), segment_bytes=_SEGMENT_BYTES)
    journal.open()
    written: asyncio.Queue[WriteHandle] = asyncio.Queue()

    async def acknowledge() -> None:
        while True:
            await (await written.get()).written()
            os.write(output, b".")

    task = asyncio.create_task(acknowledge())
    number = 0
    while number < _MOST_ENTRIES:
        for _ in range(chance.randrange(1, 9)):
            handle = journal.append(entry_of(seed, number), required=number % 2 == 1)
            written.put_nowait(handle)
            number += 1
        await (handle.written() if chance.random() < 0.7 else asyncio.sleep(0))
    await task  # enough to be killed for


def _kill_one(folder: Path, seed: int) -> int:
    wanted = random.Random(-seed).randrange(_MOST_ACKS)
    source, output = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(source)
        uvloop.run(_write_on(folder, seed, output))
        os._exit(1)
    os.close(output)
    said = 0
    while said < wanted:
        said += len(os.read(source, wanted - said))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while rest := os.read(source, 65536):
        said += len(rest)
    os.close(source)
    return said


if __name__ == "__main__":
    folder, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for seed in range(first, first + count):
        sys.stdout.write(f"{seed} {_kill_one(folder, seed)}\n")
