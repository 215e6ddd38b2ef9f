"""A configuration out of a file: read, held against the types, checked; or one error that says all.

Relative names of files are taken from where the file itself lies, and are whole in the result. What
`--listen` says stands over the file. Everything that can be known to be wrong before the start is
found here, so that a reload never leaves a half-good configuration in place.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from json import dumps
from os import R_OK, access
from pathlib import Path
from typing import Any, cast

from msgspec import structs

from streamweir.config.check import check, check_listen
from streamweir.config.error import Complaint, ConfigError, member, raise_all
from streamweir.config.model import Config, ProviderTimeouts
from streamweir.config.schema import Reader

__all__ = ["ConfigError", "load_config"]

_AT = re.compile(r" \(at (?P<place>[^()]*)\)$")


def load_config(path: Path, environ: Mapping[str, str], *, listen: str | None = None) -> Config:
    """Raises `ConfigError`. `listen` replaces `server.listen`."""
    file = str(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as reason:
        raise ConfigError("", f"cannot be read: {reason.strerror}", file=file) from None
    except UnicodeDecodeError:
        raise ConfigError("", "is not UTF-8 text", file=file) from None
    try:
        reader = Reader(environ)
        config = _anchored(_read(text, reader), path.absolute().parent)
        if listen is not None:
            config = structs.replace(config, server=structs.replace(config.server, listen=listen))
        raise_all([_veiled(each, reader.written) for each in (*check(config), *_missing_files(config))])
        check_listen(config)
    except ConfigError as error:
        error.file = file
        raise
    return config


def _read(text: str, reader: Reader) -> Config:
    config = reader.read(_gathered(_parse(text)), Config)
    raise_all(reader.complaints)
    return cast(Config, config)


def _gathered(tree: dict[str, Any]) -> dict[str, Any]:
    """A provider's timeouts may stand in its own table, beside `base_url`; they are one with those in `timeouts`."""
    providers = tree.get("providers")
    for provider in providers if isinstance(providers, list) else ():
        if not isinstance(provider, dict):
            continue
        timeouts = provider.get("timeouts", {})
        found = [name for name in ProviderTimeouts.__struct_fields__ if name in provider]
        if found and isinstance(timeouts, dict) and not timeouts.keys() & set(found):
            provider["timeouts"] = {**timeouts, **{name: provider.pop(name) for name in found}}
    return tree


def _veiled(complaint: Complaint, written: Mapping[str, str]) -> Complaint:
    """A value that came out of the environment is shown as it is written in the file."""
    reason = complaint.reason
    for value, text in written.items():
        reason = reason.replace(dumps(value), dumps(text))
    return Complaint(complaint.where, reason)


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as reason:  # a TOMLDecodeError, or a number that is too long to be one
        fault = str(reason)
    # Out here, so that what the parser holds of the file is not part of the error.
    at = _AT.search(fault)
    place = at["place"] if at is not None else ""
    if place == "end of document":
        *before, last = text.split("\n")
        place = f"line {len(before) + 1}, column {len(last) + 1}"
    raise ConfigError(place, f"not TOML: {_AT.sub('', fault)}")


def _anchored(config: Config, folder: Path) -> Config:
    server = config.server
    if server.tls is not None:
        cert_file, key_file = str(folder / server.tls.cert_file), str(folder / server.tls.key_file)
        server = structs.replace(server, tls=structs.replace(server.tls, cert_file=cert_file, key_file=key_file))
    providers = [
        structs.replace(provider, ca_file=str(folder / provider.ca_file)) if provider.ca_file is not None else provider
        for provider in config.providers
    ]
    return structs.replace(config, server=server, providers=tuple(providers))


def _missing_files(config: Config) -> Iterator[Complaint]:
    files = [(f"{member('providers', provider.name)}.ca_file", provider.ca_file) for provider in config.providers]
    if config.server.tls is not None:
        files += [
            ("server.tls.cert_file", config.server.tls.cert_file),
            ("server.tls.key_file", config.server.tls.key_file),
        ]
    for where, file in files:
        if file is not None and not Path(file).is_file():
            yield Complaint(where, "file not found")
        elif file is not None and not access(file, R_OK):
            yield Complaint(where, "permission denied")
