"""Which gateway a command is about: its data directory and its configuration.

The first of these that applies, in this order:

1. What is named: `--data-dir` (or `STREAMWEIR_DATA`) and `--config`. What one of them leaves open is completed by the
   gateway that runs with the other.
2. The running gateway of this user, by its run file. Of several, the one whose data or configuration is in the working
   folder; otherwise one of them must be named.
3. The working folder: `streamweir.toml`, and `var`, where `make run` keeps its data.
4. The user's data directory, if it has a database.

Nothing is created here, and no database is opened. The environment, the folders and the user are arguments.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from streamweir.server.process.run_file import Running, find_running, is_trusted, running_on, runtime_folders

CONFIG_FILE = "streamweir.toml"
DATABASE = "streamweir.db"
"""The default of `store.url`."""
_VAR = "var"


class NotFound(Exception):
    """There is no gateway to act on, or it is not clear which. The text says what to do."""


class CommandEnvironment(Struct, frozen=True, kw_only=True):
    """The environment, the working folder and the user of a command."""

    environ: Mapping[str, str]
    folder: Path
    """The working folder."""
    uid: int

    def running(self) -> list[Running]:
        return find_running(runtime_folders(self.environ, self.uid), self.uid)

    def user_data_dir(self) -> Path:
        return user_data_dir(self.environ)


class LocalGateway(Struct, frozen=True, kw_only=True):
    """Where a gateway has its data and its configuration."""

    data_dir: Path
    config_file: Path | None = None
    env_file: Path | None = None
    running: Running | None = None
    is_named: bool = True
    """By an option, a run file or the working folder. False: nothing was found, and this is the default."""


def command_environment() -> CommandEnvironment:
    return CommandEnvironment(environ=os.environ, folder=Path.cwd(), uid=os.geteuid())


def user_data_dir(environ: Mapping[str, str] = os.environ) -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "streamweir"
    return Path(environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "streamweir"


def find_gateway(
    environment: CommandEnvironment,
    config_file: Path | None = None,
    data_dir: Path | None = None,
    env_file: Path | None = None,
) -> LocalGateway:
    """Raises `NotFound` if several gateways run, and none of them is named."""
    found = _find(environment, config_file, data_dir)
    return LocalGateway(
        data_dir=environment.folder / found.data_dir,
        config_file=found.config_file,
        env_file=env_file or found.env_file,
        running=found.running,
        is_named=found.is_named,
    )


def _find(environment: CommandEnvironment, config_file: Path | None, data_dir: Path | None) -> LocalGateway:
    if data_dir is not None:
        return _in_data_dir(environment, data_dir, config_file)
    running = environment.running()
    if config_file is not None:
        named = [each for each in running if _is_same(each.config_file, environment.folder / config_file)]
        if not named:
            return LocalGateway(data_dir=_data_dir_of(environment), config_file=config_file)
        return _of_running(environment, _only(named), config_file)
    if running:
        return _of_running(environment, _only(nearest(environment, running)), None)
    file, var = environment.folder / CONFIG_FILE, environment.folder / _VAR
    if file.is_file():
        return LocalGateway(data_dir=_data_dir_of(environment), config_file=Path(CONFIG_FILE))
    if (var / DATABASE).is_file():
        return LocalGateway(data_dir=var)
    own = environment.user_data_dir()
    return LocalGateway(data_dir=own, is_named=(own / DATABASE).is_file())


def nearest(environment: CommandEnvironment, running: list[Running]) -> list[Running]:
    """Those that someone in the working folder means, else all."""
    return [each for each in running if _is_in(each, environment.folder)] or running


def _in_data_dir(environment: CommandEnvironment, data_dir: Path, config_file: Path | None) -> LocalGateway:
    running = running_on(environment.folder / data_dir, environment.uid)
    if config_file is not None:
        running = [each for each in running if _is_same(each.config_file, environment.folder / config_file)]
        if not running:
            return LocalGateway(data_dir=data_dir, config_file=config_file)
    if not running:
        return LocalGateway(data_dir=data_dir)
    found = _of_running(environment, running[0], config_file)  # several with one directory share a database, too
    return LocalGateway(data_dir=data_dir, config_file=found.config_file, env_file=found.env_file, running=running[0])


def _data_dir_of(environment: CommandEnvironment) -> Path:
    """For a configuration alone: `var` beside the Makefile, if a gateway has used it, else the user's."""
    var = environment.folder / _VAR
    return var if (var / DATABASE).is_file() else environment.user_data_dir()


def _of_running(environment: CommandEnvironment, running: Running, config_file: Path | None) -> LocalGateway:
    """Raises `NotFound` if another user can change the configuration, which may run commands."""
    env_file = running.env_file
    if running.owner != environment.uid:
        for file in (running.config_file if config_file is None else None, env_file):
            if file is not None and not _is_ours(file, environment.uid):
                raise NotFound(
                    f"the gateway (pid {running.file.pid}) is configured by {file}, which another user can change: "
                    f"run this command as the user {running.owner}, or name --config and --data-dir"
                )
    config_file = config_file or running.config_file
    return LocalGateway(data_dir=running.data_dir, config_file=config_file, env_file=env_file, running=running)


def _is_ours(file: Path, uid: int) -> bool:
    try:
        return is_trusted(file.stat(), {0, uid})
    except OSError:
        return True  # there is nothing to read


def _only(running: list[Running]) -> Running:
    if len(running) == 1:
        return running[0]
    several = "; ".join(f"--data-dir {each.data_dir} (pid {each.file.pid}, {each.file.urls[0]})" for each in running)
    raise NotFound(f"{len(running)} gateways are running: choose one with {several}")


def _is_in(running: Running, folder: Path) -> bool:
    """Whether someone in this folder means it."""
    config_folder = running.config_file.parent if running.config_file is not None else None
    return any(_is_same(running.data_dir, each) for each in (folder, folder / _VAR)) or _is_same(config_folder, folder)


def _is_same(file: Path | None, other: Path) -> bool:
    try:
        return file is not None and file.samefile(other)
    except OSError:
        return False
