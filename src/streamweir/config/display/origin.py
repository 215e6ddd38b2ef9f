"""Where the value of a setting comes from: a line of the file, a variable, the command line, or the default.

    text of the file, variables, what the command line overrides -> for a setting, its origin and what is written there

The file may have a setting elsewhere than the types have it (`config.load` moves timeouts and keys). Pure. What is
written may be a secret: only a reference to one may be shown (`config.display.mask`).
"""

import tomllib
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Any, Literal

from msgspec import NODEFAULT, UNSET, Struct, UnsetType

from streamweir.config.display.setting import Setting
from streamweir.config.file.position import MOVED, Path, Position, positions
from streamweir.config.file.variable import variables_in

Kind = Literal["default", "file", "environment", "secret_file", "secret_command", "option", "gateway"]
LISTEN: Path = ("server", "listen")


class Origin(Struct, frozen=True, kw_only=True):
    kind: Kind
    about: str
    """In words: `streamweir.toml:12, environment variable PORT`."""
    line: int | None = None
    """Of the configuration file."""


_DEFAULT = Origin(kind="default", about="default")


class Origins:
    def __init__(
        self,
        text: str = "",
        file: str = "",
        *,
        environ: Mapping[str, str] | None = None,
        env_file: str = "",
        env_file_names: Collection[str] = (),
        options: Mapping[Path, str] | None = None,
    ) -> None:
        """`text` is valid TOML. `file` and `env_file` are names to show. `environ`: the variables of both.
        `options`: settings that the command line overrides, with their options."""
        self._text = text.replace("\r\n", "\n")
        self._file = file
        self._environ = environ if environ is not None else {}
        self._env_file = env_file
        self._env_file_names = env_file_names
        self._options = options if options is not None else {}

    def of(self, setting: Setting) -> Origin:
        option = self._options.get(setting.keys)
        if option is not None:
            return Origin(kind="option", about=option)
        found = _find(self._tree, setting.keys)
        if found is not None:
            return self._written(*found, setting.is_secret)
        if setting.default is not NODEFAULT and setting.value == setting.default:
            return _DEFAULT
        if setting.is_secret and _find(self._tree, setting.keys[:-1]) is not None:
            return Origin(kind="secret_file", about="")
        return Origin(kind="gateway", about="set by the gateway")

    def written(self, setting: Setting) -> Any | UnsetType:
        """What the file has there; UNSET: nothing, or it is not used."""
        found = _find(self._tree, setting.keys) if setting.keys not in self._options else None
        return found[1] if found is not None else UNSET

    def _written(self, path: Path, value: Any, is_secret: bool) -> Origin:
        line = self._positions[path].line
        place = f"{self._file}:{line}"
        if is_secret and isinstance(value, dict):
            return Origin(kind="secret_file" if "file" in value else "secret_command", about=place, line=line)
        names = list(dict.fromkeys(name for text in _texts(value) for name in variables_in(text)))
        about = ", ".join([place, *map(self._variable, names)])
        return Origin(kind="environment" if names else "file", about=about, line=line)

    def _variable(self, name: str) -> str:
        if not self._environ.get(name):
            return f"environment variable {name} is empty or not set"
        return f"{name} in {self._env_file}" if name in self._env_file_names else f"environment variable {name}"

    @cached_property
    def _tree(self) -> dict[str, Any]:
        return tomllib.loads(self._text)

    @cached_property
    def _positions(self) -> dict[Path, Position]:
        return positions(self._text)


def _find(node: Any, keys: Path, path: Path = ()) -> tuple[Path, Any] | None:
    """Where the file has it, and what."""
    if not keys:
        return path, node
    key, *rest = keys
    if isinstance(node, list) and isinstance(key, int):
        return _find(node[key], tuple(rest), (*path, key)) if key < len(node) else None
    if isinstance(node, dict):
        if key == 0:  # one table in place of a list of one
            return _find(node, tuple(rest), path)
        found = _find(node[key], tuple(rest), (*path, key)) if key in node else None
        return _find(node, tuple(rest), path) if found is None and key == MOVED and rest else found
    return (path, node) if isinstance(node, str) and keys == ("key",) else None  # an entry of `api_keys`


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from _texts(each)
        case dict():
            for each in value.values():
                yield from _texts(each)
