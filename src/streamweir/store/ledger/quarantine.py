"""Where entries go that the database refuses for what they hold: a file, a line of JSON each, for an operator.

Written and synced before the entry counts as done, so that nothing is lost silently. Private, and
bounded: when the file is full it takes the place of the one before it. It blocks.
"""

import os
from pathlib import Path
from typing import Any

import msgspec

from streamweir.store.journal.files import make_folder

MOST_BYTES = 8 << 20
"""Of one file; there are two at most."""


class Quarantine:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "quarantine.jsonl"
        self._older = folder / "quarantine.1.jsonl"

    def add(self, at_ms: int, reason: str, entry: Any) -> None:
        """OSError where the disk does not take it: it must be tried again."""
        line = msgspec.json.encode({"at_ms": at_ms, "reason": reason, "entry": entry}) + b"\n"
        make_folder(self.path.parent)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size and size + len(line) > MOST_BYTES:
                self.path.rename(self._older)
                os.close(descriptor)
                descriptor = os.open(
                    self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600
                )
                size = 0
            try:
                written = os.write(descriptor, line)
                while written < len(line):
                    written += os.write(descriptor, line[written:])
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, size)  # half a line would spoil the next one
                raise
        finally:
            os.close(descriptor)
