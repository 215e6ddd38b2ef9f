"""What the program cannot be made to do, by its source: run what somebody sent (S4), ask what somebody wrote (S2).

Seen in the syntax tree of every file. What is allowed is named here, file by file, and must still be
needed there. Statements are written in SQLAlchemy, whose parameters are bound; the two files that hand
texts to a driver have no words of anybody else's in them.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import streamweir

PACKAGE = Path(streamweir.__file__).parent
FILES = sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))

RUNNERS = {"subprocess", "multiprocessing", "pickle", "marshal", "shelve", "dill", "joblib", "runpy", "code", "codeop"}
RUNNERS |= {"pty", "ctypes", "cffi", "jinja2", "mako"}
"""Modules that start programs, or make code or objects of bytes."""
RUNNING = re.compile(
    r"""
      eval | exec | compile | __import__ | breakpoint
    | os\.(?:system|popen|fork|forkpty|(?:exec|spawn|posix_spawn)\w*)
    | (?:.*\.)?(?:create_)?subprocess_(?:exec|shell)
    | (?:.*\.)?yaml\.(?:load|load_all|unsafe_load|full_load)
    | (?:.*\.)?import_module
    """,
    re.VERBOSE,
)
MAY_RUN = {
    "cli/main.py": {"import_module"},
    "config/file/secret_reference.py": {"subprocess"},
    "pipeline/native.py": {"import_module"},
    "providers/registry.py": {"import_module"},
    "server/relay/large_answer.py": {"asyncio.create_subprocess_exec"},
    "server/process/supervisor.py": {"asyncio.create_subprocess_exec"},
    "server/process/worker.py": {"import_module"},
    "upstream/local.py": {"asyncio.get_running_loop().subprocess_exec"},
    "upstream/local_child.py": {"import_module"},
}
"""Children of our own, and modules by names of our own. `server/relay/large_answer.py` has a child of its own read what
would hold up the loop: the command is fixed, and what comes back is typed JSON. `config/file/secret_reference.py` runs
what the operator's file names, without a shell."""

STATEMENT = re.compile(
    r"""
      \bselect\b .* \bfrom\b | \binsert\s+into\b | \bupdate\s+\S+\s+set\b | \bdelete\s+from\b
    | \b(?:create|drop|alter|truncate)\s+(?:table|index|database|schema|view|trigger|sequence|role)\b
    | ^\s*(?:pragma|attach)\b | \bwhere\s+[\w."]+\s*(?:=|<|>|in\b|like\b|is\b)
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
TAKES_TEXT = {"text", "literal_column", "DDL", "exec_driver_sql", "executescript"}
"""By these a text becomes a statement, or a part of one."""
WRITES_TEXT = ("store/db/sqlite_workers.py", "store/db/sql.py")
"""How transactions begin, and a number of milliseconds; and what SQLAlchemy has compiled."""


def source_of(file: str) -> str:
    return (PACKAGE / file).read_text()


def dangers(source: str) -> Iterator[str]:
    """The names of what could run something else than this program."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ({alias.name.partition(".")[0] for alias in node.names} & RUNNERS)
        elif isinstance(node, ast.ImportFrom):
            yield from ({(node.module or "").partition(".")[0]} & RUNNERS)
        elif isinstance(node, ast.Call) and RUNNING.fullmatch(called := ast.unparse(node.func)):
            yield called


def test_no_untrusted_text_is_executed() -> None:
    found = {file: set(dangers(source_of(file))) for file in FILES}
    assert {file: what for file, what in found.items() if what} == MAY_RUN


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess",
        "from subprocess import run",
        "import os\nos.system('x')",
        "os.execvp('x', [])",
        "os.posix_spawn('x', [], {})",
        "asyncio.create_subprocess_exec('x')",
        "asyncio.create_subprocess_shell('x')",
        "loop.subprocess_shell(f, 'x')",
        "eval('1')",
        "exec('1')",
        "compile('1', '', 'eval')",
        "import pickle",
        "from multiprocessing import Pool",
        "import_module(name)",
        "importlib.import_module(name)",
        "yaml.load(data)",
        "from jinja2 import Template",
    ],
)
def test_what_runs_something_is_seen(source: str) -> None:
    assert list(dangers(source))


