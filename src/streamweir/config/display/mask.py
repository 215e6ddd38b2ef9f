"""The values of settings as they may be shown: of a secret at most its end, or the reference to it.

The types say which settings are secrets. Known secrets are hidden in all other values too, and so are passwords in
URLs. A reference (a variable, a file, a command) is shown as it is written; an argument of a command that looks like a
secret is hidden. Pure.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from json import dumps
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from streamweir.config.display.setting import Setting
from streamweir.config.file.variable import is_variable, quoted
from streamweir.config.model import Config
from streamweir.config.secret import MASK, masked, masked_url, secrets_of
from streamweir.config.toml import value_text
from streamweir.core.errors import scrub
from streamweir.policy.redact import Redactor

_REDACTOR = Redactor()
_USER = re.compile(r"(?<=://)(?:[^\s/@:]*:[^\s@]*|[^\s/@]*)@")
_SECRET_FOLLOWS = re.compile(r"--?[\w-]*(?:pass|pwd|secret|token|key|auth)[\w-]*", re.IGNORECASE)
_MAX_BEGINNING = 8
_USER_FOLLOWS = ("-u", "--user", "-H", "--header")
"""Of clients for HTTP."""


class Shown(Struct, frozen=True):
    value: Any
    """As JSON has it. None: the setting has no value."""
    toml: str


class Masks:
    """For what was configured, at one time or several."""

    def __init__(self, *configs: Config) -> None:
        known = sorted({secret for config in configs for secret in secrets_of(config)}, key=len, reverse=True)
        self._length = min((*map(len, known), _MAX_BEGINNING))
        self._beginnings: dict[str, list[str]] = {}
        """Secrets by their first characters, the longest first: there may be thousands, and as many texts."""
        for secret in known:
            self._beginnings.setdefault(secret[: self._length], []).append(secret)

    def text(self, text: str) -> str:
        return _USER.sub(f"{MASK}@", self._without_known(text)) if "://" in text else self._without_known(text)

    def _without_known(self, text: str) -> str:
        length, beginnings = self._length, self._beginnings
        at = 0
        while at <= len(text) - length:
            for secret in beginnings.get(text[at : at + length], ()):
                if text.startswith(secret, at):
                    text = f"{text[:at]}{MASK}{text[at + len(secret) :]}"
                    at += len(MASK) - 1
                    break
            at += 1
        return text

    def shown(self, setting: Setting, written: Any | UnsetType = UNSET) -> Shown:
        """`written`: what the file has there."""
        if setting.value is None:
            return Shown(None, "")
        if not setting.is_secret:
            value = self._free(setting) if setting.is_free else _each_text(setting.value, self.text)
            return Shown(_as_json(value), value_text(_quoted(value)))
        if setting.value and (reference := self._reference(written)) is not None:
            return Shown(reference, value_text(reference))
        mask = masked_url if setting.is_url else masked if not setting.is_free else _all_masked
        value = self.text(mask(setting.value))
        return Shown(value, value_text(_quoted(value)))

    def _reference(self, written: Any) -> Any | None:
        match written:
            case str() if is_variable(written):
                return written
            case {"file": _}:
                return _each_text(written, self.text)
            case {"command": list(command)}:
                return _each_text({**written, "command": list(_arguments(command))}, self.text)
        return None

    def _free(self, setting: Setting) -> Any:
        """Secrets do not belong there: what looks like one is masked."""
        document = dumps(_each_text({str(setting.keys[-1]): setting.value}, _printable), ensure_ascii=False)
        is_suspect = scrub(document, len(document)) != document or _REDACTOR.document(document) != document
        return MASK if is_suspect else _each_text(setting.value, self.text)


def _arguments(command: Sequence[Any]) -> Iterator[Any]:
    before = ""
    for each in command:
        if isinstance(each, str):
            follows = _SECRET_FOLLOWS.fullmatch(before) is not None or before in _USER_FOLLOWS
            is_hidden = _REDACTOR.text(each) != each or (follows and not each.startswith("-"))
            yield MASK if is_hidden and not is_variable(each) else each
            before = each
        else:
            yield each


def _all_masked(secret: str) -> str:
    return MASK if secret else ""


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    """With each text in it changed; of tables, the names too."""
    match value:
        case str():
            return change(value)
        case tuple() | list():
            return [_each_text(each, change) for each in value]
        case Mapping():
            return {change(name): _each_text(each, change) for name, each in value.items()}
    return value


def _quoted(value: Any) -> Any:
    """Names are not expanded."""
    match value:
        case str():
            return quoted(value)
        case list():
            return [_quoted(each) for each in value]
        case dict():
            return {name: _quoted(each) for name, each in value.items()}
    return value


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)


def _as_json(value: Any) -> Any:
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value
