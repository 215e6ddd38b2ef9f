"""`--leave-out "FILE FILE ..."`: test files that are not collected.

pytest's own `--ignore` makes a path of each of its values anew for every file and folder that it finds: with those of
the pure packages, a quarter of what each process of `make test` needs to collect the tests.
"""

from functools import cache
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--leave-out", default="", metavar="FILES", help="files that are not collected, with spaces between"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    files = files_named(config.getoption("--leave-out"), config.invocation_params.dir)
    return True if collection_path in files else None


@cache
def files_named(names: str, folder: Path) -> frozenset[Path]:
    return frozenset(folder / name for name in names.split())
