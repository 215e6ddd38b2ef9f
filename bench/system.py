"""The systems under test: how each is configured and started, so that all of them do the same job.

Each checks a caller's key, sets the provider's, and relays to the same mock provider. A system is
started on a port of its own, in a folder of its own, and stays up between the rounds, idle while
another one is measured. What needs a process of its own (`System.beside`) gets one and ends it.
"""

import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from bench.process import BenchError, Process, free_port

HERE = Path(__file__).parent
KEY = f"sk-{secrets.token_hex(16)}"
QUIET_KEY = f"sk-{secrets.token_hex(16)}"
RESUMABLE_KEY = f"sk-{secrets.token_hex(16)}"
UPSTREAM_KEY = f"sk-{secrets.token_hex(16)}"
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
STREAMWEIR, WITHOUT_BOOKS, BEFORE, TRACED = "streamweir", "without accounting", "before", "traced"

LIMITS = """\
rpm = 1000000000
tpm = 1000000000
max_streams = 1000000
budget_usd = 1000000000
"""
"""All that a key can have, and never reached: what is measured is that they are kept."""


def resumable(limits: str) -> str:
    """The key whose streams are kept for callers who come back, and room for all that are open."""
    key = f'[[keys]]\nname = "resumable"\nkey = "{RESUMABLE_KEY}"\nresumable = true\n{limits}'
    return f"[streams]\nmax_per_key = 10000\n\n{key}"


class Route(NamedTuple):
    """How a caller asks for an answer that the system makes in some way."""

    path: str = CHAT
    model: str = "gpt-4o-mini"
    key: str = KEY


PASSED = {"passed": Route()}
"""A relay as such: the only way that every system has."""
RESUMABLE = {"resumable": Route(key=RESUMABLE_KEY)}
"""As `passed`, but its callers can come back."""
TRANSLATED = {
    "translated": Route(model="translated"),
    "opentoken": Route(f"/opentoken{CHAT}", "translated"),
    "anthropic": Route(model="anthropic"),
    "gemini": Route(model="gemini"),
    "messages_passed": Route(MESSAGES, "anthropic"),
    "messages": Route(MESSAGES),
}
"""See streamweir.toml: an openai wire whose id and model are written anew, in one dialect and in another,
two providers with wires of their own, and Anthropic's API on its own wire and on OpenAI's."""
RESPONSES_ROUTES = {
    "from_responses": Route(model="responses"),
    "responses_passed": Route(RESPONSES, "responses"),
    "responses": Route(RESPONSES),
}
"""OpenAI's Responses API: its wire to chat completions and to itself, and that of chat completions to it."""
BEDROCK_ROUTES = {
    "converse": Route(model="converse"),
    "invoke_passed": Route(MESSAGES, "invoke"),
    "invoke": Route(model="invoke"),
}
"""Bedrock's binary streams: Converse to chat completions, and Claude's events in them to their own API and to chat
completions."""
PLAIN_SCENARIOS = frozenset({"passed", "short", "first_text", "memory"})


@dataclass(frozen=True)
class Setting:
    """The environment of a system."""

    folder: Path
    upstream_port: int
    files: int
    cores: frozenset[int]
    workers: int = 1
    ca_file: Path | None = None
    """The certificate of the provider. None: without TLS."""
    refuses: bool = True
    """Whether a gateway of ours refuses what it cannot answer in time."""


@dataclass
class System:
    """One gateway. `command` writes its configuration and says how to start it."""

    name: str
    version: str
    setting: Setting
    command: Callable[[Setting, int], Sequence[str]]
    routes: Mapping[str, Route] = field(default_factory=lambda: PASSED)
    scenarios: frozenset[str] | None = None
    """Those that are played with it. None: all."""
    may_fail: bool = False
    """A scenario that it does not stand leaves a gap in the report, and does not end the benchmark."""
    open_streams: int | None = None
    """So many in `memory`, where it is too slow to open more before the first of them ends. None: as many as others."""
    has_workers: bool = False
    has_tls: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    """What distinguishes it from others of its name."""
    port: int = 0
    process: Process | None = None

    @property
    def folder(self) -> Path:
        """No spaces: nginx reads them as the end of a path."""
        return self.setting.folder / f"{self.name} {self.label}".strip().replace(" ", "-")

    def plays(self, scenario: str) -> bool:
        return self.scenarios is None or scenario in self.scenarios

    def start(self) -> None:
        self.spawn()
        self.running.wait_for_port(self.port)

    def spawn(self) -> None:
        """Starts it, and does not wait until it listens."""
        self.port = self.port or free_port()
        where = replace(self.setting, folder=self.folder)
        where.folder.mkdir(parents=True, exist_ok=True)
        command = self.command(where, self.port)
        self.process = Process(command, where.cores, where.folder / f"{self.name}.log", self.environ)

    def stop(self) -> None:
        if self.process is not None:
            self.process.stop()
        self.process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    @contextmanager
    def beside(self, label: str, setting: Setting | None = None) -> Iterator["System"]:
        """Another one of its kind, not started yet, in a folder where none has ever been."""
        other = replace(self, label=label, setting=setting or self.setting, port=0, process=None)
        shutil.rmtree(other.folder, ignore_errors=True)
        try:
            yield other
        finally:
            other.stop()

    @property
    def running(self) -> Process:
        assert self.process is not None, f"{self.name} is not running"
        return self.process


