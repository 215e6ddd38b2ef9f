"""`streamweir import`: converts another gateway's configuration.

The result goes to standard output or to a new file. What the operator has to know, and the settings that could not be
converted, are listed at its top and on standard error. Neither contains a secret of the old file. `config.litellm` does
the conversion.
"""

from pathlib import Path
from typing import IO

import click

from streamweir.config.litellm import NotAConfiguration, Note, Translation, merge_notes, translate

_MAX_BYTES = 4 << 20


@click.group("import", short_help="Convert another gateway's configuration.")
def command() -> None:
    """Convert another gateway's configuration into a streamweir.toml."""


@command.command("litellm")
@click.argument("file", type=click.File("rb"))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Output file.  [default: standard output]")
def litellm(file: IO[bytes], output: Path | None) -> None:
    """Convert FILE, the config.yaml of a LiteLLM proxy ('-' reads standard input).

    Converts models with their targets, fallbacks, limits and prices, providers with their keys,
    parameters, timeouts and the master key. Reports which settings need a note, and which were not
    converted and why. Secrets are not copied: they become environment variables.
    """
    name = getattr(file, "name", "-")
    result = _translate(file.read(_MAX_BYTES + 1), str(name))
    text = _heading(Path(str(name)).name, result) + result.toml
    if output is None:
        click.echo(text, nl=False)
    else:
        _write(output, text)
    for line in _report(result):
        click.echo(line, err=True)


def _translate(data: bytes, name: str) -> Translation:
    try:
        import yaml
    except ModuleNotFoundError:
        raise click.ClickException("reading YAML needs a library: install streamweir[import]") from None
    if len(data) > _MAX_BYTES:
        raise click.ClickException(f"{name}: is too large for a configuration")
    try:
        return translate(yaml.safe_load(data))
    except yaml.MarkedYAMLError as fault:  # its own message shows the line, which may contain a secret
        mark = fault.problem_mark
        position = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise click.ClickException(f"{name}: is not YAML{position}") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError):  # for example an invalid date
        raise click.ClickException(f"{name}: is not YAML") from None
    except RecursionError:
        raise click.ClickException(f"{name}: is nested too deeply for a configuration") from None
    except NotAConfiguration as fault:
        raise click.ClickException(f"{name}: {fault}") from None


def _heading(name: str, result: Translation) -> str:
    lines = [f"Made of {name.encode('ascii', 'replace').decode()} by `streamweir import litellm`."]
    lines.append("LiteLLM listens on 0.0.0.0:4000 and this on 127.0.0.1:8080, unless server.listen says otherwise.")
    if result.variables:
        lines += ["", "Set these environment variables:", *(f"  {variable}" for variable in result.variables)]
    lines += ["", *_report(result)]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines) + "\n"


def _report(result: Translation) -> list[str]:
    converted, noted, dropped = len(result.converted), len(result.noted), len(result.dropped)
    counts = f"{converted} converted, {noted} converted with a note, {dropped} not converted"
    lines = [f"Settings: {counts}."]
    return lines + _listed("Converted, with a note:", result.noted) + _listed("Not converted:", result.dropped)


def _listed(title: str, notes: list[Note]) -> list[str]:
    return ["", title, *(f"  {note}" for note in merge_notes(notes))] if notes else []


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise click.ClickException(f"{path}: already exists") from None
    except OSError as fault:
        raise click.ClickException(f"{path}: {fault.strerror}") from None
