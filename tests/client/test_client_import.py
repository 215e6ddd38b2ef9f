"""What `import streamweir.client` brings along: little, and nothing of the gateway."""

import json
import subprocess
import sys

from streamweir.frontends.chat.table import DIALECTS

FORBIDDEN = (
    "streamweir.server", "streamweir.store", "streamweir.policy", "streamweir.upstream", "streamweir.config",
    "streamweir.console", "streamweir.cli", "starlette", "sqlalchemy", "alembic", "structlog", "uvloop", "httptools",
    "click", "rich", "prometheus_client",
)  # fmt: skip
MOST_OF_OURS = 54 + len(DIALECTS)
"""Modules, one for each dialect among them. To count them tells what time would, on any machine."""


def imported(statement: str, before: str = "") -> set[str]:
    code = f"import sys, json\n{before}\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, timeout=60
    )
    return set(json.loads(done.stdout))


def within(modules: set[str], *names: str) -> set[str]:
    return {module for module in modules for name in names if module == name or module.startswith(f"{name}.")}


def test_it_is_small_and_imports_no_gateway() -> None:
    modules = imported("import streamweir.client")
    assert within(modules, *FORBIDDEN) == set()
    assert within(modules, "httpx2", "asyncio", "ssl") == set(), "only a client of ours needs these"
    assert len(within(modules, "streamweir")) <= MOST_OF_OURS


def test_a_client_adds_httpx2_and_no_gateway() -> None:
    modules = imported("from streamweir.client import Client, AsyncClient")
    assert within(modules, *FORBIDDEN) == set()
    assert "httpx2" in modules


def test_without_httpx2_the_error_names_what_is_missing_and_parse_works() -> None:
    statement = """
from streamweir.client import parse
body = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\\n\\ndata: [DONE]\\n\\n'
assert parse([body]).final().text == "Hi"
try:
    from streamweir.client import Client
except ImportError as reason:
    assert str(reason) == "Client needs httpx2: install streamweir[client]", reason
else:
    raise AssertionError
import streamweir.client
assert not hasattr(streamweir.client, "Server")
"""
    imported(statement, before="sys.modules['httpx2'] = None")
