"""What import rules cannot see: a pure package neither opens, prints, asks for the time nor swallows everything.

The import rules themselves are contracts in `pyproject.toml`, checked by `make check`.
"""

import ast
import re
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
EVERYTHING = {"Exception", "BaseException"}
REASON = re.compile(r"# (?!noqa)|# noqa: BLE001 \(")
"""In the line, or in the next one."""
REPORTS = {"fault", "_fault", "_fail_with_fault", "set_exception"}
"""Each counts a bug and logs it, or raises it where somebody waits for it."""


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
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in EVERYTHING) for kind in kinds)


def unexplained(source: str) -> Iterator[str]:
    """Handlers of every exception without a reason beside them, and those that neither raise nor report it."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ExceptHandler) or not is_broad(node):
            continue
        if not any(REASON.search(line) for line in lines[node.lineno - 1 : node.lineno + 1]):
            yield f"line {node.lineno}: no reason"
        inside = [part for statement in node.body for part in ast.walk(statement)]
        is_told = any(isinstance(part, ast.Attribute) and part.attr in REPORTS for part in inside)
        if not is_told and not isinstance(node.body[-1], ast.Raise):
            yield f"line {node.lineno}: it is neither raised nor reported"


def test_pure() -> None:
    found = {str(path.relative_to(PACKAGE)): list(impurities(path.read_text())) for path in FILES}
    assert {file: what for file, what in found.items() if what} == {}


def test_every_handler_of_every_exception_has_its_reason() -> None:
    found = {str(path.relative_to(PACKAGE)): list(unexplained(path.read_text())) for path in PACKAGE.rglob("*.py")}
    assert {file: what for file, what in found.items() if what} == {}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("except Exception:\n    raise", ["no reason"]),
        ("except BaseException:  # why\n    raise", []),
        ("except Exception:\n    # why\n    raise", []),
        ("except Exception:  # noqa: BLE001\n    fault(reason)", ["no reason", "it is neither raised nor reported"]),
        ("except (OSError, Exception):  # why\n    pass", ["it is neither raised nor reported"]),
        ("except Exception as e:  # noqa: BLE001 (why)\n    x.fault(e)", []),
        ("except OSError:\n    pass", []),
    ],
)
def test_what_such_a_handler_lacks(body: str, found: list[str]) -> None:
    assert [each.partition(": ")[2] for each in unexplained(f"try:\n    pass\n{body}\n")] == found


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
