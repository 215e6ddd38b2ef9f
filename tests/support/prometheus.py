"""A real Prometheus, where there is one: its checker of rules, and a server that reads gateways of tests.

The programs are in the folder that `STREAMWEIR_PROMETHEUS` names, else the system's; without them `why_absent` says so.
"""

import os
import shutil


def why_absent() -> str | None:
    """None: it is there."""
    if shutil.which("promtool", path=_path()) and shutil.which("prometheus", path=_path()):
        return None
    return "there is no Prometheus: install it (Debian: prometheus), or name its folder in STREAMWEIR_PROMETHEUS"


def promtool() -> str:
    return _program("promtool")


def prometheus() -> str:
    return _program("prometheus")


def _program(name: str) -> str:
    found = shutil.which(name, path=_path())
    assert found is not None
    return found


def _path() -> str:
    return os.environ.get("STREAMWEIR_PROMETHEUS") or os.environ.get("PATH", "")
