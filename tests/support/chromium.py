"""Where a Chromium is, for the tests that want a real browser.

The one that `STREAMWEIR_CHROMIUM` names; else the system's; else the one that make unpacked into `.venv`
from a package (`tests/console/chromium`). make asks with `python -m support.chromium` whether it must.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
UNPACKED = ROOT / ".venv" / "chromium"
NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
    "chromium-headless-shell",
    "chrome-headless-shell",
    "headless_shell",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
"""On `PATH`, or where macOS has it."""


@dataclass(frozen=True)
class Chromium:
    program: str
    environ: Mapping[str, str] = field(default_factory=dict)
    """What it needs beside the environment of the test."""


def system_chromium(environ: Mapping[str, str]) -> Chromium | None:
    """One that is named is taken as it is: if there is none, the tests are to fail."""
    if named := environ.get("STREAMWEIR_CHROMIUM"):
        return Chromium(named)
    found = (shutil.which(name, path=environ.get("PATH")) for name in NAMES)
    return next((Chromium(program) for program in found if program is not None), None)


def find_chromium(environ: Mapping[str, str] = os.environ, unpacked: Path = UNPACKED) -> Chromium | None:
    if (found := system_chromium(environ)) is not None:
        return found
    program = unpacked / "chromium"
    if not program.exists():
        return None
    libraries = [str(unpacked / "lib"), *filter(None, [environ.get("LD_LIBRARY_PATH")])]
    more = {"LD_LIBRARY_PATH": os.pathsep.join(libraries), "FONTCONFIG_FILE": str(unpacked / "fonts.conf")}
    return Chromium(str(program), more)


if __name__ == "__main__":
    sys.exit(system_chromium(os.environ) is None)