def nginx_program() -> str | None:
    return program_of("NGINX", "nginx")


def nginx(setting: Setting) -> System | None:
    program = nginx_program()
    if program is None:
        return None

    def command(where: Setting, port: int) -> Sequence[str]:
        config = write_config("nginx.conf", where, port)
        return [program, "-c", str(config), "-p", str(where.folder)]

    version = version_of([program, "-v"]).removeprefix("nginx version: ").replace("/", " ")
    return System("nginx", version, setting, command, has_workers=True, has_tls=True)


def haproxy(setting: Setting) -> System | None:
    program = program_of("HAPROXY", "haproxy")
    if program is None:
        return None

    def command(where: Setting, port: int) -> Sequence[str]:
        return [program, "-db", "-f", str(write_config("haproxy.cfg", where, port))]

    version = " ".join(version_of([program, "-v"]).split()[:3]).replace("version ", "")
    return System("haproxy", version, setting, command)


def streamweir(setting: Setting, *, has_books: bool) -> System | None:
    """With accounting: limits, ledger and request log."""
    program = own_program()
    return None if program is None else build(program, setting, has_books=has_books)


def own_program() -> str | None:
    """From STREAMWEIR=..., or the one that is installed."""
    beside = Path(sys.executable).with_name("streamweir")
    return os.environ.get("STREAMWEIR") or (str(beside) if beside.exists() else None)


def before(setting: Setting) -> System | None:
    """Another build of it, with everything on, from BEFORE=...: what a change has brought, seen in one run."""
    program = os.environ.get("BEFORE")
    return None if program is None else replace(build(program, setting, has_books=True, resumes=False), name=BEFORE)


def traced(setting: Setting) -> System | None:
    """With every request traced, and the mock provider as the collector: what that costs, seen in one run."""
    program = own_program()
    return None if program is None else replace(build(program, setting, has_books=True, traces=True), name=TRACED)


def build(program: str, setting: Setting, *, has_books: bool, traces: bool = False, resumes: bool = True) -> System:
    """`resumes`: it knows streams that can be resumed."""

    def command(where: Setting, port: int) -> Sequence[str]:
        # What counts for several workers is a Valkey: limits are measured in one worker alone.
        limits = LIMITS if has_books and where.workers == 1 else ""
        store = "sqlite:///streamweir.db" if has_books else "none"
        ca_file = "" if where.ca_file is None else f'ca_file = "{where.ca_file}"'
        server_limits = "" if where.refuses else "[server.limits]\nturn_s = 3600\nlag_s = 3600"
        collector = f"http://127.0.0.1:{where.upstream_port}/collector"
        telemetry = f'[telemetry]\nendpoint = "{collector}"' if traces else ""
        more = {"limits": limits, "store": store, "ca_file": ca_file, "server_limits": server_limits}
        more |= {"telemetry": telemetry, "resumable": resumable(limits) if resumes else ""}
        config = write_config("streamweir.toml", where, port, more)
        place = ["--listen", f"127.0.0.1:{port}", "--data-dir", str(where.folder / "data")]
        return [program, "serve", "--config", str(config), *place, "--workers", str(where.workers)]

    version = f"{version_of([program, '--version'])}, Python {sys.version.split()[0]}"
    if not has_books:
        return System(WITHOUT_BOOKS, "", setting, command, scenarios=PLAIN_SCENARIOS)
    routes = {**PASSED, **TRANSLATED, **RESPONSES_ROUTES, **BEDROCK_ROUTES, **(RESUMABLE if resumes else {})}
    return System(STREAMWEIR, version, setting, command, routes, has_workers=True, has_tls=True)


def other(definition: str, setting: Setting) -> System:
    """Any other gateway, as `name=command` with {port}, {upstream_port}, {key} and {upstream_key}."""
    name, _, line = definition.partition("=")

    def command(where: Setting, port: int) -> Sequence[str]:
        return shlex.split(filled(line, names(where, port)))

    return System(name, "", setting, command, scenarios=PLAIN_SCENARIOS, may_fail=True)


def write_config(
    template: str, setting: Setting, port: int, more: Mapping[str, object] | None = None, *, into: str | None = None
) -> Path:
    path = setting.folder / (into or template)
    path.write_text(filled((HERE / template).read_text(), {**names(setting, port), **(more or {})}))
    return path


def names(setting: Setting, port: int) -> dict[str, object]:
    return {
        "folder": setting.folder,
        "files": setting.files,
        "workers": setting.workers,
        "scheme": "http" if setting.ca_file is None else "https",
        "ca_file": setting.ca_file or "none",
        "upstream_port": setting.upstream_port,
        "port": port,
        "key": KEY,
        "quiet_key": QUIET_KEY,
        "upstream_key": UPSTREAM_KEY,
    }


def filled(text: str, known: Mapping[str, object]) -> str:
    """Only the names that are known: nginx has braces of its own."""
    return re.sub(r"\{(\w+)\}", lambda found: str(known.get(found[1], found[0])), text)


def program_of(variable: str, name: str) -> str | None:
    """From the environment, from PATH, or from where Debian puts it."""
    return os.environ.get(variable) or shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def version_of(command: Sequence[str]) -> str:
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError) as error:
        raise BenchError(f"{command[0]} does not run: {error}") from None
    return (result.stdout + result.stderr).strip()
