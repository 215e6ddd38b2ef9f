"""`streamweir`: one program, its commands loaded when they are used, so that each starts fast."""

import signal
from importlib import import_module

import click

from streamweir import __version__

_COMMANDS = {
    "admin": "streamweir.cli.commands.admin",
    "backup": "streamweir.cli.commands.backup",
    "chat": "streamweir.cli.commands.chat",
    "check": "streamweir.cli.commands.check",
    "config": "streamweir.cli.commands.config",
    "credits": "streamweir.cli.commands.credits",
    "doctor": "streamweir.cli.commands.doctor.command",
    "import": "streamweir.cli.commands.imports",
    "init": "streamweir.cli.commands.init",
    "invoice": "streamweir.cli.commands.invoice",
    "keys": "streamweir.cli.commands.keys",
    "logs": "streamweir.cli.commands.logs",
    "people": "streamweir.cli.commands.people",
    "prices": "streamweir.cli.commands.prices",
    "reconcile": "streamweir.cli.commands.reconcile",
    "replay": "streamweir.cli.commands.replay",
    "serve": "streamweir.cli.commands.serve",
    "status": "streamweir.cli.commands.status",
    "top": "streamweir.cli.commands.top",
    "workspaces": "streamweir.cli.commands.workspaces",
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        module = _COMMANDS.get(cmd_name)
        if module is None:
            return None
        command: click.Command = import_module(module).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Click knows only commands that are loaded, so the nearest names are looked for here."""
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            if near := get_close_matches(name, _COMMANDS):
                raise click.UsageError(f"there is no command {name!r}, did you mean {' or '.join(near)}?", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="streamweir %(version)s")
def main() -> None:
    """A streaming-first LLM gateway with exact wire formats and exact accounting."""
    # It is inherited: then nobody could know how a process that was started here has ended.
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
