"""What a start checks beyond the configuration by itself: the number of workers, and the credentials of clouds.

`streamweir serve` and `streamweir config check` use it, so that they report the same.
"""

from collections.abc import Iterator
from pathlib import Path

from streamweir.config.check import check_workers
from streamweir.config.error import ConfigError, ConfigProblem, member, raise_all
from streamweir.config.load import locate, read_file
from streamweir.config.model import Config
from streamweir.server.request.runtime.authorization import authorizer_for


def check_start(config: Config, file: Path | None, workers: int) -> None:
    """Raises `ConfigError` with all problems."""
    try:
        raise_all([*check_workers(config, workers), *_credentials(config)], str(file or ""))
    except ConfigError as error:
        if file is not None:
            locate(error, read_file(file))
        raise


def _credentials(config: Config) -> Iterator[ConfigProblem]:
    """Of clouds: files that the configuration names must be there."""
    for provider in config.providers:
        try:
            authorizer_for(provider)
        except ValueError as reason:
            yield ConfigProblem(member("providers", provider.name), str(reason))
