"""The SBOM of a release is valid, names everything that is installed or bundled, with hashes, and nothing else."""

import json
import re
import tomllib
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import cyclonedx.schema
import jsonschema_rs
import pytest
from scripts.sbom import make_sbom, pins_in

ROOT = Path(__file__).parents[1]
SCHEMAS = Path(cyclonedx.schema.__file__).parent / "_res"
AT = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
PINNED = [ROOT / "requirements" / name for name in ("runtime.txt", "local.txt")]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("dist")
    paths = [folder / name for name in ("streamweir-1.whl", "streamweir-1.tar.gz")]
    for path in paths:
        path.write_text(path.name)
    return paths


@pytest.fixture(scope="module")
def text(packages: list[Path]) -> str:
    return make_sbom(ROOT, packages, AT)


@pytest.fixture(scope="module")
def sbom(text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text)
    return document


def test_it_is_valid(sbom: dict[str, Any]) -> None:
    schemas = {path.name: json.loads(path.read_text()) for path in SCHEMAS.glob("*.SNAPSHOT.schema.json")}
    validator = jsonschema_rs.validator_for(
        schemas["bom-1.6.SNAPSHOT.schema.json"], retriever=lambda uri: schemas[uri.rpartition("/")[2]]
    )
    assert [error.message for error in validator.iter_errors(sbom)] == []
    broken = sbom | {"components": [{"name": "without a type"}]}
    assert not validator.is_valid(broken)


def test_two_are_equal_and_another_release_has_another_number(packages: list[Path], text: str, tmp_path: Path) -> None:
    assert make_sbom(ROOT, packages, AT) == text
    other = tmp_path / packages[0].name
    other.write_text("another release")
    again = json.loads(make_sbom(ROOT, [other, packages[1]], AT))
    assert again["serialNumber"] != json.loads(text)["serialNumber"]


def test_it_names_the_program_and_its_packages(sbom: dict[str, Any], packages: list[Path]) -> None:
    program = sbom["metadata"]["component"]
    assert (program["name"], program["type"]) == ("streamweir", "application")
    named = {each["url"]: each["hashes"][0]["content"] for each in program["externalReferences"]}
    assert named == {path.name: sha256(path.read_bytes()).hexdigest() for path in packages}
    assert sbom["metadata"]["timestamp"] == AT.isoformat()


def test_everything_that_pip_installs_is_in_it_with_every_hash(sbom: dict[str, Any]) -> None:
    found = {
        f"{each['name']}=={each['version']}": {one["content"] for one in each["hashes"]}
        for each in sbom["components"]
        if each["purl"].startswith("pkg:pypi/") and each["type"] == "library"
    }
    lines = "".join(path.read_text() for path in PINNED)
    assert found.keys() == set(re.findall(r"^[a-z0-9.-]+==[^ ]+", lines, re.MULTILINE))
    assert set().union(*found.values()) == set(re.findall(r"sha256:([0-9a-f]{64})", lines))


def test_what_an_extra_installs_says_so(sbom: dict[str, Any]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    by_name = {each["name"]: each for each in sbom["components"]}
    for requirement in project["dependencies"]:
        assert by_name[re.split(r"[<>=\[]", requirement)[0]]["scope"] == "required"
    for extra, requirements in project["optional-dependencies"].items():
        for name in {re.split(r"[<>=\[]", each)[0] for each in requirements} - {"streamweir"}:
            assert by_name[name]["scope"] == "optional"
            assert {"name": "streamweir:extra", "value": extra} in by_name[name]["properties"]


def test_what_is_bundled_is_in_it_and_what_only_builds_is_not(sbom: dict[str, Any]) -> None:
    urls = {each["purl"].rpartition("@")[0]: each for each in sbom["components"]}
    assert {"pkg:npm/preact", "pkg:npm/%40preact/signals", "pkg:npm/uplot", "pkg:pypi/genai-prices"} <= urls.keys()
    assert "pkg:npm/vite" not in urls
    assert all(each["licenses"] for url, each in urls.items() if url.startswith("pkg:npm/"))
    assert {len(each["hashes"][0]["content"]) for url, each in urls.items() if url.startswith("pkg:npm/")} == {128}


def test_everything_is_reached_from_the_program(sbom: dict[str, Any]) -> None:
    edges = {each["ref"]: each.get("dependsOn", []) for each in sbom["dependencies"]}
    left, reached = [sbom["metadata"]["component"]["bom-ref"]], set[str]()
    while left:
        ref = left.pop()
        reached.add(ref)
        left.extend(each for each in edges[ref] if each not in reached)
    assert {each["bom-ref"] for each in sbom["components"]} == reached - {sbom["metadata"]["component"]["bom-ref"]}


def test_no_address_of_an_index_is_in_it(text: str) -> None:
    assert re.findall(r'https?://[^"]*', text) == ["http://cyclonedx.org/schema/bom-1.6.schema.json"]


def test_a_pin_has_its_marker_and_who_needs_it() -> None:
    pin = pins_in(
        "# a comment\n"
        "one==1.0 ; python_version < '3.12' \\\n"
        f"    --hash=sha256:{'a' * 64} \\\n"
        f"    --hash=sha256:{'b' * 64}\n"
        "    # via\n"
        "    #   -c requirements/runtime.txt\n"
        "    #   two\n"
        "two==2.0 \\\n"
        f"    --hash=sha256:{'c' * 64}\n"
        "    # via streamweir (pyproject.toml)\n"
    )
    assert (pin["one"].marker, pin["one"].needed_by) == ("python_version < '3.12'", {"two"})
    assert pin["one"].hashes == ("a" * 64, "b" * 64)
    assert (pin["two"].marker, pin["two"].needed_by) == (None, set())