@pytest.mark.parametrize("source", ["re.compile('a')", "json.load(f)", "yaml.safe_load(f)", "self.execute(x)"])
def test_what_runs_nothing_is_let_pass(source: str) -> None:
    assert list(dangers(source)) == []


def formatted(source: str) -> Iterator[str]:
    """Statements that are put together from texts, and whatever else than a plain text is made one."""
    tree = ast.parse(source)
    ours = {alias.asname or alias.name for alias in _names_of_sqlalchemy(tree)} & TAKES_TEXT
    for node in ast.walk(tree):
        if STATEMENT.search(_plain_parts(node)):
            yield _plain_parts(node)
        if not isinstance(node, ast.Call) or not node.args or isinstance(node.args[0], ast.Constant):
            continue
        called = ast.unparse(node.func)
        owner, _, name = called.rpartition(".")
        is_made = (
            called in ours or (name in TAKES_TEXT - {"text"} and owner) or called in ("sa.text", "sqlalchemy.text")
        )
        if is_made or (name in ("execute", "executemany") and isinstance(node.args[0], ast.JoinedStr)):
            yield ast.unparse(node)


def _names_of_sqlalchemy(tree: ast.Module) -> Iterator[ast.alias]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sqlalchemy"):
            yield from node.names


def _plain_parts(node: ast.AST) -> str:
    """Of a text that is put together; empty where it is none."""
    if isinstance(node, ast.JoinedStr):
        parts = [str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values]
        return "".join(parts) if any(isinstance(part, ast.FormattedValue) for part in node.values) else ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        sides = [side.value for side in (node.left, node.right) if isinstance(side, ast.Constant)]
        return " ".join(side for side in sides if isinstance(side, str))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "join"):
        owner = node.func.value
        return owner.value if isinstance(owner, ast.Constant) and isinstance(owner.value, str) else ""
    return ""


def test_no_statement_is_put_together_from_texts() -> None:
    found = {file: list(formatted(source_of(file))) for file in FILES}
    assert {file: what for file, what in found.items() if what}.keys() == set(WRITES_TEXT), found


def test_the_one_that_is_holds_a_number() -> None:
    """SQLite takes no parameter there."""
    trees = [ast.parse(source_of(file)) for file in WRITES_TEXT]
    found = [node for tree in trees for node in ast.walk(tree) if STATEMENT.search(_plain_parts(node))]
    assert [ast.unparse(node) for node in found] == [
        "f'PRAGMA busy_timeout={int(min(self.remaining_s, self._lock_timeout_s) * 10) * 100}'"
    ]


@pytest.mark.parametrize(
    "source",
    [
        "f'SELECT * FROM keys WHERE id = {id}'",
        "f'select 1 from {table}'",
        "'DELETE FROM %s' % table",
        "'DROP TABLE ' + name",
        "'UPDATE {} SET a = 1'.format(table)",
        "f'... WHERE name = {name}'",
        "f'PRAGMA user_version={number}'",
        "conn.exec_driver_sql(statement)",
        "conn.execute(f'{statement}')",
        "from sqlalchemy import text\ntext(query)",
        "from sqlalchemy.sql import text\ntext('a' + b)",
        "sa.text(query)",
        "sqlalchemy.literal_column(name)",
        "cursor.executescript(script)",
    ],
)
def test_a_statement_of_texts_is_seen(source: str) -> None:
    assert list(formatted(source))


@pytest.mark.parametrize(
    "source",
    [
        "f'there is no key {name}'",
        "f'update the file {path}, or set it aside'",
        "conn.execute(select(keys).where(keys.c.id == id))",
        "conn.execute('PRAGMA journal_mode=WAL')",
        "from sqlalchemy import text\ntext('cancel_ms IS NOT NULL')",
        "redactor.text(answer)",
        "'|'.join(parts)",
    ],
)
def test_other_texts_are_let_pass(source: str) -> None:
    assert list(formatted(source)) == []
