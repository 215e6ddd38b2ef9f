"""Looks at this machine: open files, memory, permissions, and the address of the gateway."""

import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path

from streamweir.cli.commands.doctor.finding import Finding, fail, ok, warn
from streamweir.cli.commands.status import status_of
from streamweir.cli.find import LocalGateway
from streamweir.config.address import split_listen
from streamweir.config.model import Config
from streamweir.config.secret import passwords_in, secrets_of
from streamweir.server.http.pressure import memory_limit_bytes
from streamweir.server.process.supervisor import open_listeners

_MIN_FILES = 4096
_MIN_MEMORY_BYTES = 256 << 20
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_BUSY = 0.8


def check_machine(config: Config, place: LocalGateway) -> Iterator[Finding]:
    yield from _gateway(config, place)
    yield from _files(place)
    yield from _memory(config)
    yield from _data_dir(place)
    yield from _configuration(config, place)


def _gateway(config: Config, place: LocalGateway) -> Iterator[Finding]:
    if place.running is None:
        yield _address(config.server.listen)
        return
    status = status_of(place.running)
    where = f"pid {status.pid} at {status.urls[0]}"
    if status.is_ready:
        yield ok("gateway", f"{where} is ready, version {status.version}")
    elif status.is_healthy:
        yield fail("gateway", f"{where} is {status.status}: {'; '.join(status.reasons)}", "see `streamweir status`")
    else:
        advice = "look at its log: the process lives, and does not answer"
        yield fail("gateway", f"{where} does not answer: {'; '.join(status.reasons)}", advice)


def _address(listen: str) -> Finding:
    address = split_listen(listen)
    assert address is not None  # noqa: S101 (`config.check` guarantees it)
    try:
        for listener in open_listeners(*address):
            listener.close()
    except (OSError, UnicodeError) as reason:
        why = reason.strerror if isinstance(reason, OSError) else "unknown host name"
        return fail("address", f"{listen}: {why}", "choose another one with server.listen or --listen")
    return ok("address", f"{listen} can be used; no gateway runs there")


def _files(place: LocalGateway) -> Iterator[Finding]:
    """Of the gateway, if it can be looked at; else what this shell would give it."""
    found = _files_of(place.running.file.pid) if place.running is not None else None
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = 0
    if found is not None:
        used, limit = found
    is_unlimited = limit == resource.RLIM_INFINITY
    message = "no limit" if is_unlimited else f"{limit} at most" + (f", {used} are open" if found is not None else "")
    advice = "raise it (ulimit -n, LimitNOFILE=): each stream needs two"
    if not is_unlimited and (limit < _MIN_FILES or used > _BUSY * limit):
        yield warn("open files", message, advice)
    else:
        yield ok("open files", message)


def _files_of(pid: int) -> tuple[int, int] | None:
    """How many are open, and how many may be. None: it cannot be looked at from here."""
    try:
        used = len(os.listdir(f"/proc/{pid}/fd"))
        lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    except OSError:
        return None
    limits = next((line.split()[3:5] for line in lines if line.startswith("Max open files")), [])
    return (used, int(limits[0])) if limits and limits[0].isdecimal() else None


def _memory(config: Config) -> Iterator[Finding]:
    limit = config.server.limits.memory_bytes or memory_limit_bytes()
    if limit is None:
        return
    message = f"{limit >> 20} MiB at most"
    if limit < _MIN_MEMORY_BYTES:
        yield warn("memory", message, "raise the limit of the service: requests are refused before it is reached")
    else:
        yield ok("memory", message)


def _data_dir(place: LocalGateway) -> Iterator[Finding]:
    folder = place.data_dir
    try:
        status = folder.stat()
        owners = {each.lstat().st_uid for each in folder.iterdir()}
    except FileNotFoundError:
        return
    except OSError as reason:
        yield fail("data directory", f"{folder}: {reason.strerror}", "run this as the user of the gateway")
        return
    if status.st_mode & _OTHERS:
        yield warn("data directory", f"{folder} can be read by other users", f"chmod 700 {folder}")
    elif owners - {status.st_uid}:
        advice = f"chown -R {status.st_uid} {folder}, and run commands as that user"
        yield fail("data directory", f"{folder} has files of another user than its own ({status.st_uid})", advice)
    else:
        yield ok("data directory", f"{folder} belongs to one user alone")


def _configuration(config: Config, place: LocalGateway) -> Iterator[Finding]:
    """Secrets that other users of the machine can read."""
    secrets = [*secrets_of(config), *passwords_in(config)]
    for file, is_secret in ((place.config_file, False), (place.env_file, True)):
        if file is None:
            continue
        try:
            mode, text = file.stat().st_mode, file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if mode & _OTHERS and (is_secret or any(secret in text for secret in secrets)):
            yield fail("permissions", f"{file} contains secrets, and other users can read it", f"chmod 600 {file}")
        else:
            yield ok("permissions", f"{file} shows no secret to other users")
