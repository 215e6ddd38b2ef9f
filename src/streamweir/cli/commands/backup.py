"""`streamweir backup`: a copy of the SQLite database beside the running server."""

from pathlib import Path

import click

from streamweir.cli.database import StoreAccess, store_options


@click.command("backup", short_help="Copy the SQLite database beside the running server.")
@click.argument("file", type=click.Path(path_type=Path))
@store_options
def command(access: StoreAccess, file: Path) -> None:
    """Copy the SQLite database to FILE, which must not exist. The server may run meanwhile.

    For PostgreSQL use pg_dump.
    """
    from streamweir.config.error import ConfigError
    from streamweir.store.db.base import StoreError
    from streamweir.store.db.engine import sqlite_path
    from streamweir.store.db.sqlite_backup import back_up

    try:
        source = sqlite_path(access.settings().url, access.data_dir)
        if source is None:
            raise click.ClickException("store.url: the database is PostgreSQL: use pg_dump")
        if not source.is_file():
            raise click.ClickException(f"there is no database {source}")
        size = back_up(source, file)
    except (ConfigError, StoreError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{source} is copied to {file} ({size} bytes)")
