"""The page as it was built, and the tests that its pure modules have in their own language."""

import gzip
import re
import subprocess

from streamweir.console.assets import STATIC
from support.web import NODE, ROOT, WEB, needs_page, needs_web

LARGEST_BYTES = 120_000
"""Of everything, compressed (spec: under 120 KB)."""


@needs_page
def test_the_page_is_small() -> None:
    sizes = {path.name: len(gzip.compress(path.read_bytes(), 9)) for path in STATIC.rglob("*.*")}
    assert sum(sizes.values()) < LARGEST_BYTES, sizes


@needs_web
def test_the_pure_modules_pass_their_tests() -> None:
    bundle = [
        str(NODE),
        "node_modules/vite/bin/vite.js",
        "build",
        "--config",
        "vite.test.config.ts",
        "--logLevel",
        "warn",
    ]
    subprocess.run(bundle, cwd=WEB, check=True, timeout=120)  # noqa: S603
    tests = str(ROOT / "build" / "console-tests" / "all.mjs")
    run = [str(NODE), "--enable-source-maps", "--test", "--test-reporter=tap", tests]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^# pass [1-9]", done.stdout, re.MULTILINE), done.stdout
