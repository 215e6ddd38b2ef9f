"""The release, made and used as others do: `make dist` in fresh clones, pip in empty environments, the gateway in one.

`make test-dist` runs this; it takes minutes, and needs the package index and npm's registry. The clones are of the last
commit. Without Node means: with a PATH on which there is none.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from email.parser import Parser
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

import pytest

from streamweir import __version__
from support.serve_process import Program, get

pytestmark = pytest.mark.dist

ROOT = Path(__file__).parents[2]
LIMIT_S = 1800
TOOLS = ("bash", "env", "git", "gzip", "sh", "tar", "uname")
"""Beside Python, what pip and git start."""
STATIC = "streamweir/console/static/"


def run(command: Sequence[str | Path], folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """In the environment of a person: without what the outer `make` and Python tell their children."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "PYTHON", "TMPDIR"))
    }
    return subprocess.run(  # noqa: S603
        [str(each) for each in command],
        cwd=folder,
        env=clean | environ,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
    )


def succeed(command: Sequence[str | Path], folder: Path, **environ: str) -> str:
    done = run(command, folder, **environ)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """On the disk, for the environments are large."""
    with TemporaryDirectory(prefix="streamweir-test-dist-", dir="/var/tmp") as folder:
        yield Path(folder)


def clone(folder: Path) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    succeed(["git", "clone", "-q", ROOT, folder], folder.parent)
    return folder


@pytest.fixture(scope="module")
def release(place: Path) -> Path:
    """What `make dist` leaves, as the first command in a fresh clone."""
    folder = clone(place / "one")
    succeed(["make", "dist"], folder, PYTHON=python())
    return folder / "dist"


@pytest.fixture(scope="module")
def without_node(place: Path) -> dict[str, str]:
    """An environment in which programs are found, but neither node nor npm."""
    folder = place / "bin"
    folder.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return {"PATH": str(folder)}


def python() -> str:
    """The interpreter of this environment, outside of it."""
    return f"{sys.base_prefix}/bin/python3"


def environment(folder: Path, *packages: str | Path) -> Path:
    """A new one. Its Python."""
    succeed([python(), "-m", "venv", folder], folder.parent)
    found = folder / "bin" / "python"
    if packages:
        succeed([found, "-m", "pip", "-q", "install", *packages], folder.parent)
    return found


def wheel_of(source: Path, python: Path, folder: Path, *flags: str, **environ: str) -> Path:
    succeed([python, "-m", "pip", "wheel", "-q", "--no-deps", *flags, "-w", folder, source], source.parent, **environ)
    return the(folder, ".whl")


def the(folder: Path, ending: str) -> Path:
    (found,) = folder.glob(f"*{ending}")
    return found


def page_of(wheel: Path) -> dict[str, str]:
    with ZipFile(wheel) as archive:
        return {name: digest(archive.read(name)) for name in archive.namelist() if name.startswith(STATIC)}


def files(folder: Path) -> dict[str, str]:
    return {path.name: digest(path.read_bytes()) for path in folder.iterdir()}


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def test_two_builds_are_equal(release: Path, place: Path) -> None:
    """The second one elsewhere, with another mask of modes, time zone and language."""
    folder = clone(place / "another folder" / "two")
    others = {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "PYTHON": python(), "NODE_ENV": "development"}
    succeed(["sh", "-c", "umask 077 && make dist"], folder, **others)
    assert files(folder / "dist") == files(release)
    assert {path.suffix for path in release.iterdir()} == {".whl", ".gz", ".json", ""}


def test_the_checksums_hold(release: Path) -> None:
    said = succeed(["sha256sum", "--check", "--strict", "SHA256SUMS"], release)
    assert said.count(": OK\n") == len(files(release)) - 1 == 3


def test_the_sbom_names_this_version(release: Path) -> None:
    sbom = json.loads(the(release, ".cdx.json").read_text())
    assert sbom["metadata"]["component"]["purl"] == f"pkg:pypi/streamweir@{__version__}"


