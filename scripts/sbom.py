"""The SBOM of a release, in CycloneDX's JSON: what the program installs, with hashes, and what its packages contain.

`scripts.dist` calls it. Everything is read from files of the repository: requirements/*.txt for what pip installs,
package-lock.json for what is bundled into the console, and the built-in price list for where it is from. Nothing of the
machine and nothing of the moment is in it, so two builds of a commit have the same one.
"""

import base64
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import (
    ExternalReference,
    ExternalReferenceType,
    HashAlgorithm,
    HashType,
    Property,
    XsUri,
)
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

LOCAL = "local"
"""The extra whose pins are in a file of its own, requirements/local.txt."""
_PIN = re.compile(
    r"""
      ^(?P<name>[a-z0-9][a-z0-9.-]*)(?:\[[^]]*\])?==(?P<version>\S+)(?:\ ;\ (?P<marker>[^\\\n]+?))?\ \\\n
      (?P<hashes>(?:[ ]{4}--hash=sha256:[0-9a-f]{64}(?:\ \\)?\n)+)
      (?P<needed_by>(?:[ ]{4}\#.*\n?)*)
    """,
    re.MULTILINE | re.VERBOSE,
)
_NEEDED_BY = re.compile(r"^[ ]{4}#(?:[ ]via[ ]|[ ]{3})(?P<name>[a-z0-9][a-z0-9.-]*)$", re.MULTILINE)
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Part:
    """Components by name, the names of those that the program needs itself, and what each needs."""

    components: dict[str, Component]
    direct: set[str]
    edges: dict[str, list[str]]


@dataclass
class Pin:
    name: str
    version: str
    marker: str | None
    hashes: tuple[str, ...]
    needed_by: set[str] = field(default_factory=set)


