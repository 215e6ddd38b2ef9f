"""What import rules cannot see: a pure package neither opens, prints, asks for the time nor swallows everything.

The import rules themselves are contracts in `pyproject.toml`, checked by `make check`.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import streamweir

PACKAGE = Path(streamweir.__file__).parent
PURE = ("core", "wire", "providers", "frontends", "pipeline", "policy")
CLIENT = ("answer", "error", "failed_response", "partial", "reader", "request", "stream", "timeouts")
"""The core of the client, beneath its sockets."""
FILES = sorted(
    [
        *(path for name in PURE for path in (PACKAGE / name).rglob("*.py")),
        *(PACKAGE / "client" / f"{name}.py" for name in CLIENT),
    ]
)
FORBIDDEN_NAMES = {"open", "print", "input", "breakpoint", "eval", "exec", "__import__"}
CLOCK_MEMBERS = {"now", "utcnow", "today", "fromtimestamp", "utcfromtimestamp"}
CLOCK_OWNERS = {"datetime", "date"}


def impurities(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler) and is_broad(node):
            yield f"line {node.lineno}: a broad except"
        elif isinstance(node, ast.Import | ast.ImportFrom) and "urllib.request" in names_of(node):
            yield f"line {node.lineno}: an import that does I/O"
        elif isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in FORBIDDEN_NAMES:
                yield f"line {node.lineno}: {called.id}()"
            elif isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name | ast.Attribute):
                owner = called.value.id if isinstance(called.value, ast.Name) else called.value.attr
                if owner == "time" or (owner in CLOCK_OWNERS and called.attr in CLOCK_MEMBERS):
                    yield f"line {node.lineno}: {owner}.{called.attr}()"


def names_of(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    return {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}


def is_broad(node: ast.ExceptHandler) -> bool:
    return node.type is None or (isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"})


def test_pure() -> None:
    found = {str(path.relative_to(PACKAGE)): list(impurities(path.read_text())) for path in FILES}
    assert {file: what for file, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "source",
    [
        "open('x')",
        "print(1)",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import datetime\ndatetime.utcnow()",
        "from datetime import date\ndate.today()",
        "time.monotonic()",
        "from urllib import request",
        "import urllib.request",
        "try:\n    pass\nexcept Exception:\n    pass",
        "try:\n    pass\nexcept:\n    pass",
    ],
)
def test_an_impurity_is_seen(source: str) -> None:
    assert list(impurities(source))


@pytest.mark.parametrize("source", ["x.open()", "datetime(2026, 1, 1)", "from urllib.parse import quote", "self.now()"])
def test_what_is_pure_is_let_pass(source: str) -> None:
    assert list(impurities(source)) == []


LONGEST = 450
"""Lines of a module."""
LONGER = {
    "server/http/connection.py": (690, "one connection is one state machine, of its phases and its one deadline"),
    "server/relay/relay.py": (880, "one attempt is one state machine: cut in two, neither half can be read alone"),
    "store/db/tables.py": (520, "one list of all tables, with which the migrations are compared"),
}
"""Modules that may have more, how many, and why."""


def test_every_file_has_a_docstring_and_a_readable_size() -> None:
    sources = {str(path.relative_to(PACKAGE)): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
    assert [file for file, source in sources.items() if not ast.get_docstring(ast.parse(source))] == []
    lines = {file: source.count("\n") for file, source in sources.items()}
    assert {file: count for file, count in lines.items() if count > LONGER.get(file, (LONGEST, ""))[0]} == {}
    assert [file for file in LONGER if lines.get(file, 0) <= LONGEST] == [], "needs no exception any more"
