"""A disk whose calls fail a given number of times."""

import errno
import os
from typing import Any

import pytest


class FailingDisk:
    """`failures`: how many of the next calls of that name fail, with `code`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failures: dict[str, int] = {}
        self.code = errno.EIO
        for name in ("write", "fdatasync", "ftruncate"):
            monkeypatch.setattr(os, name, self._wrap(name, getattr(os, name)))

    def _wrap(self, name: str, real: Any) -> Any:
        def call(*args: Any) -> Any:
            if self.failures.get(name, 0) > 0:
                self.failures[name] -= 1
                raise OSError(self.code, os.strerror(self.code))
            return real(*args)

        return call
