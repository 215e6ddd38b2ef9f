"""Which configuration file a command is about: the one that is named, the one here, or that of the running gateway."""

from pathlib import Path

import click

from streamweir.cli.find import CONFIG_FILE, NotFound, command_environment, find_gateway


def file_of(file: Path | None, env_file: Path | None) -> tuple[Path, Path | None]:
    """With its file of variables. Raises `ClickException` if there is none."""
    if file is not None:
        return file, env_file
    if (here := Path(CONFIG_FILE)).is_file():  # it may have just been written, beside another gateway that runs
        return here, env_file
    try:
        place = find_gateway(command_environment(), env_file=env_file)
    except NotFound as reason:
        raise click.ClickException(str(reason)) from None
    if place.config_file is None:
        why = f"there is no {CONFIG_FILE} in this folder, and no gateway of this user runs with a configuration"
        raise click.ClickException(f"{why}: name the file")
    return place.config_file, place.env_file


def once(file: Path | None, named: Path | None) -> Path | None:
    """FILE, or that of `--config`."""
    if file is not None and named is not None:
        raise click.UsageError("name the file once: as FILE or with --config")
    return file or named
