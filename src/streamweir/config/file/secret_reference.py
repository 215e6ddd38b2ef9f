"""Secrets that are not in the configuration file but in another one, or printed by a command (a vault's client).

    api_key = { command = ["vault", "kv", "get", "-field=key", "secret/openai"], refresh_s = 300, timeout_s = 10 }
    api_key = { file = "/run/secrets/openai", refresh_s = 60 }

`config.file.schema` reads the table where the types have a secret, and `SecretValues` has the values: of one process,
for all configurations that it loads. A value that could be read once stays in use when it cannot be read again. A
command is run without a shell, in the folder of the configuration file; its process group is killed when its time is
over, and what it has left running when it ends. What it writes to standard error is discarded, so no reason contains
more than the exit status. This module waits for files and processes: a process that serves calls it in a thread
(`server.process.reload`).
"""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from streamweir.config.file.text_file import UnreadableFile, read_text

MAX_BYTES = 65_536
_AT_ONCE = 8
"""So many files and commands are read at the same time."""
_CHECK_S = 0.2
"""So often a running command is looked at, in case that the process ends."""
_POLL_S = 0.005
"""So often one whose output has ended is."""
_STOPPING = "the process is stopping"
_REFRESH = Meta(ge=0, le=86_400)
"""0: only when the configuration is loaded."""


class SecretCommand(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    command: tuple[str, ...]
    refresh_s: Annotated[float, _REFRESH] = 300.0
    timeout_s: Annotated[float, Meta(gt=0, le=60)] = 10.0


class SecretFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    file: str
    refresh_s: Annotated[float, _REFRESH] = 60.0


Reference = SecretCommand | SecretFile


class Unresolved(Exception):
    """The text is the reason."""


State = tuple[Mapping[Reference, str], Mapping[Reference, str]]


class SecretValues:
    """Not for several threads at once, but for `stop`."""

    def __init__(self) -> None:
        self.values: Mapping[Reference, str] = {}
        self.used: Mapping[Reference, str] = {}
        """Of the configuration that was loaded last, with the path of the setting."""
        self.failed: dict[Reference, str] = {}
        """Could not be read again for that configuration, with the reason: the value from before is used."""
        self._is_expired = False
        self._is_stopped = False

    def expire(self) -> None:
        """The next configuration reads all values again."""
        self._is_expired = True

    @property
    def state(self) -> State:
        return self.values, self.used

    @state.setter
    def state(self, state: State) -> None:
        self.values, self.used = state
        self._is_expired = False

    def provide(self, references: Collection[Reference], folder: Path) -> dict[Reference, str | Unresolved]:
        """The values for a configuration: those that are known, others are read now."""
        missing = [each for each in references if self._is_expired or each not in self.values]
        found = self.resolve(missing, folder)
        self._is_expired = False
        self.failed = {}
        provided: dict[Reference, str | Unresolved] = {}
        for reference in references:
            value = found.get(reference, self.values.get(reference, ""))
            if isinstance(value, Unresolved) and reference in self.values:
                self.failed[reference] = str(value)
                value = self.values[reference]
            provided[reference] = value
        self.values = {**self.values, **{each: value for each, value in provided.items() if isinstance(value, str)}}
        return provided

    def use(self, references: Mapping[Reference, str]) -> None:
        """The configuration with these is valid: others are forgotten."""
        self.used = references
        self.values = {each: value for each, value in self.values.items() if each in references}

    def resolve(self, references: Collection[Reference], folder: Path) -> dict[Reference, str | Unresolved]:
        """Reads them now, and keeps nothing."""
        if len(references) < 2:
            return {each: self._resolve(each, folder) for each in references}
        with ThreadPoolExecutor(min(len(references), _AT_ONCE), "secret") as pool:
            found = pool.map(lambda each: self._resolve(each, folder), references)
            try:
                return dict(zip(references, found, strict=True))
            except KeyboardInterrupt:  # else the end would wait for the commands
                self.stop()
                raise

    def stop(self) -> None:
        """The process ends: from any thread. Commands that run are killed soon, and no further one is started."""
        self._is_stopped = True

    def _resolve(self, reference: Reference, folder: Path) -> str | Unresolved:
        try:
            text = _read(reference.file) if isinstance(reference, SecretFile) else self._run(reference, folder)
        except Unresolved as reason:
            return reason
        return text

    def _run(self, reference: SecretCommand, folder: Path) -> str:
        if self._is_stopped:
            raise Unresolved(_STOPPING)
        process = _start(reference, folder)
        try:
            data = self._output_of(process, reference.timeout_s)
        finally:
            if process.returncode is None:  # it is not reaped yet, so the number of its group is still its own
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if status := process.returncode:
            what = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
            raise Unresolved(f"the command {what}")
        try:
            text = data.decode("utf-8").strip()
        except UnicodeDecodeError:
            text = None
        if text is None:  # outside of the handler, whose exception contains the output
            raise Unresolved("what the command printed is not UTF-8 text")
        if not text:
            raise Unresolved("the command printed nothing")
        return text

    def _output_of(self, process: "subprocess.Popen[bytes]", timeout_s: float) -> bytes:
        """All of it, when the process has ended."""
        assert process.stdout is not None  # noqa: S101 (a pipe)
        output, data, is_open, deadline = process.stdout.fileno(), b"", True, time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while (left_s := deadline - time.monotonic()) > 0:
                if self._is_stopped:
                    raise Unresolved(_STOPPING)
                if not is_open:
                    if _has_ended(process):
                        return data
                    time.sleep(min(left_s, _POLL_S))
                elif selector.select(min(left_s, _CHECK_S)):
                    piece = os.read(output, MAX_BYTES + 1 - len(data))
                    is_open, data = bool(piece), data + piece
                    if len(data) > MAX_BYTES:
                        raise Unresolved(f"the command printed more than {MAX_BYTES} bytes")
        raise Unresolved(f"the command took longer than {timeout_s:g} s")


def _start(reference: SecretCommand, folder: Path) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(  # noqa: S603 (the operator's own command)
            reference.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is not for it, and its children are killed with it
        )
    except FileNotFoundError:
        raise Unresolved("the command was not found") from None
    except (OSError, ValueError) as reason:
        why = getattr(reason, "strerror", None) or "not a command"
    raise Unresolved(f"the command cannot be run: {why}")  # outside of the handler, whose exception may name arguments


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    """Without reaping it where the system can tell: as long as it is not, what it has left running can be killed."""
    if sys.platform == "darwin":
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _read(file: str) -> str:
    try:
        text = read_text(file, MAX_BYTES).strip()
    except UnreadableFile as reason:
        raise Unresolved(str(reason)) from None
    if not text:
        raise Unresolved("the file is empty")
    return text
