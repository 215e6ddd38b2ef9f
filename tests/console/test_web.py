"""The page as it was built, and the tests that its pure modules have in their own language."""

import gzip
import re
import subprocess

import pytest

from streamweir.console.assets import STATIC
from support.web import NODE, ROOT, WEB, needs_page, needs_web

LARGEST_BYTES = 120_000
"""Of everything, compressed (spec: under 120 KB)."""


@needs_page
def test_the_page_is_small() -> None:
    sizes = {path.name: len(gzip.compress(path.read_bytes(), 9)) for path in STATIC.rglob("*.*")}
    assert sum(sizes.values()) < LARGEST_BYTES, sizes


@pytest.mark.parametrize(
    "files",
    [
        ("tests/console/test_roles.py",),
        ("tests/console/test_accessibility.py", "tests/console/test_people.py"),
        ("tests/console/test_phone.py", "tests/console/test_people.py"),
        ("scripts/screenshots.py",),
    ],
    ids=["roles", "accessibility", "phone", "screenshots"],
)
def test_every_page_is_looked_at(files: tuple[str, ...]) -> None:
    """By the address that `places.ts` gives it. test_people.py has the pages that need a person."""
    addresses = re.findall(r'{ to: "(/[^"]+)"', (WEB / "src" / "places.ts").read_text())
    text = "".join((ROOT / file).read_text() for file in files)
    assert len(addresses) >= 9
    assert [each for each in addresses if not re.search(rf'"{each}["?]', text)] == []


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
