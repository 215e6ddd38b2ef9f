"""`streamweir doctor`: the command. The checks run at the same time, each with a deadline.

Exit status: 0 nothing failed, 1 something did. A warning is no failure.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import click
from msgspec import structs

from streamweir.cli.commands.doctor.finding import Finding, fail, ok
from streamweir.cli.database import json_option, place_options
from streamweir.cli.find import LocalGateway
from streamweir.cli.view.table import for_terminal, show_json
from streamweir.config.error import ConfigError
from streamweir.config.model import Config

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command("doctor", short_help="Try everything that the gateway needs.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1, 300),
    default=10.0,
    show_default=True,
    help="Seconds for each provider.",
)
@json_option
@place_options
def command(find: Callable[[], LocalGateway], timeout_s: float, as_json: bool) -> None:
    """Reach all providers, the identity provider, the collector and the stores, and check clock, open files, memory and
    permissions.

    Providers are asked for their models, which is never billed. The exit status is 1 if something failed.
    """
    place = find()
    findings = asyncio.run(_diagnose(place, timeout_s))
    if as_json:
        show_json(findings)
    else:
        for each in findings:
            _show(each)
    sys.exit(1 if any(each.outcome == "fail" for each in findings) else 0)


def _show(finding: Finding) -> None:
    outcome = click.style(f"{finding.outcome:<4}", fg=_COLOURS[finding.outcome])
    click.echo(f"{outcome}  {for_terminal(finding.subject)}: {for_terminal(finding.message)}")
    if finding.advice is not None:
        click.echo(f"      {for_terminal(finding.advice)}")


async def _diagnose(place: LocalGateway, timeout_s: float) -> list[Finding]:
    from streamweir.cli.commands.doctor.collector import check_collector
    from streamweir.cli.commands.doctor.identity import check_identity
    from streamweir.cli.commands.doctor.machine import check_machine
    from streamweir.cli.commands.doctor.provider import check_providers
    from streamweir.cli.commands.doctor.store import check_database, check_journal, check_shared

    try:
        config = await asyncio.to_thread(_load, place)
    except ConfigError as error:
        advice = f"`streamweir config check {place.config_file}` has every mistake with its line"
        where = f"{error.where}: " if error.where else ""
        return [fail("configuration", f"{error.file or place.config_file}: {where}{error.reason}", advice)]
    about = str(place.config_file) if place.config_file is not None else "none: the default is used"
    providers, identity, collector, database, shared, journal, machine = await asyncio.gather(
        check_providers(config, timeout_s),
        check_identity(config, timeout_s),
        check_collector(config, timeout_s),
        check_database(config, place.data_dir),
        check_shared(config),
        asyncio.to_thread(lambda: list(check_journal(config, place.data_dir))),
        asyncio.to_thread(lambda: list(check_machine(config, place))),
    )
    findings = [ok("configuration", about), *providers, *identity, *collector, *database, *shared]
    findings += [*journal, *machine]
    return [_masked(each, config) for each in findings]


def _load(place: LocalGateway) -> Config:
    """Raises `ConfigError`."""
    from streamweir.config.file.env_file import with_variables
    from streamweir.config.load import default_config, load_config
    from streamweir.upstream.local import why_unavailable

    if place.config_file is None:
        return default_config(has_local=why_unavailable() is None)
    file: Path = place.config_file
    return load_config(file, with_variables(os.environ, place.env_file))


def _masked(finding: Finding, config: Config) -> Finding:
    """Whatever an error has quoted, no secret of the configuration is shown."""
    from streamweir.config.display.mask import Masks

    return structs.replace(finding, message=Masks(config).text(finding.message))
