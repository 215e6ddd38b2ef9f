"""What the documents say is true: their examples print what they show, and their links lead somewhere."""

import json
import re
import shlex
import tomllib
from collections import Counter
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import click
import pytest
from click.testing import CliRunner

from streamweir.cli import commands
from streamweir.cli.main import main
from streamweir.config.address import base_url_of
from streamweir.config.load import load_config
from streamweir.frontends.chat.table import DIALECTS
from streamweir.providers.base import Wire
from streamweir.providers.model_listing import listing_of
from streamweir.providers.registry import wire_for, wires_of

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
EXAMPLE = re.compile(
    r"^```console\n\$ \.venv/bin/streamweir (?P<arguments>.*)\n(?P<output>(?:.*\n)*?)```$", re.MULTILINE
)
LINK = re.compile(r"\]\((?!https?:)(?P<path>[^)#]+)")
NAMED_FILE = re.compile(r"`((?:[\w-]+/)*[\w-]+\.(?:py|ts|tsx|lua|toml|txt|md)|(?:[\w-]+/)+)`")
CITED_MODULE = re.compile(r"`((?:[a-z_0-9]+\.)+[a-z_0-9]+)(?:\.[A-Z]\w*)*`")
NO_MODULES = {
    "http.disconnect",
    "providers.openai.base_url",
    "server.listen",
    "server.node",
    "server.timeouts.idle_s",
    "store.url",
}
"""Settings, and a word of ASGI."""
MEMBER = re.compile(r"`([A-Z]\w*[a-z]\w*)\.(\w+)`")
FOLDER = re.compile(r"(?P<indent> +)(?P<name>\w+)/ (?P<rest>.*)")
PACKAGE = ROOT / "src" / "streamweir"
GENERATED = re.compile(r"<!-- ([\w-]+): begin .*?<!-- \1: end -->", re.DOTALL)
"""Tables that scripts/conformance.py makes."""
PLACES = (ROOT, PACKAGE, PACKAGE / "console" / "web", ROOT / "tests", ROOT / "docs")
FOR_NEWCOMERS = [
    ROOT / "CONTRIBUTING.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("architecture", "extending", "glossary")),
    *(ROOT / "docs").glob("add-a-*.md"),
]
MADE_PART = re.compile(r"<!-- (\w+): made by scripts/generate\.py -->.*?<!-- /\1 -->", re.DOTALL)
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


