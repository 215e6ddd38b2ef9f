"""The image of the gateway: built by Docker or Podman with the Dockerfile as it is, and run.

    engine = find_engine()
    image = engine.build(engine.base())
    with engine.started(image, "-e", f"STREAMWEIR_KEY={KEY}") as container:
        client = await RawClient.open(container.address)

`STREAMWEIR_CONTAINER_ENGINE` names a program that takes Docker's commands. Where the base of the Dockerfile can be
pulled from no registry, it is made from packages of the same release of Debian. How pip and npm find their indexes
on this machine is given to the build as its secrets, so nothing of it stays in an image.
"""

import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "Dockerfile"
STORAGE = ROOT / "build/image"
"""Of Podman: its images stay, so that the next run is faster; `make clean` removes them."""
COMMAND_TIMEOUT_S = 120
BUILD_TIMEOUT_S = 3600
PACKAGES = "python3-venv,ca-certificates"
_FILES_AND_PROCESSES = "4096:4096"
_DEBIAN = "localhost/streamweir-base"
_OPTIONS = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "default-timeout")
"""Of pip."""
LOCKED_DOWN = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--tmpfs=/tmp:size=64m")
"""As compose.yaml and the chart run it."""


class Unavailable(Exception):
    """The text is the reason."""


class CommandFailed(Exception):
    """The text is what the command said."""


@dataclass(frozen=True)
class Container:
    engine: "Engine"
    name: str

    @property
    def address(self) -> tuple[str, int]:
        """Where its port 8080 is published."""
        host, _, port = self.engine.run("port", self.name, "8080/tcp").splitlines()[0].rpartition(":")
        return host, int(port)

    def execute(self, *words: str) -> str:
        return self.engine.run("exec", self.name, *words)

    def stop(self) -> int:
        """With SIGTERM, and as much time as it needs. The exit status."""
        self.engine.run("stop", "--time", str(COMMAND_TIMEOUT_S), self.name, timeout_s=2 * COMMAND_TIMEOUT_S)
        return int(self.engine.run("inspect", "--format", "{{.State.ExitCode}}", self.name))

    def log(self) -> str:
        return self.engine.run("logs", self.name, with_errors=True)


class Engine:
    def __init__(self, program: Sequence[str], build_flags: Sequence[str]) -> None:
        self._program = program
        self._build_flags = build_flags

    def run(
        self, *words: str, timeout_s: float = COMMAND_TIMEOUT_S, stdin: int | None = None, with_errors: bool = False
    ) -> str:
        command = [*self._program, *words]
        environ = {**os.environ, "DOCKER_BUILDKIT": "1"}
        done = subprocess.run(  # noqa: S603
            command, stdin=stdin, capture_output=True, text=True, check=False, timeout=timeout_s, env=environ
        )
        if done.returncode != 0:
            raise CommandFailed(f"{' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-4000:]}")
        return done.stdout + (done.stderr if with_errors else "")

    def succeeds(self, *words: str, timeout_s: float = COMMAND_TIMEOUT_S) -> bool:
        try:
            self.run(*words, timeout_s=timeout_s)
        except (CommandFailed, subprocess.TimeoutExpired):
            return False
        return True

    def base(self) -> str:
        """The base that the Dockerfile names, else one that is made from Debian's packages. Raises `Unavailable`."""
        named = re.findall(r"^ARG BASE=(\S+)$", DOCKERFILE.read_text(), re.MULTILINE)[0]
        if self._has(named) or self.succeeds("pull", "--quiet", named, timeout_s=BUILD_TIMEOUT_S):
            return str(named)
        release = re.findall(r"-slim-(\w+)$", named)[0]
        made = f"{_DEBIAN}:{release}"
        if not self._has(made):
            self._make_base(release, made)
        return made

    def build(self, base: str, *flags: str) -> str:
        """The name of the image."""
        name = "localhost/streamweir:test"
        with TemporaryDirectory() as folder:
            secrets = [f"--secret=id={path.name},src={path}" for path in _write_secrets(Path(folder))]
            arguments = ["--build-arg", f"BASE={base}", *self._build_flags, *secrets, *flags]
            self.run("build", "--tag", name, *arguments, str(ROOT), timeout_s=BUILD_TIMEOUT_S)
        return name

    def inspect(self, image: str) -> dict[str, Any]:
        (found,) = json.loads(self.run("image", "inspect", image))
        return dict(found)

    @contextmanager
    def started(self, image: str, *flags: str, command: Sequence[str] = ()) -> Iterator[Container]:
        """With no rights and a read-only root file system. `command` in place of the image's."""
        container = Container(self, f"streamweir-test-{uuid.uuid4().hex[:12]}")
        try:
            self.run("run", "--detach", "--name", container.name, *_limits(), *LOCKED_DOWN, *flags, image, *command)
            yield container
        finally:
            self.run("rm", "--force", container.name)

    def once(self, image: str, *words: str) -> str:
        """Another program of the image, by itself."""
        flags = ("--rm", "--network=none", *_limits(), *LOCKED_DOWN, "--entrypoint", words[0])
        return self.run("run", *flags, image, *words[1:])

    @contextmanager
    def volume(self) -> Iterator[str]:
        name = f"streamweir-test-{uuid.uuid4().hex[:12]}"
        self.run("volume", "create", name)
        try:
            yield name
        finally:
            self.run("volume", "rm", "--force", name)

    def _has(self, image: str) -> bool:
        return self.succeeds("image", "inspect", image)

    def _make_base(self, release: str, name: str) -> None:
        program = shutil.which("mmdebstrap")
        if program is None:
            raise Unavailable("no registry can be reached, and there is no mmdebstrap to make the base from packages")
        with TemporaryDirectory() as folder:
            archive = Path(folder) / "base.tar"
            command = [program, "--variant=minbase", f"--include={PACKAGES}", release, str(archive)]
            done = subprocess.run(  # noqa: S603
                command, capture_output=True, text=True, check=False, timeout=BUILD_TIMEOUT_S
            )
            if done.returncode != 0:
                raise Unavailable(f"no registry can be reached, and mmdebstrap failed: {done.stderr[-500:]}")
            self.run("import", str(archive), name, timeout_s=BUILD_TIMEOUT_S)


