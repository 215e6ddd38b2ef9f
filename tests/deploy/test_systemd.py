"""The unit for systemd: it has no mistake, few rights, and time for the gateway to drain."""

import re
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

from streamweir.cli.commands.serve import command as serve
from streamweir.config.model import Timeouts

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy/systemd/streamweir.service"
ANALYZE = shutil.which("systemd-analyze")
MOST_EXPOSED = 15
"""In tenths: what `systemd-analyze security` calls OK ends at 2.0."""

needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="there is no systemd-analyze")


def service() -> dict[str, str]:
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign] # as configparser documents it
    parser.read_string(UNIT.read_text())
    return dict(parser["Service"])


def analyze(folder: Path, text: str, *words: str) -> str:
    """A program that exists is started, in place of the gateway's."""
    assert ANALYZE is not None
    unit = folder / UNIT.name
    unit.write_text(text.replace("/opt/streamweir/bin/streamweir", sys.executable))
    command = [ANALYZE, *words, str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603
    return done.stdout + done.stderr


@needs_systemd
def test_systemd_has_no_complaint(tmp_path: Path) -> None:
    assert analyze(tmp_path, UNIT.read_text(), "verify", "--man=no") == ""


@needs_systemd
def test_a_mistyped_setting_would_be_found(tmp_path: Path) -> None:
    text = UNIT.read_text().replace("NoNewPrivileges=", "NoNewPrivilege=")
    assert "NoNewPrivilege" in analyze(tmp_path, text, "verify", "--man=no")


@needs_systemd
def test_the_service_has_few_rights(tmp_path: Path) -> None:
    report = analyze(tmp_path, UNIT.read_text(), "security", "--offline=true", "--no-pager")
    if "unrecognized option" in report:
        pytest.skip("this systemd judges running units alone")
    (exposure,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", report)
    assert round(float(exposure) * 10) <= MOST_EXPOSED


def test_the_command_is_one_of_the_program_and_uses_the_folder_that_systemd_makes() -> None:
    program, name, *words = service()["ExecStart"].split()
    assert program == "/opt/streamweir/bin/streamweir"
    assert name == serve.name
    context = serve.make_context(name, words)
    assert str(context.params["data_dir"]) == f"/var/lib/{service()['StateDirectory']}"


def test_the_service_may_drain_as_long_as_the_gateway_does() -> None:
    assert int(service()["TimeoutStopSec"]) > Timeouts().lame_duck_s + Timeouts().drain_s
    assert service()["KillMode"] == "mixed", "the supervisor stops its workers itself"
