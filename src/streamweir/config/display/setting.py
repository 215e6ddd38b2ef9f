"""A configuration as a sequence of its tables and settings, in an order in which TOML can have them.

The declarations (`config.model`) say what there is: a new setting needs nothing here. A table's own settings come
before the tables in it. What has no value is there too. Pure.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, cast

from msgspec import Struct, inspect

from streamweir.config.error import entry, member
from streamweir.config.file.schema import default_of, field_of
from streamweir.config.model import Config

Keys = tuple[str | int, ...]
"""The way to a setting through tables and lists, by names of the file: `("providers", 0, "api_key")`."""


class Setting(Struct, frozen=True, kw_only=True):
    keys: Keys
    path: str
    """As in messages: `keys.ci.rpm`."""
    value: Any
    """None: it is not set."""
    default: Any
    """`NODEFAULT`: it is required."""
    is_secret: bool = False
    is_url: bool = False
    """A secret of which the host is shown."""
    is_free: bool = False
    """The operator's own key in a table: nothing is known about its value."""


class Table(Struct, frozen=True, kw_only=True):
    keys: Keys
    path: str
    is_entry: bool
    """Of a list of tables."""
    is_there: bool
    """False: the table, or each entry of the list, is absent."""
    is_optional: bool = False
    """It means something even if it is empty."""


Hide = Callable[[str], str]


def walk(config: Config, hide: Hide = str) -> Iterator[Table | Setting]:
    """`hide`: takes what must not be shown out of names that are not declared."""
    return _members(config, (), "", hide)


def name_of(struct: Struct) -> str:
    """By which an entry of a list is identified. Empty: by its place."""
    return getattr(struct, "name", None) or getattr(struct, "id", None) or ""


def _members(struct: Struct, keys: Keys, path: str, hide: Hide) -> Iterator[Table | Setting]:
    tables = []
    for declared in _fields(type(struct)):
        if _is_table(declared):
            tables.append(declared)
            continue
        field, name = field_of(declared.type), declared.encode_name
        yield Setting(
            keys=(*keys, name),
            path=member(path, name),
            value=getattr(struct, declared.name),
            default=default_of(declared),
            is_secret=field.is_secret,
            is_url=field.is_url,
        )
    for declared in tables:
        name = declared.encode_name
        yield from _tables(getattr(struct, declared.name), declared, (*keys, name), member(path, name), hide)


def _tables(value: Any, declared: inspect.Field, keys: Keys, path: str, hide: Hide) -> Iterator[Table | Setting]:
    if isinstance(value, tuple):
        for index, each in enumerate(value):
            name = name_of(each)
            where = member(path, hide(name)) if name else entry(path, index)
            yield Table(keys=(*keys, index), path=where, is_entry=True, is_there=True)
            yield from _members(each, (*keys, index), where, hide)
        if not value:
            yield Table(keys=keys, path=path, is_entry=True, is_there=False)
        return
    yield Table(
        keys=keys,
        path=path,
        is_entry=False,
        is_there=value is not None and value != {},
        is_optional=default_of(declared) is None,
    )
    if isinstance(value, Struct):
        yield from _members(value, keys, path, hide)
    elif isinstance(value, Mapping):
        items = cast(inspect.DictType, field_of(declared.type).type)
        is_secret = field_of(items.value_type).is_secret
        for name, each in value.items():
            yield Setting(
                keys=(*keys, name),
                path=member(path, hide(name)),
                value=each,
                default=None,
                is_secret=is_secret,
                is_free=True,
            )


def _is_table(declared: inspect.Field) -> bool:
    match field_of(declared.type).type:
        case inspect.StructType() | inspect.DictType():
            return True
        case inspect.VarTupleType(item_type=item):
            return isinstance(field_of(item).type, inspect.StructType)
    return False


@cache
def _fields(model: type[Struct]) -> tuple[inspect.Field, ...]:
    return cast(inspect.StructType, inspect.type_info(model)).fields
