"""The files of a journal: `{instance}.{number}.journal`, private, locked while their process lives.

A write is all or nothing: a partial write is truncated, and if that fails too, nothing more is written to the segment
(`is_sealed`). A file gets its name only after it is locked, so that no other process takes a new file for an orphaned
one. `orphaned_journals` finds and locks the files of dead processes, so that one process at a time recovers them.
Everything here blocks. This module knows neither the event loop nor the database.
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
"""So many files with unreadable parts are kept for an operator."""
_PROBE = ".probe" + _TEMPORARY
"""The probe file of a killed process is removed like any other temporary file."""
_PROBE_BYTES = 64 << 10
"""More than the last block of a file may still accept on a full disk."""
_TEMPORARY_MAX_AGE_S = 60.0
"""A temporary file that is older belongs to a dead process."""


class SegmentFile:
    """`end` is the position of its last entry. The file is removed when the database has all entries up to there."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.size = 0
        self.end = 0
        self.is_sealed = False
        """Nothing more may be written to it."""
        self.has_failed_sync = False
        """It is not known what the disk has of it."""
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
            path.hardlink_to(temporary)  # unlike a rename it never replaces another file
        except OSError:
            os.close(descriptor)
            raise
        finally:
            temporary.unlink(missing_ok=True)
        return cls(path, descriptor)

    def write(self, data: bytes) -> None:
        """Writes all of it, or raises OSError and writes nothing."""
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
        """Makes what was written survive a power failure; the first time also the name of the file."""
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
        with suppress(OSError):  # its entries are applied: applying them again at the next start has no effect
            self.path.unlink()
        os.close(self._descriptor)

    def release(self) -> None:
        """Closes a file with entries that are not applied yet. An empty file is removed."""
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
        """Removes the file before it releases the lock, so that no other process finds it."""
        self.path.unlink(missing_ok=True)
        self.close()

    def set_aside(self) -> None:
        """Keeps a file with unreadable parts under a name that recovery ignores."""
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
    """The segments of one dead process, in the order in which they were written. Locked until removed or closed."""

    def __init__(self, instance: str, segments: list[OrphanedSegment]) -> None:
        self.instance = instance
        self.segments = segments

    def entries(self) -> Iterator[Entry]:
        """All entries that can be read; a damaged segment is read up to the damage."""
        for segment in self.segments:
            yield from segment.read().entries

    def remove(self) -> None:
        for segment in self.segments:
            segment.remove()
        self.segments = []

    def close(self) -> None:
        """Releases the remaining segments: they can be found again."""
        for segment in self.segments:
            segment.close()


def make_folder(folder: Path) -> None:
    """Raises OSError if it cannot be created, or is not writable."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def probe_disk(folder: Path, instance: str) -> None:
    """Writes and syncs a file, and removes it. Raises OSError if that fails."""
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
    """The journals of all dead processes, the oldest segment first. Each must be removed or closed."""
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
    """All segments of an instance, or none: a process that ends releases its locks one by one."""
    segments: list[OrphanedSegment] = []
    for path in paths:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue  # another process has applied it
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
    """Whether the file was not removed between opening and locking it."""
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
