"""The development key of a server that was given no keys: made once, kept in its data folder.

It is an entry of `[[keys]]` in every respect but that nobody had to write it. Only a server on
loopback gets one (`config.check`).
"""

import contextlib
import os
import re
import secrets
from pathlib import Path

from msgspec import structs

from streamweir.config.error import ConfigError
from streamweir.config.guess import SHORTEST
from streamweir.config.model import Config, Key

NAME = "development"
_FILE = "development.key"


def with_development_key(config: Config, data_dir: Path) -> Config:
    """The configuration with that key in it, where it has none of its own. Raises `OSError` and `ConfigError`."""
    if config.keys:
        return config
    key = Key(name=NAME, key=_load_or_make(data_dir / _FILE), scopes=("chat", "models", "admin"))
    return structs.replace(config, keys=(key,))


def _load_or_make(file: Path) -> str:
    if not file.exists():
        # Whole before it has its name, and never readable by others: two servers may start at the same moment.
        draft = file.with_name(f"{file.name}.{os.getpid()}")
        handle = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w") as out:
            out.write(f"sk-sw-{secrets.token_hex(24)}\n")
        with contextlib.suppress(FileExistsError):
            os.link(draft, file)
        draft.unlink()
    file.chmod(0o600)
    secret = file.read_text().strip()
    if len(secret) < SHORTEST or not re.fullmatch(r"[\w-]+", secret, re.ASCII):
        raise ConfigError(
            "", "contains no valid key: remove the file, and the next start creates a new one", file=str(file)
        )
    return secret
