"""What is installed is pinned, and the files that pin it name neither an index nor a machine."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from streamweir import __version__
from streamweir.config.load import load_config
from streamweir.store.db.migrations import HEAD

ROOT = Path(__file__).parents[1]
PINNED = sorted(ROOT.glob("requirements/*.txt"))
APART = sorted([*ROOT.glob("sdks/*/requirements.txt"), *ROOT.glob("bench/*/requirements.txt")])
"""Installed into environments of their own: they need not agree with the others."""
CONSOLE = ROOT / "src/streamweir/console/web/package-lock.json"
CHROMIUM = ROOT / "tests/console/chromium/package-lock.json"
AGENTS = ROOT / "tests/agents/package-lock.json"
LOCKED = sorted(
    [*ROOT.glob("sdks/*/package-lock.json"), *ROOT.glob("bench/*/package-lock.json"), CONSOLE, CHROMIUM, AGENTS]
)
NATIVE = ("@rolldown/binding", "@typescript/typescript", "lightningcss")
"""What the console is built with and is there once for each platform."""
PLATFORMS = {(system, cpu) for system in ("linux", "darwin") for cpu in ("x64", "arm64")}
DESCRIPTION = ROOT / "docs" / "package.md"
"""What a package index shows."""
VITE_RUNS_ON = "^20.19.0 || >=22.12.0"
LINE = re.compile(
    r"""
      \#.*                                                # a comment
    | [a-z0-9][a-z0-9.-]*(?:\[[a-z,]+\])?==(?:\d+!)?[\w.]+(?:\ ;\ [^\\]+)?\ \\   # a pin, perhaps for some platforms
    | [ ]{4}--hash=sha256:[0-9a-f]{64}(?:\ \\)?
    | [ ]{4}\#[ ]+(?:via.*|-[rc]\ requirements/\S+|[\w.-]+(?:\ \(pyproject.toml\))?)
    """,
    re.VERBOSE,
)


def names_in(text: str) -> set[str]:
    return set(re.findall(r"^[a-z0-9][a-z0-9.-]*", text, re.MULTILINE))


@pytest.mark.parametrize("path", [*PINNED, *APART], ids=lambda path: str(path.relative_to(ROOT)))
def test_a_requirement_file_holds_pins_and_hashes_only(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    assert any("--hash=sha256:" in line for line in lines)


@pytest.mark.parametrize("path", LOCKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_lock_file_of_npm_holds_hashes_and_no_address(path: Path) -> None:
    packages = {name: package for name, package in json.loads(path.read_text())["packages"].items() if name}
    assert [name for name, package in packages.items() if "resolved" in package] == []
    assert [name for name, package in packages.items() if "integrity" not in package] == []


@pytest.mark.parametrize("name", NATIVE)
def test_the_console_can_be_built_on_every_platform(name: str) -> None:
    """npm writes down those alone that it can find, and says nothing of the others."""
    packages = json.loads(CONSOLE.read_text())["packages"]
    found = [package for path, package in packages.items() if path.startswith(f"node_modules/{name}-")]
    assert {(system, cpu) for package in found for system in package["os"] for cpu in package["cpu"]} >= PLATFORMS


def test_node_is_judged_by_what_vite_asks_for() -> None:
    """By src/streamweir/console/web/supported_node.cjs, whose numbers are these."""
    assert json.loads(CONSOLE.read_text())["packages"]["node_modules/vite"]["engines"]["node"] == VITE_RUNS_ON


def test_what_is_wanted_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = {re.split(r"[<>=\[ ]", text)[0] for text in project["project"]["dependencies"]}
    assert wanted <= names_in((ROOT / "requirements/runtime.txt").read_text())
    for source in ROOT.glob("requirements/*.in"):
        assert names_in(source.read_text()) <= names_in(source.with_suffix(".txt").read_text())


def test_one_pin_for_one_package() -> None:
    pins = {line.split(" ")[0] for path in PINNED for line in path.read_text().splitlines() if "==" in line}
    names = [pin.split("==")[0] for pin in pins]
    assert sorted(names) == sorted(set(names)), "the files would install over each other"


def test_the_extra_all_names_every_other_but_the_large_one() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (named,) = extras["all"]
    assert set(named.removeprefix("streamweir[").rstrip("]").split(",")) == set(extras) - {"all", "local"}


def test_the_page_of_the_package_lists_every_extra_and_what_it_installs() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| ([\w-]*) ?\|$", DESCRIPTION.read_text(), re.MULTILINE))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert rows == {"all": ""} | {name: re.split("[<>=]", each[0])[0] for name, each in extras.items() if name != "all"}


def test_the_page_of_the_package_has_no_link_into_the_repository() -> None:
    """A package index shows it without the files beside it."""
    assert re.findall(r"\]\(([^)]*)\)", DESCRIPTION.read_text()) == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert ROOT / project["readme"] == DESCRIPTION


def test_the_configuration_on_the_page_of_the_package_can_be_used(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```toml\n(.*?)^```$", DESCRIPTION.read_text(), re.MULTILINE | re.DOTALL)
    file = tmp_path / "streamweir.toml"
    file.write_text(example)
    key = "sk-Qx7vLmZ2pKd9RtYw4HbNc8Jf"
    assert [model.id for model in load_config(file, {"OPENAI_API_KEY": key, "MY_APP_KEY": key}).models] == ["best"]


def test_the_changelog_and_the_upgrade_notes_have_the_version() -> None:
    assert f"\n## [{__version__}] - " in (ROOT / "CHANGELOG.md").read_text()
    assert f"\n## {__version__}\n" in (ROOT / "docs/upgrading.md").read_text()


def test_the_changelog_and_the_upgrade_notes_have_the_schema_of_the_database() -> None:
    """Whoever upgrades learns from them whether all old processes must stop."""
    latest = (ROOT / "CHANGELOG.md").read_text().split("\n## [")[1]
    assert re.findall(r"schema of the database is (\d+)", latest) == [HEAD]
    notes = (ROOT / "docs/upgrading.md").read_text().split("\n## ")[1]
    assert re.findall(r"schema changes\s+to (\d+)", notes) == [HEAD]
    assert re.findall(r"^\| (\d{4}) \|", notes, re.MULTILINE)[-1] == HEAD
