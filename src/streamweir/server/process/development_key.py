"""The key of a server without configured keys: created once, stored in its data directory.

It is treated like an entry of `[[keys]]`. Only a server on loopback gets one (`config.check`).
"""

import contextlib
import os
import re
import secrets
from pathlib import Path

from msgspec import structs

from streamweir.config.checks.weak_key import MIN_KEY_LENGTH
from streamweir.config.error import ConfigError
from streamweir.config.model import Config, Key

DEVELOPMENT_KEY_NAME = "development"
_DEVELOPMENT_KEY_FILE = "development.key"


def with_development_key(config: Config, data_dir: Path) -> Config:
    """The configuration with the development key, if it has no keys. Raises `OSError` and `ConfigError`."""
    if config.keys:
        return config
    key = Key(
        name=DEVELOPMENT_KEY_NAME,
        key=_load_or_make(data_dir / _DEVELOPMENT_KEY_FILE),
        scopes=("chat", "models", "admin"),
    )
    return structs.replace(config, keys=(key,))


def _load_or_make(file: Path) -> str:
    if not file.exists():
        # Written completely before it gets its name, and never readable by others: two servers may start at once.
        draft = file.with_name(f"{file.name}.{os.getpid()}")
        handle = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w") as out:
            out.write(f"sk-sw-{secrets.token_hex(24)}\n")
        with contextlib.suppress(FileExistsError):
            os.link(draft, file)
        draft.unlink()
    file.chmod(0o600)
    secret = file.read_text().strip()
    if len(secret) < MIN_KEY_LENGTH or not re.fullmatch(r"[\w-]+", secret, re.ASCII):
        raise ConfigError(
            "", "contains no valid key: remove the file, and the next start creates a new one", file=str(file)
        )
    return secret
