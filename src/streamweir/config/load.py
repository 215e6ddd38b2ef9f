"""Loads a configuration file: parses it, validates it, and reports all problems in one error. Or the default one.

Relative file names are relative to the configuration file, and absolute in the result. Keys of providers that are in
files of their own (`config.file.key_file`) and secrets that are elsewhere (`config.file.secret_reference`) are read as
well. `--listen` overrides the file.
Everything that can be checked before the start is checked here, so that a reload never applies a partly valid
configuration.
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
from streamweir.config.checks.cloud_check import TABLES, with_files
from streamweir.config.error import ConfigError, ConfigProblem, member, raise_all
from streamweir.config.file.key_file import read_key_files
from streamweir.config.file.position import positions_of
from streamweir.config.file.schema import Reader
from streamweir.config.file.secret_reference import SecretValues
from streamweir.config.model import Config, Provider, ProviderTimeouts, Server

__all__ = ["ConfigError", "default_config", "load_config"]

_MAX_DEPTH = 100
_DEEP = f"more than {_MAX_DEPTH} tables and lists are nested in each other"
_AT = re.compile(r" \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)$")


def load_config(
    path: Path, environ: Mapping[str, str], *, listen: str | None = None, secrets: SecretValues | None = None
) -> Config:
    """Raises `ConfigError`. `listen` replaces `server.listen`. `secrets`: the values that are known, and then those of
    this configuration."""
    return parse_config(read_file(path), path, environ, listen=listen, secrets=secrets)


def default_config(*, has_local: bool, listen: str | None = None) -> Config:
    """The configuration without a file: the built-in providers, on loopback. `has_local`: the embedded model can be
    started. It has no keys: a server without keys listens on loopback only, and creates a development key. Raises
    `ConfigError` if `listen` is invalid."""
    sim = Provider(name="sim", kind="sim")
    local = Provider(name="local", kind="local")
    config = Config(
        server=Server(
            listen=listen if listen is not None else Server().listen,
            default_model="local/smollm2" if has_local else "sim/hello",
        ),
        providers=(local, sim) if has_local else (sim,),
    )
    raise_all([*check(config), *check_listen(config)])
    return config


def read_file(path: Path) -> str:
    """Raises `ConfigError`."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as reason:
        raise ConfigError("", f"cannot be read: {reason.strerror}", file=str(path)) from None
    except UnicodeDecodeError:
        raise ConfigError("", "is not UTF-8 text", file=str(path)) from None


def parse_config(
    text: str,
    path: Path,
    environ: Mapping[str, str],
    *,
    listen: str | None = None,
    secrets: SecretValues | None = None,
) -> Config:
    """As `load_config`, with the text that the file had."""
    secrets = secrets if secrets is not None else SecretValues()
    folder = path.absolute().parent
    try:
        reader, read = _read(_tables_of_keys(_merge_timeouts(_parse(text))), environ, folder, secrets)
        config, file_problems = read_key_files(_resolve_paths(read, folder))
        if listen is not None:
            config = structs.replace(config, server=structs.replace(config.server, listen=listen))
        found = [*check(config), *_missing_files(config), *file_problems]
        found = [_mask_values(each, reader.written) for each in found if not reader.is_spoiled(each)]
        if not reader.spoiled & {"keys", "server", "server.listen"}:
            found += check_listen(config)
        raise_all([*reader.problems, *found])
    except ConfigError as error:
        error.file = str(path)
        locate(error, text)
        raise
    secrets.use(reader.references)
    return config


def read_with_secrets(
    tree: dict[str, Any], environ: Mapping[str, str], folder: Path, secrets: SecretValues
) -> tuple[Reader, Config]:
    """Raises `ConfigError`."""
    reader, config = _read(tree, environ, folder, secrets)
    raise_all(reader.problems)
    return reader, config


def _read(
    tree: dict[str, Any], environ: Mapping[str, str], folder: Path, secrets: SecretValues
) -> tuple[Reader, Config]:
    """It is read twice if there are references: first to find them. Raises `ConfigError` if one cannot be read."""
    reader = Reader(environ, folder)
    config = reader.read(tree, Config)
    if reader.references and not reader.problems:  # otherwise no command is run
        values = secrets.provide(reader.references, folder)
        reader = Reader(environ, folder, values)
        config = reader.read(tree, Config)
    return reader, cast(Config, config)


def locate(error: ConfigError, text: str) -> None:
    """Adds the positions of all problems in the text of the file, and puts these into the order of the file."""
    if error.positions:  # a text that is not TOML has one already
        return
    error.positions = positions_of(text, [where for where, _ in error.problems])
    error.problems = tuple(sorted(error.problems, key=lambda each: error.positions.get(each.where, (0, 0))))


