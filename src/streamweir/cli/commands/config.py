"""`streamweir config`, and its `check`: every mistake of a file, with its line, before a gateway is started with it.

It reads what a start reads: the file, the variables, the files with keys, and secrets that are elsewhere. No message
contains a secret. Exit status: 0 no mistake, 1 mistakes.
"""

import os
import sys
from pathlib import Path

import click
from msgspec import Struct

from streamweir.cli.commands.config_show import show
from streamweir.cli.config_file import file_of, once
from streamweir.cli.database import json_option
from streamweir.cli.view.table import show_json
from streamweir.config.error import ConfigError, ConfigProblem


class Problem(Struct):
    file: str
    line: int | None
    column: int | None
    path: str
    reason: str


@click.group("config", short_help="Check and show a configuration.")
def command() -> None:
    """Check and show a configuration."""


command.add_command(show)


@command.command("check")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--config", "named", type=click.Path(path_type=Path), help="The same as FILE, as other commands name it.")
@click.option("--env-file", type=click.Path(path_type=Path), help="File with variables for the configuration.")
@click.option(
    "--workers", type=click.IntRange(1, 256), default=1, show_default=True, help="Number of processes it is for."
)
@json_option
def check(file: Path | None, named: Path | None, env_file: Path | None, workers: int, as_json: bool) -> None:
    """Report every mistake of FILE with its line and column, and end with the status 1 if there is one.

    Without FILE it is streamweir.toml in this folder, or the configuration of the running gateway.
    """
    file, env_file = file_of(once(file, named), env_file)
    problems = _problems(file, env_file, workers)
    if as_json:
        show_json({"file": str(file), "problems": problems})
    else:
        for each in problems:
            place = f"{each.file}:{each.line}:{each.column}" if each.line is not None else each.file
            click.echo(": ".join(part for part in (place, each.path, each.reason) if part), err=True)
        summary = f"{file}: {len(problems)} {'mistake' if len(problems) == 1 else 'mistakes'}" if problems else ""
        click.echo(summary or f"{file}: no mistake was found.", err=bool(problems))
    sys.exit(1 if problems else 0)


def _problems(file: Path, env_file: Path | None, workers: int) -> list[Problem]:
    from streamweir.config.file.env_file import with_variables
    from streamweir.config.load import load_config
    from streamweir.server.process.start_check import check_start

    try:
        check_start(load_config(file, with_variables(os.environ, env_file)), file, workers)
    except ConfigError as error:
        return [_problem(error, file, each) for each in error.problems]
    return []


def _problem(error: ConfigError, file: Path, problem: ConfigProblem) -> Problem:
    line, column = error.positions.get(problem.where, (None, None))
    return Problem(error.file or str(file), line, column, problem.where, problem.reason)
