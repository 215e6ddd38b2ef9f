"""The reference page says of every key what the types say, and of nothing else; its examples are true."""

import os
import re
from collections.abc import Iterator
from json import dumps
from pathlib import Path

import pytest
from msgspec import NODEFAULT, Struct, inspect

from streamweir.config.address import BUILT_IN, base_url_of
from streamweir.config.check import kinds
from streamweir.config.display.difference import FOR_RESTART
from streamweir.config.error import ConfigError
from streamweir.config.file.schema import default_of, describe, field_of
from streamweir.config.load import load_config
from streamweir.config.model import Config, DatedPrice, Price, PriceTier, Provider, ServiceTier
from streamweir.providers.registry import has_responses, provider_names

DOCS = Path(__file__).parents[2] / "docs"
PACKAGE = DOCS.parent / "src" / "streamweir"
PAGE = (DOCS / "configuration.md").read_text()
TABLE = re.compile(r"^### `(?P<name>\[.*\])`\n\n(?P<rows>(?:\|.*\n)+)", re.MULTILINE)
Rows = dict[str, tuple[str, str]]
ONCE: dict[type, str] = {
    DatedPrice: "models.price",
    Price: "models.price",
    PriceTier: "models.price.tiers",
    ServiceTier: "models.price.service_tiers",
}
"""The tables that several settings have, and where they are listed."""


def shown(value: object) -> str:
    """A default as the page writes it."""
    if value is NODEFAULT:
        return "required"
    if value is None:
        return "none"
    if isinstance(value, Struct):
        return "its own"
    if value in ((), {}):
        return "empty"
    return f"`{value:g}`" if isinstance(value, float) else f"`{dumps(value)}`"


def tables_of(info: inspect.StructType, path: str = "") -> Iterator[tuple[str, Rows]]:
    """Every table of the types by its TOML header, with type and default of each key."""
    rows = {}
    for field in info.fields:
        rows[field.encode_name] = describe(field.type), shown(default_of(field))
        inner, name = field_of(field.type).type, f"{path}.{field.name}".lstrip(".")
        if isinstance(inner, inspect.VarTupleType) and isinstance(inner.item_type, inspect.StructType):
            yield from named(inner.item_type, name, f"[[{name}]]")
        elif isinstance(inner, inspect.StructType):
            yield from named(inner, name, f"[{name}]")
    yield "", rows


def named(info: inspect.StructType, path: str, header: str) -> Iterator[tuple[str, Rows]]:
    if ONCE.get(info.cls, path) != path:
        return
    for name, rows in tables_of(info, path):
        yield name or header, rows


def types() -> dict[str, Rows]:
    info = inspect.type_info(Config)
    assert isinstance(info, inspect.StructType)
    return {name: rows for name, rows in tables_of(info) if name}


def cells(rows: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in rows.splitlines()[2:]]


def page() -> dict[str, Rows]:
    return {
        table["name"]: {key.strip("`"): (kind, default) for key, kind, default, _ in cells(table["rows"])}
        for table in TABLE.finditer(PAGE)
    }


def test_the_page_has_every_table() -> None:
    assert sorted(page()) == sorted(types())


@pytest.mark.parametrize("table", sorted(types()))
def test_a_table_of_the_page_is_the_types(table: str) -> None:
    assert list(page()[table].items()) == list(types()[table].items())


def test_the_page_has_the_settings_that_need_a_restart() -> None:
    (sentence,) = re.findall(r"reported\. ([^.]*\.[^;:]*?) need a restart\.", PAGE)
    assert re.findall(r"`([\w.]+)`", sentence) == list(FOR_RESTART)


def test_every_key_is_read_somewhere() -> None:
    """Whether it then has an effect, only a test of that can tell."""
    files = [path for path in PACKAGE.rglob("*.py") if path.name != "model.py"]
    source = "".join(path.read_text() for path in files)
    keys = {key for rows in types().values() for key in rows}
    assert [key for key in sorted(keys) if not re.search(rf"\.{key}\b|\"{key}\"", source)] == []


