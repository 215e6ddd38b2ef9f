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
from zlib import crc32

import pytest

SOAKS = os.environ.get("STREAMWEIR_SOAK") == "1"
T = TypeVar("T")
U = TypeVar("U")


def part_of(cases: Sequence[T], parts: int) -> list[T]:
    """One of so many parts, every so many cases; in `make soak` all of them."""
    return list(cases) if SOAKS else list(cases[_number() % parts :: parts])


def one_of_each(cases: Sequence[T], others: Sequence[U]) -> list[tuple[T, U]]:
    """Each case with one of the others, in turn, and with the next commit another one; in `make soak` with each."""
    if SOAKS:
        return [(case, other) for case in cases for other in others]
    return [(case, others[(place + _number()) % len(others)]) for place, case in enumerate(cases)]


def in_turn(name: str, cases: Sequence[T]) -> list[T]:
    """One of them for the test of this name, and with the next commit another one; in `make soak` all."""
    return list(cases) if SOAKS else [cases[(crc32(name.encode()) + _number()) % len(cases)]]


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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a test marked `diagonal`, each value of each parameter once; in `make soak` every combination.

    For faults that are independent of each other: the first value of the one goes with the first of the other, the
    second with the second, and the shorter list begins again.
    """
    if SOAKS:
        return
    known: dict[str, list[list[str]]] = {}
    marked = [item for item in items if item.get_closest_marker("diagonal")]
    for item in marked:
        lists = known.setdefault(_function(item), [[] for _ in _ids(item)])
        for values, value in zip(lists, _ids(item), strict=True):
            if value not in values:
                values.append(value)
    dropped = {id(item) for item in marked if not _is_on_diagonal(_ids(item), known[_function(item)])}
    config.hook.pytest_deselected(items=[item for item in items if id(item) in dropped])
    items[:] = [item for item in items if id(item) not in dropped]


def _is_on_diagonal(ids: Sequence[str], lists: Sequence[Sequence[str]]) -> bool:
    longest = max((len(values) for values in lists), default=1)
    pairs = list(zip(ids, lists, strict=True))
    return any(all(values[step % len(values)] == value for value, values in pairs) for step in range(longest))


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _ids(item: pytest.Item) -> Sequence[str]:
    """One for each `parametrize` of the test. There is no public name for them."""
    spec = getattr(item, "callspec", None)
    return tuple(spec._idlist) if spec is not None else ()
