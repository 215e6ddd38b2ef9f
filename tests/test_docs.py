"""What the documents say is true: their examples print what they show, and their links lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from streamweir.cli.main import main
from streamweir.config.load import load_config

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
EXAMPLE = re.compile(
    r"^```console\n\$ \.venv/bin/streamweir (?P<arguments>.*)\n(?P<output>(?:.*\n)*?)```$", re.MULTILINE
)
LINK = re.compile(r"\]\((?!https?:)(?P<path>[^)#]+)")
TARGET = re.compile(r"`make (?P<name>[a-z-]+)`|^make (?P<first>[a-z-]+)", re.MULTILINE)
EXAMPLES = [
    pytest.param(found["arguments"], found["output"], id=f"{path.name}: {found['arguments'].split()[1]}")
    for path in DOCUMENTS
    for found in EXAMPLE.finditer(path.read_text())
]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 2


def test_the_readme_can_be_read_in_two_minutes() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize(("arguments", "output"), EXAMPLES)
def test_example(arguments: str, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert CliRunner().invoke(main, shlex.split(arguments)).output == output


def test_the_configuration_in_the_readme_can_be_used(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```toml\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    file = tmp_path / "streamweir.toml"
    file.write_text(example)
    key = "sk-Qx7vLmZ2pKd9RtYw4HbNc8Jf"
    config = load_config(file, {"OPENAI_API_KEY": key, "ANTHROPIC_API_KEY": key, "MY_APP_KEY": key})
    assert [provider.name for provider in config.providers] == ["openai", "claude"]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    missing = [link["path"] for link in LINK.finditer(path.read_text()) if not (path.parent / link["path"]).exists()]
    assert missing == []


def test_named_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = {found["name"] or found["first"] for path in DOCUMENTS for found in TARGET.finditer(path.read_text())}
    assert [name for name in sorted(named) if f"\n{name}:" not in makefile] == []
