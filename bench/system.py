"""The systems under test: how each is configured and started, so that all of them do the same job.

Each checks a caller's key, sets the provider's, and relays to the same mock provider. A system is
started on a port of its own and stays up between the rounds, idle while another one is measured.
"""

import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.process import BenchError, Process, free_port

KEY = f"sk-{secrets.token_hex(16)}"
UPSTREAM_KEY = f"sk-{secrets.token_hex(16)}"
CHAT = "/v1/chat/completions"
WITHOUT_BOOKS, WITH_BOOKS = "streamweir", "with books"

STREAMWEIR_TOML = """\
[server]
listen = "127.0.0.1:{port}"
dialect = "openai"

[store]
url = "{store}"

[[providers]]
name = "mock"
kind = "openai"
base_url = "http://127.0.0.1:{upstream_port}/v1"
api_key = "{upstream_key}"
max_connections = 10000

[[models]]
id = "gpt-4o-mini"
targets = [{{ provider = "mock", model = "gpt-4o-mini" }}]

[[keys]]
name = "bench"
key = "{key}"
{limits}
"""
LIMITS = """\
rpm = 1000000000
tpm = 1000000000
max_streams = 1000000
budget_usd = 1000000000
"""
"""All that a key can have, and never reached: what is measured is that they are kept."""


@dataclass(frozen=True)
class Setting:
    """What a system is told of its surroundings."""

    folder: Path
    upstream_port: int
    files: int
    core: int


@dataclass
class System:
    """One gateway. `command` writes its configuration and says how to start it."""

    name: str
    version: str
    setting: Setting
    command: Callable[[Setting, int], Sequence[str]]
    translated_path: str | None = None
    """Where the same model answers in another dialect, so that every chunk is decoded and encoded."""
    port: int = 0
    process: Process | None = None

    def start(self) -> None:
        self.port = self.port or free_port()
        command = self.command(self.setting, self.port)
        self.process = Process(command, self.setting.core, self.setting.folder / f"{self.name}.log")
        self.process.wait_for_port(self.port)

    def stop(self) -> None:
        if self.process is not None:
            self.process.stop()
        self.process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    @property
    def running(self) -> Process:
        assert self.process is not None, f"{self.name} is not running"
        return self.process


def nginx(setting: Setting) -> System | None:
    """From NGINX=..., from PATH, or from where Debian puts it."""
    program = os.environ.get("NGINX") or shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        return None
    template = (Path(__file__).parent / "nginx.conf").read_text()

    def command(where: Setting, port: int) -> Sequence[str]:
        config = where.folder / "nginx.conf"
        config.write_text(filled(template, where, port))
        return [program, "-c", str(config), "-p", str(where.folder)]

    return System("nginx", version_of([program, "-v"]), setting, command)


def streamweir(setting: Setting, *, has_books: bool) -> System | None:
    """From STREAMWEIR=..., or what is installed beside the interpreter. With books: limits, ledger and request log."""
    beside = Path(sys.executable).with_name("streamweir")
    program = os.environ.get("STREAMWEIR") or (str(beside) if beside.exists() else None)
    if program is None:
        return None

    def command(where: Setting, port: int) -> Sequence[str]:
        config = where.folder / f"{name}.toml"
        store, limits = ("sqlite:///streamweir.db", LIMITS) if has_books else ("none", "")
        config.write_text(STREAMWEIR_TOML.format(port=port, store=store, limits=limits, **names(where)))
        place = ["--listen", f"127.0.0.1:{port}", "--data-dir", str(where.folder / name)]
        return [program, "serve", "--config", str(config), *place]

    name = WITH_BOOKS if has_books else WITHOUT_BOOKS
    version = "" if has_books else f"{version_of([program, '--version'])}, Python {sys.version.split()[0]}"
    return System(name, version, setting, command, translated_path=f"/opentoken{CHAT}")


def other(definition: str, setting: Setting) -> System:
    """Any other gateway, as `name=command` with {port}, {upstream_port}, {key} and {upstream_key}."""
    name, _, line = definition.partition("=")
    return System(name, "", setting, lambda where, port: shlex.split(filled(line, where, port)))


def names(setting: Setting) -> dict[str, object]:
    return {
        "folder": setting.folder,
        "files": setting.files,
        "upstream_port": setting.upstream_port,
        "key": KEY,
        "upstream_key": UPSTREAM_KEY,
    }


def filled(text: str, setting: Setting, port: int) -> str:
    """Only the names that are known: nginx has braces of its own."""
    known = {**names(setting), "port": port}
    return re.sub(r"\{(\w+)\}", lambda found: str(known.get(found[1], found[0])), text)


def version_of(command: Sequence[str]) -> str:
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError) as error:
        raise BenchError(f"{command[0]} does not run: {error}") from None
    return (result.stdout + result.stderr).strip().removeprefix("nginx version: ").replace("/", " ")