def _merge_timeouts(tree: dict[str, Any]) -> dict[str, Any]:
    """Moves timeouts in the own table of a provider or a target, beside `base_url`, to its `timeouts`; both positions
    are allowed."""
    targets = [target for model in _tables(tree.get("models")) for target in _tables(model.get("targets"))]
    for table in [*_tables(tree.get("providers")), *targets]:
        timeouts = table.get("timeouts", {})
        found = [name for name in ProviderTimeouts.__struct_fields__ if name in table]
        if found and isinstance(timeouts, dict) and not timeouts.keys() & set(found):
            table["timeouts"] = {**timeouts, **{name: table.pop(name) for name in found}}
    return tree


def _tables_of_keys(tree: dict[str, Any]) -> dict[str, Any]:
    """An entry of a provider's `api_keys` may be the key alone. Nothing that may be a secret is left for a message."""
    for provider in _tables(tree.get("providers")):
        keys = provider.get("api_keys")
        if isinstance(keys, list):
            provider["api_keys"] = [each if isinstance(each, dict) else {"key": each} for each in keys]
    return tree


def _tables(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _mask_values(problem: ConfigProblem, written: Mapping[str, str]) -> ConfigProblem:
    """Replaces values from the environment by their references in the file."""
    reason = problem.reason
    for value, text in written.items():
        reason = reason.replace(dumps(value), dumps(text))
    return ConfigProblem(problem.where, reason)


def _parse(text: str) -> dict[str, Any]:
    try:
        if not _is_deep(tree := tomllib.loads(text)):
            return tree
        fault = _DEEP
    except RecursionError:
        fault = _DEEP
    except tomllib.TOMLDecodeError as reason:
        fault = f"not TOML: {reason}"
    except ValueError:
        fault = "not TOML: a whole number has too many digits"
    # Outside of the handler, so that the parser's exception, which contains the file, is not part of the error.
    at = _AT.search(fault)
    lines = text.split("\n")
    line, column = (int(at["line"]), int(at["column"])) if at and at["line"] else (len(lines), len(lines[-1]) + 1)
    error = ConfigError("", _AT.sub("", fault))
    error.positions = {"": (line, column)} if at is not None else {}
    raise error


def _is_deep(tree: dict[str, Any]) -> bool:
    """Whether something is nested so deep that those who read it might not come to its end."""
    values: list[Any] = [tree]
    for _ in range(_MAX_DEPTH):
        inner = [value.values() if isinstance(value, dict) else value for value in values]
        values = [each for several in inner for each in several if isinstance(each, dict | list)]
        if not values:
            return False
    return True


def _resolve_paths(config: Config, folder: Path) -> Config:
    server = config.server
    if server.tls is not None:
        cert_file, key_file = str(folder / server.tls.cert_file), str(folder / server.tls.key_file)
        server = structs.replace(server, tls=structs.replace(server.tls, cert_file=cert_file, key_file=key_file))
    providers = tuple(_resolve_provider(provider, folder) for provider in config.providers)
    webhooks = tuple(
        structs.replace(each, ca_file=str(folder / each.ca_file) if each.ca_file is not None else None)
        for each in config.webhooks
    )
    telemetry = config.telemetry
    if telemetry.ca_file is not None:
        telemetry = structs.replace(telemetry, ca_file=str(folder / telemetry.ca_file))
    oidc = config.oidc
    if oidc is not None and oidc.ca_file is not None:
        oidc = structs.replace(oidc, ca_file=str(folder / oidc.ca_file))
    return structs.replace(
        config, server=server, providers=providers, webhooks=webhooks, telemetry=telemetry, oidc=oidc
    )


def _resolve_provider(provider: Provider, folder: Path) -> Provider:
    def resolve(file: str | None) -> str | None:
        return str(folder / file) if file is not None else None

    api_keys = tuple(
        structs.replace(each, name=each.name or str(number), file=resolve(each.file))
        for number, each in enumerate(provider.api_keys, 1)
    )
    api_key_file, ca_file = resolve(provider.api_key_file), resolve(provider.ca_file)
    tables = {name: with_files(table, resolve) for name in TABLES if (table := getattr(provider, name)) is not None}
    return structs.replace(provider, api_keys=api_keys, api_key_file=api_key_file, ca_file=ca_file, **tables)


def _missing_files(config: Config) -> Iterator[ConfigProblem]:
    files = [(f"{member('providers', provider.name)}.ca_file", provider.ca_file) for provider in config.providers]
    files += [(f"{member('webhooks', webhook.name)}.ca_file", webhook.ca_file) for webhook in config.webhooks]
    files.append(("telemetry.ca_file", config.telemetry.ca_file))
    files.append(("oidc.ca_file", config.oidc.ca_file if config.oidc is not None else None))
    if config.server.tls is not None:
        files += [
            ("server.tls.cert_file", config.server.tls.cert_file),
            ("server.tls.key_file", config.server.tls.key_file),
        ]
    for where, file in files:
        if file is not None and not Path(file).is_file():
            yield ConfigProblem(where, "file not found")
        elif file is not None and not access(file, R_OK):
            yield ConfigProblem(where, "permission denied")
