"""`streamweir init`: writes a first configuration file, from flags or from a few questions on a terminal.

An existing file is never changed. The file is readable by its owner alone, and contains no secret.
"""

import os
import sys
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

import click

from streamweir.cli.find import CONFIG_FILE
from streamweir.cli.initial_config import STORES, Choices, initial_config
from streamweir.config.address import split_listen
from streamweir.config.check import kinds

T = TypeVar("T")

_DEFAULT = Choices()


@click.command("init", short_help="Write a first configuration file.")
@click.argument("file", default=CONFIG_FILE, type=click.Path(path_type=Path))
@click.option(
    "--provider",
    "providers",
    multiple=True,
    metavar="KIND",
    help="A kind of provider: openai, anthropic, azure, ...; may be repeated.  [default: sim]",
)
@click.option("--listen", metavar="HOST:PORT", help=f"Address to listen on.  [default: {_DEFAULT.listen}]")
@click.option("--store", type=click.Choice(STORES), help="Database.  [default: sqlite]")
@click.option("--shared", "is_shared", is_flag=True, help="Share limits between processes in Valkey or Redis.")
def command(file: Path, providers: tuple[str, ...], listen: str | None, store: str | None, is_shared: bool) -> None:
    """Write FILE with comments, and say what to do next. Without options, a terminal is asked some questions."""
    if file.exists():
        raise click.ClickException(f"{file} exists, and is not changed: name another file")
    if not providers and listen is None and store is None and sys.stdin.isatty():
        providers, listen, store = _ask()
    choices = Choices(
        providers=tuple(_kind(each) for each in providers) or _DEFAULT.providers,
        listen=_address(listen or _DEFAULT.listen),
        store=store or _DEFAULT.store,
        is_shared=is_shared,
    )
    _write(file, initial_config(choices))
    click.echo(f"{file} is written. What to do next:\n")
    for name in choices.variables:
        click.echo(f"  export {name}=...")
    option = f" {file}" if file != Path(CONFIG_FILE) else ""
    click.echo(f"  streamweir config check{option}")
    click.echo(f"  streamweir serve --config {file}")


def _ask() -> tuple[tuple[str, ...], str, str]:
    click.echo(f"Kinds of providers: {', '.join(kinds())}")
    named = click.prompt(
        "Providers, separated by blanks", default=" ".join(_DEFAULT.providers), value_proc=_asked_again(_kinds_in)
    )
    listen = click.prompt("Address to listen on", default=_DEFAULT.listen, value_proc=_asked_again(_address))
    store = click.prompt("Database", type=click.Choice(STORES), default=_DEFAULT.store)
    return named, listen, store


def _asked_again(read: Callable[[str], T]) -> Callable[[str], T]:
    """What is not valid is said at once, and the same question is asked again."""

    def read_or_ask(answer: str) -> T:
        try:
            return read(answer)
        except click.ClickException as reason:
            raise click.UsageError(reason.message) from None

    return read_or_ask


def _kinds_in(answer: str) -> tuple[str, ...]:
    return tuple(_kind(each) for each in answer.replace(",", " ").split())


def _kind(name: str) -> str:
    if name not in kinds():
        near = get_close_matches(name, kinds())
        hint = f", did you mean {' or '.join(near)}?" if near else f": {', '.join(kinds())}"
        raise click.ClickException(f"there is no kind of provider {name!r}{hint}")
    return name


def _address(listen: str) -> str:
    if split_listen(listen) is None:
        raise click.ClickException(f"{listen!r} is not HOST:PORT, such as {_DEFAULT.listen}")
    return listen


def _write(file: Path, text: str) -> None:
    is_ours = False
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        is_ours = True
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.write(text)
    except OSError as reason:
        if is_ours:  # a part of it would keep the next run from writing it
            file.unlink(missing_ok=True)
        raise click.ClickException(f"{file}: cannot be written: {reason.strerror}") from None
