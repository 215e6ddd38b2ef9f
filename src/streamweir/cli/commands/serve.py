"""`streamweir serve`: starts the gateway.

Without a configuration file it serves the embedded model, if it is installed, and the simulator, on loopback, with a
generated key.
"""

import gc
import sys
from pathlib import Path

import click

from streamweir.cli.find import CONFIG_FILE, user_data_dir
from streamweir.config.error import ConfigError


@click.command("serve", short_help="Start the gateway.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Configuration file (TOML).")
@click.option(
    "--env-file",
    type=click.Path(path_type=Path),
    help="File with variables (NAME=value) for the configuration; overrides the environment; read at each reload.",
)
@click.option("--listen", metavar="HOST:PORT", help="Address to listen on; overrides the configuration.")
@click.option(
    "--workers", type=click.IntRange(1, 256), default=1, show_default=True, help="Number of processes on the port."
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    envvar="STREAMWEIR_DATA",
    help="The gateway's data directory.  [default: the user's data directory]",
)
def command(
    config_file: Path | None, env_file: Path | None, listen: str | None, workers: int, data_dir: Path | None
) -> None:
    """Start the gateway and print its address."""
    if env_file is not None and config_file is None:
        raise click.UsageError("--env-file has no effect without --config.")
    if config_file is None and Path(CONFIG_FILE).is_file():
        unused = f"{CONFIG_FILE} of this folder is not used: `streamweir serve --config {CONFIG_FILE}` uses it."
        click.echo(f"Note: {unused}", err=True)
    gc.disable()  # nothing that is imported becomes garbage: to look for it takes a sixth of the time to start
    from streamweir.server.process.start import StartFailed, serve
    from streamweir.server.process.worker import StartOptions

    gc.enable()

    folder = (data_dir or user_data_dir()).absolute()
    start = StartOptions(config_path=config_file, env_file=env_file, data_dir=folder, listen=listen, workers=workers)
    try:
        sys.exit(serve(start, click.echo))
    except (ConfigError, StartFailed) as error:
        raise click.ClickException(str(error)) from None
