"""What is derived from the commands of the command line: the reference of docs/cli.md, and completion for shells.

`scripts.generate` writes both; the package installs the completion where shells look for it (`pyproject.toml`).
"""

from collections.abc import Iterator

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from streamweir.cli.main import main

_WIDTH = 100
_PROGRAM = "streamweir"
_VARIABLE = "_STREAMWEIR_COMPLETE"
_SHELLS: dict[str, type[ShellComplete]] = {
    "completion/streamweir.bash": BashComplete,
    "completion/_streamweir": ZshComplete,
    "completion/streamweir.fish": FishComplete,
}


def completion() -> dict[str, str]:
    """The files, by their paths in the repository."""
    # The base class: that of bash would run the bash of this machine, to look at its version.
    return {path: ShellComplete.source(shell(main, {}, _PROGRAM, _VARIABLE)) + "\n" for path, shell in _SHELLS.items()}


def commands() -> str:
    """The help of every command, as the program prints it."""
    context = click.Context(main, info_name=_PROGRAM, terminal_width=_WIDTH, **main.context_settings)
    return "\n\n".join(_helps(main, context))


def _helps(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"### {context.command_path}\n\n```text\n{command.get_help(context)}\n```"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield from _helps(inner, click.Context(inner, context, info_name=name))
