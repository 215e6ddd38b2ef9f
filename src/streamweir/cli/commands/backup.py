"""`streamweir backup`: a copy of the SQLite database beside the running server."""

from collections.abc import Callable
from pathlib import Path

import click

from streamweir.cli.database import StoreAccess, place_options
from streamweir.cli.find import LocalGateway


@click.command("backup", short_help="Copy the SQLite database beside the running server.")
@click.argument("file", type=click.Path(path_type=Path))
@place_options
def command(find: Callable[[], LocalGateway], file: Path) -> None:
    """Copy the SQLite database to FILE, which must not exist. The server may run meanwhile.

    For PostgreSQL use pg_dump.
    """
    from streamweir.config.error import ConfigError
    from streamweir.store.db.base import StoreError
    from streamweir.store.db.sqlite_backup import back_up

    try:
        source = StoreAccess(find()).sqlite_file()
        if source is None:
            raise click.ClickException("store.url: the database is PostgreSQL: use pg_dump")
        size = back_up(source, file)
    except (ConfigError, StoreError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{source} is copied to {file} ({size} bytes)")