def make_sbom(root: Path, packages: Sequence[Path], at: datetime) -> str:
    """`packages`: the built wheel and sdist, which it names with their hashes."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    program = _program(root, project, packages)
    bom = Bom(
        # Of the packages' bytes: another release has another number, another build of the same one has not.
        serial_number=uuid5(NAMESPACE_URL, "".join(_digest(path) for path in packages)),
        metadata=BomMetaData(component=program, timestamp=at),
    )
    for part in (_installed(root, project), _bundled(root), _data(root)):
        bom.components.update(part.components.values())
        bom.register_dependency(program, [part.components[name] for name in part.direct])
        for name, needed in part.edges.items():
            bom.register_dependency(part.components[name], [part.components[each] for each in needed])
    text: str = JsonV1Dot6(bom).output_as_string(indent=2)
    return f"{text}\n"


def pins_in(text: str) -> dict[str, Pin]:
    """Of a file that `make lock` has written."""
    return {
        found["name"]: Pin(
            found["name"],
            found["version"],
            found["marker"],
            tuple(re.findall(r"sha256:([0-9a-f]{64})", found["hashes"])),
            {each["name"] for each in _NEEDED_BY.finditer(found["needed_by"])},
        )
        for found in _PIN.finditer(text)
    }


def _program(root: Path, project: Mapping[str, object], packages: Iterable[Path]) -> Component:
    found = re.search(r'^__version__ = "([^"]+)"$', (root / "src/streamweir/__init__.py").read_text(), re.MULTILINE)
    if found is None:
        raise ValueError("src/streamweir/__init__.py has no __version__")
    name, version = str(project["name"]), found[1]
    url = PackageURL("pypi", name=name, version=version)
    return Component(
        type=ComponentType.APPLICATION,
        name=name,
        version=version,
        description=str(project["description"]),
        licenses=[LicenseExpression(str(project["license"]))],
        purl=url,
        bom_ref=str(url),
        external_references=[
            ExternalReference(
                type=ExternalReferenceType.DISTRIBUTION,
                url=XsUri(path.name),
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=_digest(path))],
            )
            for path in packages
        ],
    )


def _installed(root: Path, project: Mapping[str, object]) -> Part:
    pins: dict[str, Pin] = {}
    for file in ("runtime.txt", f"{LOCAL}.txt"):
        for name, pin in pins_in((root / "requirements" / file).read_text()).items():
            pins.setdefault(name, pin).needed_by |= pin.needed_by
    edges = {name: sorted(other for other, pin in pins.items() if name in pin.needed_by) for name in pins}
    direct = _names(project["dependencies"])
    wanted = {extra: _names(each) for extra, each in _table(project["optional-dependencies"]).items()}
    required = _closure(direct, edges)
    extras = {extra: _closure(names, edges) - required for extra, names in wanted.items()}
    components = {}
    for name, pin in pins.items():
        url = PackageURL("pypi", name=name, version=pin.version)
        properties = [Property(name="streamweir:extra", value=extra) for extra in extras if name in extras[extra]]
        if pin.marker is not None:
            properties.append(Property(name="streamweir:marker", value=pin.marker))
        components[name] = Component(
            name=name,
            version=pin.version,
            scope=ComponentScope.REQUIRED if name in required else ComponentScope.OPTIONAL,
            # One for each file of the release: sdist, and wheels for the platforms.
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=each) for each in pin.hashes],
            purl=url,
            bom_ref=str(url),
            properties=properties,
        )
    return Part(components, direct.union(*wanted.values()), edges)


def _bundled(root: Path) -> Part:
    """The npm packages whose code is in the console: those that package-lock.json does not need for building only."""
    lock = json.loads((root / "src/streamweir/console/web/package-lock.json").read_text())["packages"]
    packages = {
        path.removeprefix("node_modules/"): package
        for path, package in lock.items()
        if path and not package.get("dev") and not package.get("optional")
    }
    components, edges = {}, {}
    for name, package in packages.items():
        scope, _, own = name.rpartition("/")
        algorithm, _, digest = package["integrity"].partition("-")
        if algorithm != "sha512":
            raise ValueError(f"package-lock.json: the hash of {name} is not SHA-512")
        url = PackageURL("npm", namespace=scope or None, name=own, version=package["version"])
        components[name] = Component(
            name=own,
            group=scope or None,
            version=package["version"],
            scope=ComponentScope.REQUIRED,
            hashes=[HashType(alg=HashAlgorithm.SHA_512, content=base64.b64decode(digest).hex())],
            licenses=[LicenseExpression(package["license"])],
            purl=url,
            bom_ref=str(url),
            properties=[Property(name="streamweir:bundled", value="console")],
        )
        needed = {*package.get("dependencies", ()), *package.get("peerDependencies", ())} & packages.keys()
        edges[name] = sorted(needed)
    return Part(components, set(lock[""]["dependencies"]), edges)


def _data(root: Path) -> Part:
    prices = json.loads((root / "src/streamweir/store/prices/prices.json").read_text())
    name, version = prices["source"].partition(",")[0].split(" ")
    url = PackageURL("pypi", name=name, version=version)
    data = Component(
        type=ComponentType.DATA,
        name=name,
        version=version,
        description="the built-in price list is made from its data",
        scope=ComponentScope.REQUIRED,
        licenses=[DisjunctiveLicense(name=prices["licence"].splitlines()[0])],
        purl=url,
        bom_ref=str(url),
        properties=[Property(name="streamweir:bundled", value="prices")],
    )
    return Part({name: data}, {name}, {name: []})


def _names(requirements: object) -> set[str]:
    """Without the names of this project, by which an extra names others."""
    if not isinstance(requirements, list):
        raise TypeError("pyproject.toml: no list of requirements")
    return {found[0] for each in requirements if (found := _NAME.match(each)) and found[0] != "streamweir"}


def _table(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise TypeError("pyproject.toml: no table of extras")
    return value


def _closure(names: Iterable[str], edges: Mapping[str, Sequence[str]]) -> set[str]:
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left.extend(edges[name])
    return found


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
