"""Access to the store of a gateway for commands: one read or one write.

`cli.find` says which gateway it is. Only `[store]` of the configuration file is read, so that the variables for the
providers' keys are not needed. A database is neither created nor changed to another schema unless `--create` says so.
The first use of it writes a line to standard error that names it; errors are shown as one line. The server may run at
the same time; it notices changes by itself.
"""

import asyncio
import functools
import os
import tomllib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct

from streamweir.cli.find import CONFIG_FILE, DATABASE, LocalGateway, NotFound, command_environment, find_gateway
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


class StoreAccess(Struct):
    """The store of a gateway."""

    place: LocalGateway
    may_create: bool = False
    is_quiet: bool = False
    """The store is not named on standard error."""
    offers_create: bool = False
    """The command has the option `--create`."""

    @property
    def config_file(self) -> Path | None:
        return self.place.config_file

    @property
    def data_dir(self) -> Path:
        return self.place.data_dir

    def environ(self) -> Mapping[str, str]:
        """The variables for the file. Raises `ConfigError`."""
        from streamweir.config.file.env_file import with_variables

        return with_variables(os.environ, self.place.env_file)

    def settings(self) -> "StoreSettings":
        """`[store]` of the file. Raises `ConfigError`, and `ClickException` if there is no database."""
        return _store_settings(self.config_file, self.environ())

    def checked_data_dir(self) -> Path:
        """Raises `ClickException` if it does not exist, and may not be created."""
        if not self.may_create and not self.data_dir.is_dir():
            raise click.ClickException(self._no_data(self.data_dir))
        return self.data_dir

    def sqlite_file(self) -> Path | None:
        """None: the database is PostgreSQL. Raises `ConfigError`, and `ClickException` if the file does not exist."""
        from streamweir.store.db.engine import sqlite_path

        url = self.settings().url
        self._check_file(url)
        return sqlite_path(url, self.data_dir)

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

        url = self.settings().url
        self._check_file(url)
        store = await open_store(url, self.data_dir, migrate=self.may_create, on_slow=on_slow)
        try:
            self._announce(store)
            if not await store.read(has_default_workspace):  # no server has used this database yet
                await store.write(lambda conn: open_default_workspace(conn, now_ms()))
            return await work(store)
        finally:
            await store.close()

    def _check_file(self, url: str) -> None:
        """Raises `ClickException` if the database's file does not exist, and may not be created."""
        from streamweir.store.db.engine import sqlite_path

        path = sqlite_path(url, self.data_dir)
        if path is None:
            return
        if self.may_create:
            _create_directory(self.data_dir)
            return
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError):
            raise click.ClickException(self._no_data(path)) from None
        except OSError as reason:
            raise click.ClickException(f"{path}: {reason.strerror}: run this as the user of the gateway") from None

    def _no_data(self, path: Path) -> str:
        if not self.place.is_named:
            return (
                f"no gateway was found: none of this user is running, there is no {CONFIG_FILE} and no var/{DATABASE} "
                f"here, and {path} does not exist. Name one with --data-dir or --config, or start `streamweir serve`"
            )
        creating = "--create or `streamweir serve`" if self.offers_create else "`streamweir serve`"
        return f"{path} does not exist. Check --data-dir and --config, or create it with {creating}"

    def _announce(self, store: "Store") -> None:
        if self.is_quiet:
            return
        self.is_quiet = True  # once
        click.echo(f"Store: {self.describe(store)}", err=True)

    def describe(self, store: "Store") -> str:
        """Without a password."""
        running = self.place.running
        state = f"gateway running, pid {running.file.pid}" if running is not None else "no running gateway found"
        return f"{'sqlite' if store.is_sqlite else 'postgresql'} {store.where} ({state})"


def store_options(command: Callable[..., None]) -> Callable[..., None]:
    """Passes `access` to the command."""

    @place_options
    @click.option("--create", "may_create", is_flag=True, help="Create the database if it does not exist.")
    @click.option(
        "--quiet", "is_quiet", is_flag=True, envvar="STREAMWEIR_QUIET", help="Do not name the store on standard error."
    )
    @functools.wraps(command)
    def with_access(find: Callable[[], LocalGateway], may_create: bool, is_quiet: bool, **more: Any) -> None:
        command(access=StoreAccess(find(), may_create, is_quiet, offers_create=True), **more)

    return with_access


def place_options(command: Callable[..., None]) -> Callable[..., None]:
    """Passes `find` to the command, which looks for the place. Raises `ClickException` if it is not clear."""

    @click.option("--config", "config_file", type=click.Path(path_type=Path), help="Configuration file (TOML).")
    @click.option("--env-file", type=click.Path(path_type=Path), help="File with variables for the configuration.")
    @click.option(
        "--data-dir",
        type=click.Path(path_type=Path),
        envvar="STREAMWEIR_DATA",
        help="The gateway's data directory.  [default: that of the running gateway]",
    )
    @functools.wraps(command)
    def with_place(config_file: Path | None, env_file: Path | None, data_dir: Path | None, **more: Any) -> None:
        def find() -> LocalGateway:
            try:
                return find_gateway(command_environment(), config_file, data_dir, env_file)
            except NotFound as reason:
                raise click.ClickException(str(reason)) from None

        command(find=find, **more)

    return with_place


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _create_directory(data_dir: Path) -> Path:
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as reason:
        raise click.ClickException(f"{data_dir}: cannot be used as data directory: {reason.strerror}") from None
    return data_dir


def _store_settings(config_file: Path | None, environ: Mapping[str, str]) -> "StoreSettings":
    from streamweir.config.check import check
    from streamweir.config.error import ConfigError, raise_all
    from streamweir.config.file.secret_reference import SecretValues
    from streamweir.config.load import load_config, read_with_secrets
    from streamweir.config.model import Config

    if config_file is None:
        return Config().store
    try:
        tree = tomllib.loads(config_file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
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