@pytest.mark.parametrize("table", list(TABLE.finditer(PAGE)), ids=lambda table: table["name"])
def test_every_key_has_a_meaning(table: re.Match[str]) -> None:
    assert all(len(row) == 4 and row[3] for row in cells(table["rows"]))


def test_the_page_has_every_kind_with_its_address() -> None:
    rows = PAGE.partition("## The kinds")[2]
    listed = {kind.strip("`"): address for kind, address, *_ in cells(rows[rows.index("|") :])}
    assert listed == {kind: address_of(kind) for kind in kinds()}


def address_of(kind: str) -> str:
    project, region = "x" if kind == "vertex" else None, "REGION" if kind.startswith("bedrock") else None
    address = base_url_of(Provider(name="p", kind=kind, project=project, region=region))
    if address is None:
        return "none" if kind in BUILT_IN else "required"
    return f"`{address}`"


def load(folder: Path, text: str) -> Config:
    names = re.findall(r"\$\{(\w+)\}", text)
    (folder / "streamweir.toml").write_text(text)
    return load_config(folder / "streamweir.toml", {name: f"8d1f{at}0a93c57b28e4" for at, name in enumerate(names)})


def test_the_example_file(tmp_path: Path) -> None:
    config = load(tmp_path, (DOCS / "streamweir.example.toml").read_text())
    assert len(config.providers) == 6


def with_providers(example: str) -> str:
    """The example with the providers that it names and does not have."""
    named = dict.fromkeys(re.findall(r'provider = "([a-z]+)"', example))
    missing = [name for name in named if f'\nname = "{name}"' not in example]
    places = [(name, name if name in kinds() else "sim") for name in missing]
    more = "".join(
        f'[[providers]]\nname = "{name}"\nkind = "{kind}"\n' + 'project = "acme"\n' * (kind == "vertex")
        for name, kind in places
    )
    return example + more


def test_the_examples_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "openai-eu").write_text("sk-5c1d9ab7\n")
    (tmp_path / "anthropic").write_text("sk-ant-5c1d9ab7\n")
    (tmp_path / "vault").write_text('#!/bin/sh\n[ "$*" = "kv get -field=key secret/openai" ] && echo sk-of-the-vault\n')
    (tmp_path / "vault").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    page = PAGE.replace("/run/secrets/", "")
    examples = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    configs = [load(tmp_path, with_providers(example)) for example in examples]
    assert configs[0].keys[0].name == "ci"
    places = [provider for config in configs for provider in config.providers]
    own_keys = [(each.name, each.weight) for provider in places for each in provider.api_keys]
    assert {"sk-of-the-vault", "sk-ant-5c1d9ab7"} <= {provider.api_key for provider in places}
    assert own_keys == [("1", 1), ("batch", 3), ("eu", 1)]
    targets = [target for config in configs for model in config.models for target in model.targets]
    assert {provider.rpm for provider in places} == {None, 600}
    assert {target.max_streams for target in targets} == {None, 20}
    named = [[model.id for model in config.models] for config in configs]
    assert ["claude-*", "claude-*haiku*", "claude-opus-5-5"] in named
    assert ["chat"] in named
    assert ["chat", "spare", "long"] in named


def test_the_aliases_for_claude_code(tmp_path: Path) -> None:
    page = (DOCS / "claude-code.md").read_text()
    (aliases,) = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    config = load(tmp_path, f'[[providers]]\nname = "openai"\nkind = "openai"\n{aliases}')
    assert [model.id for model in config.models] == ["claude-*", "claude-*haiku*"]


def test_the_mistakes_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = '[server.timeouts]\nidle_s = "abc"\n[[providers]]\nname = "openai"\nkind = "openai"\napi_kye = "x"\n'
    Path("streamweir.toml").write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_config(Path("streamweir.toml"), {})
    assert all(f"  {line}\n" in PAGE for line in str(refused.value).splitlines())
    assert len(refused.value.problems) == 2


def test_the_kinds_with_a_second_wire_are_those_in_the_table() -> None:
    _, _, section = PAGE.partition("\n## The wire\n")
    listed = section.partition("The kinds that have this API:")[2].partition(".")[0]
    assert re.findall(r"`([a-z-]+)`", listed) == [name for name in provider_names() if has_responses(name)]
