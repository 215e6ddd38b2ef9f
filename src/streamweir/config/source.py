"""A configuration file, with its text and variables as they were last read, and what became of its reloads."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from streamweir.config.display.origin import LISTEN, Origins
from streamweir.config.error import ConfigError
from streamweir.config.file.env_file import with_variables
from streamweir.config.file.secret_reference import SecretValues
from streamweir.config.load import parse_config, read_file
from streamweir.config.model import Config
from streamweir.config.reload_log import ReloadLog


class ConfigSource:
    """A configuration file, with its text and variables as they were last read."""

    def __init__(
        self,
        path: Path,
        environ: Mapping[str, str],
        *,
        env_file: Path | None = None,
        listen: str | None = None,
        secrets: SecretValues | None = None,
    ) -> None:
        self.secrets = secrets if secrets is not None else SecretValues()
        self.log = ReloadLog()
        self.folder = path.absolute().parent
        self._path = path
        self._environ = environ
        self._env_file = env_file
        self._listen = listen
        self._read: tuple[str, Mapping[str, str]] | None = None

    def load(self) -> Config:
        """Reads the file and its variables. Raises `ConfigError`."""
        environ = with_variables(self._environ, self._env_file)
        text = read_file(self._path)
        config = parse_config(text, self._path, environ, listen=self._listen, secrets=self.secrets)
        self._read = text, environ
        return config

    def load_again(self) -> Config:
        """With the text and the variables of the last time, and the present secrets."""
        if self._read is None:
            return self.load()
        text, environ = self._read
        return parse_config(text, self._path, environ, listen=self._listen, secrets=self.secrets)

    @property
    def file(self) -> str:
        return str(self._path.absolute())

    def origins(self) -> Origins:
        """Of the configuration that is in use."""
        if self._read is None:
            return Origins()
        text, environ = self._read
        env_file = self._env_file.name if self._env_file is not None else ""
        return Origins(
            text,
            self._path.name,
            environ=environ,
            env_file=env_file,
            # What differs from the environment comes from the file: what is equal may come from either.
            env_file_names={name for name, value in environ.items() if self._environ.get(name) != value},
            options={LISTEN: "--listen"} if self._listen is not None else {},
        )

    @contextmanager
    def undone_if_invalid(self) -> Iterator[None]:
        """After a `ConfigError` everything here is as before, as is the configuration that is in use: a change that was
        not used must be found again."""
        read, state = self._read, self.secrets.state
        try:
            yield
        except ConfigError:
            self._read, self.secrets.state = read, state
            raise
