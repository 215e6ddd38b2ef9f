"""What `make test` takes of a long list of cases, and `make soak` takes whole.

A part is chosen by the commit: the same one whenever a commit is tested, in every process of a test session, and
another one with the next commit. `STREAMWEIR_PART=3` chooses it by hand, to try again what failed elsewhere.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

SOAKS = os.environ.get("STREAMWEIR_SOAK") == "1"
T = TypeVar("T")


def part_of(cases: Sequence[T], parts: int) -> list[T]:
    """One of so many parts, every so many cases; in `make soak` all of them."""
    return list(cases) if SOAKS else list(cases[_number() % parts :: parts])


@cache
def _number() -> int:
    if chosen := os.environ.get("STREAMWEIR_PART"):
        return int(chosen)
    git = shutil.which("git")
    if git is None:
        return 0
    said = subprocess.run(  # noqa: S603 (our own words)
        [git, "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return int(said.stdout[:8], 16) if said.returncode == 0 else 0
