"""`streamweir config show`: the configuration as TOML, with the origin of each value and secrets masked.

Of a file it is what a start would use now. Of a gateway it is what this uses: it is asked over its API, with the admin
secret. The first lines say which of them it is. The secret goes only to the address that is named, or to the gateway
of this user that runs with the file.
"""

import os
from pathlib import Path

import click
from msgspec import Struct

from streamweir.cli.commands.top import SECRET, reason_of
from streamweir.cli.config_file import file_of, once
from streamweir.cli.database import json_option
from streamweir.cli.find import command_environment
from streamweir.cli.probe import Unreachable, get
from streamweir.cli.view.table import for_terminal, show_json
from streamweir.config.display.effective import Section, toml_of
from streamweir.server.process.run_file import Running


class Shown(Struct, kw_only=True):
    source: str
    """`file`, or `gateway`: what it uses."""
    file: str | None
    url: str | None
    sections: list[Section]
    note: str = ""


@click.command("show")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--config", "named", type=click.Path(path_type=Path), help="The same as FILE, as other commands name it.")
@click.option("--env-file", type=click.Path(path_type=Path), help="File with variables for the configuration.")
@click.option("--url", help="Show what the gateway at this address uses.")
@click.option("--secret", envvar=SECRET, help=f"The admin secret, to ask a gateway.  [default: ${SECRET}]")
@click.option("--defaults", "has_defaults", is_flag=True, help="Show settings that have their default, too.")
@json_option
def show(
    file: Path | None,
    named: Path | None,
    env_file: Path | None,
    url: str | None,
    secret: str | None,
    has_defaults: bool,
    as_json: bool,
) -> None:
    """Show the configuration as TOML, with where each value comes from. Secrets are masked.

    With --url it is what that gateway uses. Without FILE it is streamweir.toml in this folder, or the configuration of
    the running gateway; if there is an admin secret, this gateway is asked what it uses.
    """
    shown = _find(once(file, named), env_file, url, secret)
    if as_json:
        show_json({name: getattr(shown, name) for name in ("source", "file", "url", "sections")})
        return
    place = f"the gateway at {shown.url} uses" if shown.source == "gateway" else f"{shown.file} has it now"
    head = f"# What {place}" if shown.source == "gateway" else f"# As {place}"
    for line in (f"{head}, without secrets.", *([f"# {shown.note}"] if shown.note else []), ""):
        click.echo(for_terminal(line))
    text = toml_of(shown.sections, has_defaults=has_defaults)
    click.echo(for_terminal(text, "\n"), nl=False)


def _find(file: Path | None, env_file: Path | None, url: str | None, secret: str | None) -> Shown:
    if url is not None:
        if file is not None:
            raise click.UsageError("name either a file or --url")
        if not secret:
            raise click.ClickException(f"--url needs the admin secret: set {SECRET}")
        return _ask(url, secret)
    is_named = file is not None
    file, env_file = file_of(file, env_file)
    running = _running_with(file) if not is_named else []
    if len(running) == 1 and secret:
        return _ask(running[0].file.urls[0], secret)
    shown = _read(file, env_file)
    if running:
        pids = ", ".join(str(each.file.pid) for each in running)
        shown.note = f"A gateway runs with this file (pid {pids}): set {SECRET} to see what it uses."
    return shown


def _running_with(file: Path) -> list[Running]:
    """Gateways of this user alone: another's is not given the secret."""
    around = command_environment()
    at = str(file.absolute())
    return [each for each in around.running() if each.owner == around.uid and each.file.config_file == at]


def _read(file: Path, env_file: Path | None) -> Shown:
    from streamweir.config.display.effective import sections_of
    from streamweir.config.error import ConfigError
    from streamweir.config.source import ConfigSource

    source = ConfigSource(file, os.environ, env_file=env_file)
    try:
        config = source.load()
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    return Shown(source="file", file=source.file, url=None, sections=sections_of(config, source.origins()))


def _ask(url: str, secret: str) -> Shown:
    import msgspec

    try:
        reply = get(url, "/api/settings", secret=secret)
        if reply.status != 200:
            raise click.ClickException(f"{url}: {reason_of(reply.document(), reply.status)}")
        answer = msgspec.json.decode(reply.body, type=_Answer)
    except Unreachable as reason:
        raise click.ClickException(f"{url}: {reason}") from None
    except msgspec.DecodeError:
        raise click.ClickException(f"{url}: the answer is not that of a Streamweir gateway") from None
    return Shown(source="gateway", file=answer.file, url=url, sections=answer.sections)


class _Answer(Struct):
    file: str | None
    sections: list[Section]
