"""`streamweir`: one program, its commands loaded when they are used, so that each starts fast."""

import signal
from importlib import import_module

import click

from streamweir import __version__

_COMMANDS = {
    "admin": "streamweir.cli.admin",
    "backup": "streamweir.cli.backup",
    "chat": "streamweir.cli.chat",
    "check": "streamweir.cli.check",
    "config": "streamweir.cli.config",
    "credits": "streamweir.cli.credits",
    "doctor": "streamweir.cli.doctor.command",
    "import": "streamweir.cli.imports",
    "init": "streamweir.cli.init",
    "invoice": "streamweir.cli.invoice",
    "keys": "streamweir.cli.keys",
    "logs": "streamweir.cli.logs",
    "people": "streamweir.cli.people",
    "prices": "streamweir.cli.prices",
    "reconcile": "streamweir.cli.reconcile",
    "replay": "streamweir.cli.replay",
    "serve": "streamweir.cli.serve",
    "status": "streamweir.cli.status",
    "top": "streamweir.cli.top",
    "workspaces": "streamweir.cli.workspaces",
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


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="streamweir %(version)s")
def main() -> None:
    """A streaming-first LLM gateway with exact wire formats and exact accounting."""
    # It is inherited: then nobody could know how a process that was started here has ended.
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
