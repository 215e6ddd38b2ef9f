"""A journal on a disk that fills up and gets room again, wherever that disk is.

As a program (`python -m support.disk_full FOLDER`) it makes its own: a limit on the size of files,
which needs no rights and is met in the midst of a write, as a full disk is.
"""

import asyncio
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from streamweir.store.journal.entries import Entry
from streamweir.store.journal.frames import read_frames
from streamweir.store.journal.handle import JournalUnavailable
from streamweir.store.journal.journal import Journal
from support.entries import hold, settle
from support.journal_files import segments_of

_LIMIT_BYTES = 20_000
_MOST_HOLDS = 100_000


async def survive_full_disk(folder: Path, make_room: Callable[[], None]) -> None:
    """Holds are refused, settlements are kept, the event loop turns, and all goes on when there is room."""
    facts: list[str] = []
    journal = Journal(folder, "test", report=lambda name, _: facts.append(name))
    journal.open()
    taken = await _fill(journal)
    assert journal.is_failing
    assert facts == ["journal_failing"]
    settled = [journal.append(settle(f"s{number}"), required=True) for number in range(50)]
    turns = 0
    while journal.failures < 3:  # tried again and again, on its own
        await asyncio.sleep(0.01)
        turns += 1
    assert turns > 1
    assert not any(handle.state for handle in settled)
    assert await _is_refused(journal)
    make_room()
    await asyncio.gather(*(handle.written() for handle in settled))
    assert not journal.is_failing
    assert facts == ["journal_failing", "journal_recovered"]
    await journal.append(hold("after")).written()
    taken += [*(settle(f"s{number}") for number in range(50)), hold("after")]
    _check(folder, taken)
    assert await journal.close()
    _check(folder, taken)


async def _fill(journal: Journal) -> list[Entry]:
    """Until it is refused: what was acknowledged before."""
    taken: list[Entry] = []
    for number in range(_MOST_HOLDS):
        entry = hold(f"h{number}")
        try:
            await journal.append(entry).written()
        except JournalUnavailable:
            return taken
        taken.append(entry)
    raise AssertionError("the disk never filled up")


async def _is_refused(journal: Journal) -> bool:
    """At once, or by who tries."""
    try:
        await journal.append(hold("refused")).written()
    except JournalUnavailable:
        return True
    return False


def _check(folder: Path, expected: list[Entry]) -> None:
    (path,) = segments_of(folder)
    reading = read_frames(path.read_bytes())
    assert reading.entries == expected
    assert reading.dropped_bytes == 0, "half a frame was left behind"


def _set_limit(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


if __name__ == "__main__":
    _set_limit(_LIMIT_BYTES)
    asyncio.run(survive_full_disk(Path(sys.argv[1]), lambda: _set_limit(resource.RLIM_INFINITY)))
    sys.stdout.write("survived")