ROUTING = re.findall(r"^```toml\n(.*?)^```$", (ROOT / "docs" / "routing.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(1, len(ROUTING)))
def test_each_recipe_of_routing_can_be_used(number: int, tmp_path: Path) -> None:
    """The first block has the providers of all recipes."""
    file = tmp_path / "streamweir.toml"
    file.write_text(f"{ROUTING[number]}\n{ROUTING[0]}")
    names = re.findall(r"\$\{(\w+)\}", file.read_text())
    config = load_config(file, {name: f"sk-Qx7vLmZ2pKd9RtYw4HbN-{name}" for name in names})
    assert config.models


CLOUDS = (ROOT / "docs" / "clouds.md").read_text()
CLOUD_FILES = re.findall(r"^```toml\n(.*?)^```$", CLOUDS, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(CLOUD_FILES)))
def test_each_configuration_of_a_cloud_can_be_used(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = tmp_path / "vault"
    vault.write_text("#!/bin/sh\necho of-a-vault\n")
    vault.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    file = tmp_path / "streamweir.toml"
    file.write_text(CLOUD_FILES[number])
    names = re.findall(r"\$\{(\w+)\}", file.read_text())
    config = load_config(file, {name: f"sk-Qx7vLmZ2pKd9RtYw4HbN-{name.replace('_', '-')}" for name in names})
    for provider in config.providers:
        listing, address = listing_of(provider.kind), base_url_of(provider)
        assert listing is not None
        assert address is not None
        assert listing.is_at_cloud(address)
        for model in config.models:
            wire = wire_for(provider.kind, model.targets[0].model)
            assert wire is {"claude": Wire.MESSAGES, "llama": Wire.CHAT}.get(model.id, wires_of(provider.kind)[0])


def test_every_cloud_has_a_configuration_and_its_policy_is_json() -> None:
    text = "".join(CLOUD_FILES)
    for word in ("bedrock", "bedrock-mantle", "vertex", "azure"):
        assert f'kind = "{word}"' in text
    (policy,) = re.findall(r"^```json\n(.*?)^```$", CLOUDS, re.MULTILINE | re.DOTALL)
    assert json.loads(policy)["Version"] == "2012-10-17"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    missing = [link["path"] for link in LINK.finditer(path.read_text()) if not (path.parent / link["path"]).exists()]
    assert missing == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_row_is_in_a_table(path: Path) -> None:
    """A row behind an empty line is shown as text."""
    blocks = re.sub(r"^( *)```.*?^\1```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL).split("\n\n")
    rows = [block.splitlines() for block in blocks if block.startswith("|")]
    assert [lines[0] for lines in rows if len(lines) < 2 or not re.fullmatch(r"\|(?: *:?-+:? *\|)+", lines[1])] == []


def test_every_term_of_the_glossary_is_there_once() -> None:
    terms = re.findall(r"^\| ([^|]+?) \|", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    counts = Counter(terms)
    assert [term for term, count in counts.items() if count > 1 and term != "term"] == []
    ambiguous = {term.partition(" (")[0] for term in terms if " (" in term}
    assert [term for term in terms if term in ambiguous] == []


def test_the_layers_on_the_page_are_those_that_are_checked() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text().partition("## Import rules")[2]
    contracts = {
        contract["id"]: [re.sub(r"[()]", "", layer) for layer in contract.get("layers", ())]
        for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    }
    whole, inside = (block.strip("\n").splitlines() for block in page.split("```")[1:4:2])
    assert whole == contracts["layers"]
    columns = [re.split(r" {3,}", f"{line}   ", maxsplit=1) for line in inside]
    assert [left.strip() for left, _ in columns if left.strip()] == contracts["server"]
    assert [right.strip() for _, right in columns if right.strip()] == contracts["store"]


def test_named_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = {found["name"] or found["first"] for path in DOCUMENTS for found in TARGET.finditer(path.read_text())}
    assert [name for name in sorted(named) if f"\n{name}:" not in makefile] == []


@pytest.mark.parametrize("path", FOR_NEWCOMERS, ids=lambda path: path.name)
def test_named_files_exist(path: Path) -> None:
    named = NAMED_FILE.findall(path.read_text())
    assert [name for name in named if not any((place / name).exists() for place in PLACES)] == []


@pytest.mark.parametrize("path", FOR_NEWCOMERS, ids=lambda path: path.name)
def test_named_members_exist(path: Path) -> None:
    sources = [file.read_text() for file in PACKAGE.rglob("*.py")]
    missing = [
        f"{owner}.{member}"
        for owner, member in MEMBER.findall(path.read_text())
        if not any(re.search(rf"^class {owner}\b", text, re.MULTILINE) and f" {member}" in text for text in sources)
    ]
    assert missing == []


def test_the_tree_lists_every_module() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    tree = page.partition("## The tree")[2].split("```")[1].partition("src/streamweir/\n")[2].partition("\nbench/")[0]
    listed: dict[Path, str] = {}
    parents: list[str] = []
    for line in tree.splitlines():
        folder = FOLDER.fullmatch(f"{line} ")
        if folder is not None and len(folder["indent"]) <= 8:
            parents = [*parents[: len(folder["indent"]) // 2 - 1], folder["name"]]
        place = PACKAGE.joinpath(*parents)
        listed[place] = listed.get(place, "") + line
    assert [place for place in listed if not place.is_dir()] == []
    missing = [
        file.relative_to(PACKAGE)
        for place, text in listed.items()
        for file in sorted(place.glob("*.py"))
        if file.stem != "__init__" and not re.search(rf"\b{file.stem}\b", text)
    ]
    assert missing == []
    folders = {file.parent for file in PACKAGE.glob("*/**/*.py")} - {PACKAGE / "store/db/migrations/versions"}
    unnamed = [place for place in folders if place not in listed and not is_named(place, listed)]
    assert sorted(str(place.relative_to(PACKAGE)) for place in unnamed) == []


def is_named(package: Path, listed: dict[Path, str]) -> bool:
    """In the text of a folder above it."""
    above = next((listed[place] for place in package.parents if place in listed), "")
    return re.search(rf"\b{package.name}\b", above) is not None


def test_a_list_of_the_dialects_has_each_of_them() -> None:
    """Of a paragraph that names all but one, that one was probably forgotten. docs/spec has tests of its own."""
    incomplete = []
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs").glob("*.toml"))):
        for paragraph in re.split(r"\n\n|\n(?=[|-] )", GENERATED.sub("", path.read_text())):
            unnamed = [name for name in DIALECTS if not re.search(rf"\b{name}\b", paragraph)]
            if len(unnamed) == 1:
                incomplete.append((path.name, unnamed[0], paragraph.strip()[:80]))
    assert incomplete == []


def test_every_command_is_shown_on_a_page() -> None:
    """By hand: the reference of docs/cli.md has all of them by itself."""
    pages = [MADE_PART.sub("", path.read_text()) for path in DOCUMENTS if path.name != "CHANGELOG.md"]
    shown = {name for page in pages for name in re.findall(r"streamweir ([a-z]+)", page)}
    with click.Context(main) as context:
        assert [name for name in main.list_commands(context) if name not in shown] == []


def test_every_module_of_a_command_is_listed() -> None:
    """In `cli/main.py`."""
    names = [module.name for module in walk_packages(commands.__path__, f"{commands.__name__}.")]
    declared = {name: getattr(import_module(name), "command", None) for name in names}
    with click.Context(main) as context:
        listed = {main.get_command(context, name) for name in main.list_commands(context)}
    assert [name for name, it in declared.items() if isinstance(it, click.Command) and it not in listed] == []


def test_the_page_on_the_console_lists_every_page() -> None:
    places = re.findall(r'{ to: "[^"]*", name: "(\w+)"', (PACKAGE / "console/web/src/places.ts").read_text())
    page = (ROOT / "docs" / "console.md").read_text()
    assert len(places) >= 9
    assert [name for name in places if f"| {name} |" not in page] == []


def test_modules_that_are_cited_in_the_source_exist() -> None:
    """A name that begins with a package of ours leads to a module, or to something in one: `core.usage.Usage`."""
    missing = set()
    for file in sorted(PACKAGE.rglob("*.py")):
        for name in set(CITED_MODULE.findall(file.read_text())) - NO_MODULES:
            place, parts = PACKAGE, name.removeprefix("streamweir.").split(".")
            if parts[0] == "api":
                place = PACKAGE / "server" / "control"
            while parts and (place / parts[0]).is_dir():
                place, parts = place / parts[0], parts[1:]
            if place != PACKAGE and parts and not (place / f"{parts[0]}.py").exists():
                missing.add(f"{file.relative_to(PACKAGE)}: {name}")
    assert sorted(missing) == []
