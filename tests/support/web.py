"""Where the page's sources are, and what make has put beside them; why a test that needs it is skipped."""

from pathlib import Path

import pytest

from streamweir.console.assets import Assets

ROOT = Path(__file__).parents[2]
WEB = ROOT / "src" / "streamweir" / "console" / "web"
PACKAGES = WEB / "node_modules"
NODE = ROOT / ".venv" / "node" / "bin" / "node"

needs_page = pytest.mark.skipif(not Assets().has_page, reason="the console is not built: `make install` says why")
needs_web = pytest.mark.skipif(
    not (NODE.exists() and (PACKAGES / "vite").exists()),
    reason="what the console is built with is not there: `make install` says why",
)
