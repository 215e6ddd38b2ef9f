"""docs/conformance.md is what the rules and the recordings say."""

import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from streamweir.cli.main import main
from support import valid_answers as right
from support.corpus import ROOT as CORPUS
from support.corpus import WHY_MISSING

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "conformance.md").read_text()
HOW = "run `python scripts/conformance.py`"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("conformance_script", ROOT / "scripts" / "conformance.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_rules(script: ModuleType) -> None:
    assert script.with_rules(PAGE) == PAGE, HOW


@pytest.mark.soak
@pytest.mark.skipif(not (CORPUS / "manifest.json").exists(), reason=WHY_MISSING)
def test_the_page_has_what_the_recordings_show(script: ModuleType) -> None:
    assert script.with_providers(PAGE, CORPUS) == PAGE, HOW


def test_a_page_without_marks_is_refused(script: ModuleType) -> None:
    with pytest.raises(SystemExit, match="has no marks for rules"):
        script.with_rules("# Conformance\n")


def test_the_command_holds_a_recorded_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (command,) = re.findall(r"^```\nstreamweir (check recorded\.sse .*)\n```$", PAGE, re.MULTILINE)
    (tmp_path / "recorded.sse").write_bytes(right.written(right.text("aivene"), "aivene"))
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, shlex.split(command))
    assert (result.exit_code, result.output.splitlines()[-1].partition(":")[0]) == (0, "aivene")


def test_the_example_in_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = [part.partition("```")[0] for part in PAGE.split("```python\n")[1:]]
    exec(compile(example, "docs/conformance.md", "exec"), {})  # noqa: S102 (our own page)
    assert capsys.readouterr().out == "order.answer broken no choice and no error; this is the last frame 0\n"