def find_engine() -> Engine:
    """Raises `Unavailable`."""
    named = os.environ.get("STREAMWEIR_CONTAINER_ENGINE")
    docker, podman = named or shutil.which("docker"), shutil.which("podman")
    if docker is not None:
        engine = Engine([docker], ["--network=host"])
        if engine.succeeds("info"):
            return engine
        if named is not None:
            raise Unavailable(f"{named} info fails")
    if podman is None:
        raise Unavailable("there is neither a running Docker nor Podman")
    if os.geteuid() != 0:
        raise Unavailable("Podman is used as root here")
    storage = ["--root", str(STORAGE / "storage"), "--runroot", str(STORAGE / "run")]
    runtime = shutil.which("runc") or shutil.which("crun")
    if runtime is None:
        raise Unavailable("Podman has neither runc nor crun")
    if Path(runtime).name == "crun" and _has_both_control_groups():
        raise Unavailable("crun refuses this machine's control groups of both versions: install runc")
    if shutil.which("iptables") is None and shutil.which("nft") is None:
        raise Unavailable("Podman needs iptables or nft to publish a port")
    program = [podman, *storage, "--cgroup-manager=cgroupfs", f"--runtime={runtime}", "--log-level=fatal"]
    return Engine(program, ["--isolation=chroot", "--format=docker", "--pull=never"])


def _has_both_control_groups() -> bool:
    return Path("/sys/fs/cgroup/unified").is_dir()


def _limits() -> list[str]:
    """Podman's own are more than a process without CAP_SYS_RESOURCE can have."""
    return [f"--ulimit={name}={_FILES_AND_PROCESSES}" for name in ("nofile", "nproc")]


def _write_secrets(folder: Path) -> list[Path]:
    """What the Dockerfile calls `pip`, `npm` and `ca`."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    options: dict[str, str] = dict(re.findall(r"^[\w:]+\.([\w-]+)='(.*)'$", listed, re.MULTILINE))
    pip = ["[global]", *(f"{name} = {options[name]}" for name in _OPTIONS if _is_remote(options.get(name)))]
    npm = []
    if program := shutil.which("npm"):
        registry = subprocess.run(  # noqa: S603
            [program, "config", "get", "registry"], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        npm.append(f"registry={registry.strip()}")
    files = {"pip": pip, "npm": npm}
    certificates = options.get("cert") or ssl.get_default_verify_paths().cafile
    if certificates and Path(certificates).exists():
        shutil.copyfile(certificates, folder / "ca")
        pip.append("cert = /run/secrets/ca")
        npm.append("cafile=/run/secrets/ca")
    for name, lines in files.items():
        (folder / name).write_text("\n".join([*lines, ""]))
    return sorted(folder.iterdir())


def _is_remote(value: str | None) -> bool:
    """A folder of this machine is not in the build."""
    return value is not None and "file:" not in value
