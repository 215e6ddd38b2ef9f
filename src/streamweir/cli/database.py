"""Access to the configured store for commands: one read or one write.

Only `[store]` of the configuration file is read, so that the variables for the providers' keys are not needed. Errors
are shown as one line. The server may run at the same time; it notices changes by itself.
"""

import asyncio
import functools
import os
import sys
import tomllib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct

from streamweir.store.db.clock import now_ms

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from streamweir.config.model import Store as StoreSettings
    from streamweir.store.db.base import Store

T = TypeVar("T")

ACTOR = "cli"
"""The actor in the audit log."""
TIMEOUT_S = 30.0
CHECK_TIMEOUT_S = 600.0
"""For commands that read a whole table."""


class StoreAccess(Struct, frozen=True):
    """The store that the options select."""

    config_file: Path | None
    data_dir: Path
    env_file: Path | None = None

    def environ(self) -> Mapping[str, str]:
        """The variables for the file. Raises `ConfigError`."""
        from streamweir.config.env_file import with_variables

        return with_variables(os.environ, self.env_file)

    def settings(self) -> "StoreSettings":
        """`[store]` of the file. Raises `ConfigError`, and `ClickException` if there is no database."""
        return _store_settings(self.config_file, self.environ())

    def read(self, work: "Callable[[Connection], T]", *, timeout_s: float = TIMEOUT_S) -> T:
        return self.run(lambda store: store.read(work, timeout_s=timeout_s))

    def write(self, work: "Callable[[Connection], T]") -> T:
        """One transaction."""
        return self.run(lambda store: store.write(work, timeout_s=TIMEOUT_S))

    def run(self, work: "Callable[[Store], Awaitable[T]]") -> T:
        """Raises `ClickException` with one line for all expected errors."""
        from streamweir.config.error import ConfigError
        from streamweir.store.db.base import StoreError, StoreUnavailable
        from streamweir.store.db.errors import OperationRefused

        try:
            return asyncio.run(self._run(work))
        except (ConfigError, StoreError, StoreUnavailable, OperationRefused) as error:
            raise click.ClickException(str(error)) from None

    async def _run(self, work: "Callable[[Store], Awaitable[T]]") -> T:
        from streamweir.store.db.engine import open_store
        from streamweir.store.keys.workspaces import has_default_workspace, open_default_workspace

        def on_slow(where: str, seconds: float) -> None:
            click.echo(f"The database {where} is slow: still waiting after {seconds:.0f} s.", err=True)

        store = await open_store(self.settings().url, _create_directory(self.data_dir), on_slow=on_slow)
        try:
            if not await store.read(has_default_workspace):  # no server has used this database yet
                await store.write(lambda conn: open_default_workspace(conn, now_ms()))
            return await work(store)
        finally:
            await store.close()


def store_options(command: Callable[..., None]) -> Callable[..., None]:
    """Passes `access` to the command, with the options and defaults of `streamweir serve`."""

    @click.option("--config", "config_file", type=click.Path(path_type=Path), help="Configuration file (TOML).")
    @click.option("--env-file", type=click.Path(path_type=Path), help="File with variables for the configuration.")
    @click.option(
        "--data-dir",
        type=click.Path(path_type=Path),
        envvar="STREAMWEIR_DATA",
        help="The gateway's data directory.  [default: the user's data directory]",
    )
    @functools.wraps(command)
    def with_access(config_file: Path | None, env_file: Path | None, data_dir: Path | None, **more: Any) -> None:
        access = StoreAccess(config_file, (data_dir or user_data_dir()).absolute(), env_file)
        command(access=access, **more)

    return with_access


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def user_data_dir() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "streamweir"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "streamweir"


def _create_directory(data_dir: Path) -> Path:
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as reason:
        raise click.ClickException(f"{data_dir}: cannot be used as data directory: {reason.strerror}") from None
    return data_dir


def _store_settings(config_file: Path | None, environ: Mapping[str, str]) -> "StoreSettings":
    from streamweir.config.check import check
    from streamweir.config.error import ConfigError, raise_all
    from streamweir.config.load import load_config, read_with_secrets
    from streamweir.config.model import Config
    from streamweir.config.secret_reference import SecretValues

    if config_file is None:
        return Config().store
    try:
        tree = tomllib.loads(config_file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        return load_config(config_file, environ).store  # reports what is wrong
    store = {name: table for name, table in tree.items() if name == "store"}
    try:
        _, config = read_with_secrets(store, environ, config_file.absolute().parent, SecretValues())
    except ConfigError as error:
        error.file = str(config_file)
        raise
    raise_all(check(config), str(config_file))
    if config.store.is_none:
        why = "there is no database. Set store.url to use this command"
        raise click.ClickException(f'{config_file}: store.url is "none": {why}')
    return config.store