def test_the_metadata_says_what_an_index_shows(release: Path) -> None:
    with ZipFile(the(release, ".whl")) as archive:
        folder = f"streamweir-{__version__}.dist-info"
        metadata = Parser().parsestr(archive.read(f"{folder}/METADATA").decode())
        names = archive.namelist()
    assert metadata["Version"] == __version__
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "all" in metadata.get_all("Provides-Extra", [])
    assert f"{folder}/licenses/LICENSE" in names
    assert "streamweir/py.typed" in names
    share = f"streamweir-{__version__}.data/data/share/"
    assert {name for name in names if not name.startswith(("streamweir/", f"{folder}/"))} == {
        f"{share}bash-completion/completions/streamweir",
        f"{share}zsh/site-functions/_streamweir",
        f"{share}fish/vendor_completions.d/streamweir.fish",
    }


def test_the_sdist_has_the_sources_and_nothing_that_was_made_on_the_way(release: Path) -> None:
    with tarfile.open(the(release, ".tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = set(succeed(["git", "ls-files"], ROOT).splitlines())
    assert {name for name in names - tracked if not name.startswith(f"src/{STATIC}")} == {"PKG-INFO"}
    assert {name for name in tracked - names if name.startswith(("src/", "tests/", "docs/", "scripts/"))} == set()


def test_a_wheel_of_the_sdist_needs_neither_node_nor_npm(
    release: Path, place: Path, without_node: Mapping[str, str]
) -> None:
    """It is the released one to the byte, when it is dated as that one."""
    builder = environment(place / "builder", "--require-hashes", "--no-deps", "-r", ROOT / "requirements/build.txt")
    at = succeed(["git", "log", "-1", "--format=%ct"], ROOT).strip()
    flags = ("--no-index", "--no-build-isolation")
    again = wheel_of(the(release, ".tar.gz"), builder, place / "again", *flags, SOURCE_DATE_EPOCH=at, **without_node)
    assert digest(again.read_bytes()) == digest(the(release, ".whl").read_bytes())


def test_pip_builds_a_clone_with_the_console_where_the_system_has_no_node(
    release: Path, place: Path, without_node: Mapping[str, str]
) -> None:
    folder = clone(place / "three")
    wheel = wheel_of(folder, environment(place / "plain"), place / "wheels", **without_node)
    assert page_of(wheel) == page_of(the(release, ".whl"))
    assert succeed(["git", "status", "--porcelain"], folder) == ""


def test_make_dist_of_changed_files_is_refused(release: Path) -> None:
    folder = release.parent
    with (folder / "README.md").open("a") as readme:
        readme.write("a change\n")
    done = run(["make", "dist"], folder)
    succeed(["git", "checkout", "-q", "README.md"], folder)
    assert done.returncode != 0
    assert "Not built: a package is made of a commit" in done.stdout
    assert "README.md" in done.stdout


async def test_the_wheel_works_in_an_empty_environment(release: Path, place: Path) -> None:
    pins = "\n".join(
        re.findall(r"^[a-z0-9.-]+==[^\\\n]*", (ROOT / "requirements/runtime.txt").read_text(), re.MULTILINE)
    )
    (place / "constraints.txt").write_text(pins)
    wheel = f"{the(release, '.whl')}[all]"
    found = await asyncio.to_thread(environment, place / "empty", "-c", place / "constraints.txt", wheel)
    program = found.with_name("streamweir")
    assert succeed([program, "--version"], place) == f"streamweir {__version__}\n"
    process = await asyncio.create_subprocess_exec(
        *(program, "serve", "--listen", "127.0.0.1:0", "--data-dir", place / "data"),
        cwd=place,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    gateway = Program(process)
    try:
        await gateway.started()
        page = await gateway.answer(get("/console"))
        assert (page.status, page.header("content-type")) == (200, "text/html; charset=utf-8")
        named = re.findall(r'(?:src|href)="(/console/[^"]+)"', page.body.decode())
        assert len(named) >= 3
        built = page_of(the(release, ".whl"))
        for path in (*named, "/console/licenses.txt"):
            assert digest((await gateway.answer(get(path))).body) == built[path.replace("/console/", STATIC)]
    finally:
        await gateway.end()
