"""What a journal has on the disk."""

import fcntl
import os
from pathlib import Path

from streamweir.store.journal.entries import Entry
from streamweir.store.journal.frames import read_frames


def segments_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.journal"))


def entries_of(folder: Path) -> list[Entry]:
    """All that can be read, locked or not."""
    return [entry for path in segments_of(folder) for entry in read_frames(path.read_bytes()).entries]


def is_locked(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
