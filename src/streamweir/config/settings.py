"""A configuration for display: every setting with its path, as text, with secrets masked.

The types define which settings are secrets. A URL is shown without user name and password, and known secrets are masked
in all other values. A setting counts as set if it differs from its default. Pure.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from json import dumps
from typing import Any, cast

from msgspec import NODEFAULT, Struct, inspect

from streamweir.config.error import entry, member
from streamweir.config.model import Config
from streamweir.config.schema import default_of, field_of
from streamweir.config.secret import MASK, masked, masked_url, secrets_of
from streamweir.core.errors import scrub
from streamweir.policy.redact import Redactor

_REDACTOR = Redactor()
_ADDRESSES = frozenset({"proxy", "url"})


class Setting(Struct, frozen=True, kw_only=True):
    path: str
    value: str
    """Empty if there is none."""
    is_secret: bool
    is_set: bool
    """It is not the default."""


class Section(Struct, frozen=True, kw_only=True):
    name: str
    """`server`, `providers.openai`: the table of the file."""
    entries: list[Setting]


def sections_of(config: Config) -> list[Section]:
    known = secrets_of(config)
    return [
        Section(name=name, entries=[_without(known, setting) for setting in settings])
        for name, settings in _sections(config)
    ]


def _sections(config: Config) -> Iterator[tuple[str, list[Setting]]]:
    for field in _fields(Config):
        value = getattr(config, field.name)
        if isinstance(value, tuple):
            for index, each in enumerate(value):
                where = _entry(field.name, index, each)
                yield where, list(_table(each, where))
        else:
            yield field.name, list(_settings(value, field, ""))


def _table(struct: Struct, where: str) -> Iterator[Setting]:
    for field in _fields(type(struct)):
        yield from _settings(getattr(struct, field.name), field, where)


def _settings(value: Any, field: inspect.Field, where: str) -> Iterator[Setting]:
    path, default = member(where, field.encode_name), default_of(field)
    is_set = default is NODEFAULT or value != default
    if isinstance(value, Struct):
        yield from _table(value, path)
    elif isinstance(value, tuple) and value and isinstance(value[0], Struct):
        for index, each in enumerate(value):
            yield from _table(each, _entry(path, index, each))
    elif isinstance(value, Mapping):
        is_json = isinstance(field.type, inspect.DictType) and isinstance(field.type.value_type, inspect.AnyType)
        for name in value:  # headers: each may be a secret
            shown = _shown_member(name, value[name]) if is_json else MASK
            yield Setting(path=member(path, name), value=shown, is_secret=shown == MASK, is_set=True)
    elif not field_of(field.type).is_secret:
        yield Setting(path=path, value=_text(value), is_secret=False, is_set=is_set)
    else:
        mask = masked_url if field.name in _ADDRESSES else masked
        yield Setting(path=path, value=mask(value or ""), is_secret=True, is_set=is_set)


def _shown_member(name: str, value: Any) -> str:
    """A member of a request body. Secrets do not belong there: what looks like one is masked."""
    document = dumps({name: value}, ensure_ascii=False)
    is_suspect = scrub(document) != document or _REDACTOR.document(document) != document
    return MASK if is_suspect else dumps(value, ensure_ascii=False)


def _fields(model: type[Struct]) -> tuple[inspect.Field, ...]:
    return cast(inspect.StructType, inspect.type_info(model)).fields


def _entry(where: str, index: int, struct: Struct) -> str:
    """Identified by its name, if it has one."""
    name = getattr(struct, "name", None) or getattr(struct, "id", None)
    return member(where, name) if name is not None else entry(where, index)


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return format(Decimal(repr(value)).normalize(), "f")
        case datetime():
            return value.isoformat()
        case tuple():
            return ", ".join(map(str, value))
    return str(value)


def _without(known: list[str], setting: Setting) -> Setting:
    value = setting.value
    for secret in known:
        value = value.replace(secret, MASK)
    if value == setting.value:
        return setting
    return Setting(path=setting.path, value=value, is_secret=True, is_set=setting.is_set)
