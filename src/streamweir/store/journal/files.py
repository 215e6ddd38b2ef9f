"""The files of a journal: `{instance}.{number}.journal`, private, locked for as long as their owner lives.

A segment is written all or nothing: what a failed write left of itself is cut away before the next
one, and where even that fails nothing more is written behind it (`is_sealed`). A file gets its name
only when it is locked, so that nobody takes a newborn for a dead one's. `orphaned_journals` finds what
processes have left behind, and holds it: nobody else finds it meanwhile. Everything here blocks; it
knows neither the event loop nor the database.
"""

import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from streamweir.store.journal.entries import Entry
from streamweir.store.journal.frames import ReadFrames, read_frames

_NAME = re.compile(r"([A-Za-z0-9_-]+)\.(\d{6,})\.journal")
_TEMPORARY = ".new"
_BROKEN = ".broken"
_MAX_BROKEN = 8
"""Files with unreadable parts are kept for whoever wants to know, but not without end."""
_PROBE = ".probe" + _TEMPORARY
"""What is left of a probe by a process that was killed is cleared away with the newborn."""
_PROBE_BYTES = 64 << 10
"""More than the last block of a file may still take on a disk that is full."""
_TEMPORARY_MAX_AGE_S = 60.0
"""A newborn that has no name after so long has lost its maker."""


class SegmentFile:
    """`end` is the position of the last entry in it; it is removed when the database has all up to there."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.size = 0
        self.end = 0
        self.is_sealed = False
        """Nothing may be written behind what it holds."""
        self.has_failed_sync = False
        """A sync failed: nobody knows what the disk has."""
        self.is_removed = False
        self._descriptor = descriptor
        self._is_named = False

    @classmethod
    def make(cls, folder: Path, instance: str, number: int) -> "SegmentFile":
        name = f"{instance}.{number:06d}.journal"
        if not _NAME.fullmatch(name):
            raise ValueError(f"not the name of an instance: {instance!r}")
        path = folder / name
        temporary = path.with_name(path.name + _TEMPORARY)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(temporary, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.hardlink_to(temporary)  # unlike a rename it never puts itself in another's place
        except OSError:
            os.close(descriptor)
            raise
        finally:
            temporary.unlink(missing_ok=True)
        return cls(path, descriptor)

    def write(self, data: bytes) -> None:
        """All of it, or OSError and nothing."""
        done = 0
        try:
            with memoryview(data) as view:
                while done < len(data):
                    done += os.write(self._descriptor, view[done:])
        except OSError:
            self._truncate()
            raise
        self.size += len(data)

    def _truncate(self) -> None:
        try:
            os.ftruncate(self._descriptor, self.size)
        except OSError:
            self.is_sealed = True

    def sync(self) -> None:
        """Until what was written survives a power failure; the first time its name does too."""
        try:
            if not self._is_named:
                sync_folder(self.path.parent)
                self._is_named = True
            os.fdatasync(self._descriptor)
        except OSError:
            self.has_failed_sync = self.is_sealed = True
            raise

    def remove(self) -> None:
        self.is_removed = True
        with suppress(OSError):  # it is applied: what stays is applied again at the next start, to no effect
            self.path.unlink()
        os.close(self._descriptor)

    def release(self) -> None:
        """Lets go of a file that holds what nobody has applied yet. Without anything in it it is removed."""
        if not self.size:
            self.remove()
        else:
            os.close(self._descriptor)


class OrphanedSegment:
    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    def read(self) -> ReadFrames:
        return read_frames(self.path.read_bytes())

    def remove(self) -> None:
        """Gone, and in that order: a lock that is free lets another look for the file."""
        self.path.unlink(missing_ok=True)
        self.close()

    def set_aside(self) -> None:
        """It holds what could not be read: kept under a name that nobody looks for."""
        folder = self.path.parent
        kept = sorted(folder.glob(f"*{_BROKEN}"), key=lambda file: file.stat().st_mtime_ns)
        for file in kept[: max(0, len(kept) + 1 - _MAX_BROKEN)]:
            file.unlink(missing_ok=True)
        self.path.rename(self.path.with_name(self.path.name + _BROKEN))
        self.close()

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class OrphanedJournal:
    """What one process has left behind, in the order it was written. Held until it is removed or closed."""

    def __init__(self, instance: str, segments: list[OrphanedSegment]) -> None:
        self.instance = instance
        self.segments = segments

    def entries(self) -> Iterator[Entry]:
        """All that can be read; each segment ends where it is torn."""
        for segment in self.segments:
            yield from segment.read().entries

    def remove(self) -> None:
        for segment in self.segments:
            segment.remove()
        self.segments = []

    def close(self) -> None:
        """Lets go of what is left: it is found again."""
        for segment in self.segments:
            segment.close()


def make_folder(folder: Path) -> None:
    """OSError where it cannot be made, or nothing can be made in it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def probe_disk(folder: Path, instance: str) -> None:
    """Whether something can be written here and made durable: OSError where it cannot. Nothing is left of it."""
    path = folder / (instance + _PROBE)
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        path.unlink(missing_ok=True)
        done = 0
        while done < _PROBE_BYTES:
            done += os.write(descriptor, bytes(_PROBE_BYTES - done))
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def orphaned_journals(folder: Path) -> list[OrphanedJournal]:
    """Of every process that is gone, the oldest segment first. Each must be removed or closed."""
    if not folder.is_dir():
        return []
    found: dict[str, list[tuple[int, Path]]] = {}
    for path in folder.iterdir():
        if match := _NAME.fullmatch(path.name):
            found.setdefault(match[1], []).append((int(match[2]), path))
        elif path.name.endswith(_TEMPORARY):
            _remove_unfinished(path)
    orphaned = []
    for instance in sorted(found):
        segments = _lock_all(path for _, path in sorted(found[instance]))
        if segments:
            orphaned.append(OrphanedJournal(instance, segments))
    return orphaned


def _lock_all(paths: Iterator[Path]) -> list[OrphanedSegment]:
    """All of an instance, or none: a process that ends gives up its locks one by one."""
    segments: list[OrphanedSegment] = []
    for path in paths:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue  # applied by another, who found it before us
        segment = OrphanedSegment(path, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            for each in (segment, *segments):
                each.close()
            return []
        if _is_same_file(path, descriptor):
            segments.append(segment)
        else:
            segment.close()
    return segments


def _is_same_file(path: Path, descriptor: int) -> bool:
    """Whether nobody has taken the file away between our opening and our locking it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _remove_unfinished(path: Path) -> None:
    try:
        if time.time() - path.stat().st_mtime > _TEMPORARY_MAX_AGE_S:
            path.unlink()
    except FileNotFoundError:
        return
