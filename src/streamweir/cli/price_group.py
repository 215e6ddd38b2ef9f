"""A warning for a price group that the configuration file does not have: requests would be refused until it has."""

import tomllib

import click

from streamweir.cli.database import StoreAccess


def warn_of_unknown_group(access: StoreAccess, name: str | None) -> None:
    """Only if a file is given: another node's may have it. The store says what is wrong with a file."""
    if name is None or access.config_file is None:
        return
    try:
        groups = tomllib.loads(access.config_file.read_text(encoding="utf-8-sig")).get("price_groups", [])
    except (OSError, ValueError, RecursionError):
        return
    names = [group.get("name") for group in groups if isinstance(group, dict)] if isinstance(groups, list) else []
    if name not in names:
        click.echo(
            f"{access.config_file} has no price group {name!r}: requests are refused until it is under "
            "[[price_groups]].",
            err=True,
        )
