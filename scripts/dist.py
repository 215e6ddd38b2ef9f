"""`make dist`: the wheel, the sdist, the SBOM and the checksums of the commit that is checked out, in `dist`.

    python -m scripts.dist

The commit is exported into a temporary folder, so nothing else can get into a package, and its date is the date of
every file. The console is built once, for the sdist. The wheel is built from the unpacked sdist, as pip builds one from
it. Two builds of one commit have the same bytes, wherever they are made (`make test-dist` compares two).
"""

import io
import os
import shutil
import subprocess
import sys
import tarfile
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.sbom import make_sbom

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
SUMS = "SHA256SUMS"


class NotBuilt(Exception):
    """Its text says why, and what to do."""


def main() -> int:
    try:
        with TemporaryDirectory(prefix="streamweir-dist-") as folder:
            build(Path(folder))
    except NotBuilt as reason:
        sys.stderr.write(f"Not built: {reason}\n")
        return 1
    sys.stdout.write("".join(f"dist/{path.name}: {path.stat().st_size} bytes\n" for path in sorted(DIST.iterdir())))
    return 0


def build(folder: Path) -> None:
    at = int(_git("log", "-1", "--format=%ct"))
    if changed := _git("status", "--porcelain", "--untracked-files=no").decode():
        raise NotBuilt(
            f"a package is made of a commit, and these files are changed. Commit or restore them:\n{changed}"
        )
    source, made = folder / "source", folder / "dist"
    _unpack(_git("archive", "--format=tar", "HEAD"), source)
    sys.stdout.write("Building the console and the packages\n")
    sys.stdout.flush()
    sdist = _hatchling("sdist", source, made, at)
    _unpack(sdist.read_bytes(), folder / "unpacked")
    (unpacked,) = (folder / "unpacked").iterdir()
    wheel = _hatchling("wheel", unpacked, made, at)
    sbom = make_sbom(source, [wheel, sdist], datetime.fromtimestamp(at, UTC))
    (made / f"{sdist.name.removesuffix('.tar.gz')}.cdx.json").write_text(sbom)
    sums = [f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(made.iterdir())]
    (made / SUMS).write_text("".join(sums))
    shutil.rmtree(DIST, ignore_errors=True)
    shutil.copytree(made, DIST)


def _git(*arguments: str) -> bytes:
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout  # noqa: S603, S607
    except (OSError, subprocess.CalledProcessError) as error:
        reason = error.stderr.decode() if isinstance(error, subprocess.CalledProcessError) else str(error)
        raise NotBuilt(
            f"git has to name the commit. Run this in a clone of the repository ({reason.strip()})"
        ) from None


def _unpack(archive: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")


def _hatchling(target: str, source: Path, made: Path, at: int) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(made)]
    before = set(made.glob("*"))
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(at)}
    done = subprocess.run(command, cwd=source, env=environ, capture_output=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise NotBuilt(f"the {target} failed.\n{(done.stdout + done.stderr).decode().strip()}")
    (path,) = set(made.glob("*")) - before
    return path


if __name__ == "__main__":
    sys.exit(main())
