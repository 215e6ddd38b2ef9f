"""A parsed file held against the types: every key known, every value of its type and in its range.

`read` gives the value and notes each complaint with its path, so that one reading finds all that is
wrong. The types are the only rule here; what several values mean together is `config.check`. A
number or a switch may come out of the environment, if the text is one variable and nothing else;
an empty one leaves an optional setting unset. What a message shows of a value is what stands in
the file, and of a secret nothing at all.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from difflib import get_close_matches
from json import dumps
from typing import Any, NamedTuple, cast

from msgspec import NODEFAULT, inspect

from streamweir.config.error import Complaint, entry, member
from streamweir.config.variable import BadVariable, Expanded, expand

_LONGEST_SHOWN = 60


class _Unread(Exception):
    """A complaint was noted; there is no value."""


class _Wrong(Exception):
    """What would have been right, in words."""


class Field(NamedTuple):
    """One key of a table: its type without the wrappings."""

    type: inspect.Type
    is_optional: bool
    is_secret: bool


def field_of(info: inspect.Type) -> Field:
    is_optional = is_secret = False
    if isinstance(info, inspect.UnionType):
        info, *_ = [kind for kind in info.types if not isinstance(kind, inspect.NoneType)]
        is_optional = True
    if isinstance(info, inspect.Metadata):
        is_secret = bool(info.extra and info.extra.get("secret"))
        info = info.type
    return Field(info, is_optional, is_secret)


def describe(info: inspect.Type) -> str:
    """A type in words, as messages and the reference page say it."""
    match field_of(info).type:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType() as number:
            return "a whole number" + _range(number)
        case inspect.FloatType() as number:
            return "a number" + _range(number)
        case inspect.LiteralType(values=values):
            return _either([dumps(value) for value in values])
        case inspect.DateTimeType():
            return "a date and time"
        case inspect.VarTupleType(item_type=item):
            inner = field_of(item).type
            return "a list of tables" if isinstance(inner, inspect.StructType) else f"a list of {describe(item)}"
        case inspect.DictType(value_type=value):
            return f"a table of {describe(value)}"
        case inspect.StructType():
            return "a table"
        case inspect.StrType(max_length=most) if most is not None:
            return f"text of 1 to {most} characters"
    return "text"


class Reader:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self.complaints: list[Complaint] = []
        self.written: dict[str, str] = {}
        """Values that came out of the environment, and how they are written in the file."""
        self._environ = environ

    def read(self, value: object, model: type) -> object:
        """`value` as the struct `model`; nothing where there are complaints."""
        try:
            return self._table(value, cast(inspect.StructType, inspect.type_info(model)), "")
        except _Unread:
            return None

    def _complain(self, where: str, reason: str) -> _Unread:
        self.complaints.append(Complaint(where, reason))
        return _Unread()

    def _value(self, value: object, info: inspect.Type, where: str) -> Any:
        field = field_of(info)
        if isinstance(value, str):
            try:
                value = expand(value, self._environ)
            except BadVariable as reason:
                raise self._complain(where, str(reason)) from None
            if isinstance(value, Expanded):
                self.written[str(value)] = value.written
                if field.is_optional and value == "" and value.is_whole:
                    return None
        match field.type:
            case inspect.StructType() as struct:
                return self._table(value, struct, where)
            case inspect.VarTupleType(item_type=item) if isinstance(value, list):
                return tuple(self._all([(each, item, _entry_path(where, at, each)) for at, each in enumerate(value)]))
            case inspect.DictType(value_type=item) if isinstance(value, dict):
                found = self._all([(each, item, member(where, name)) for name, each in value.items()])
                return dict(zip(value, found, strict=True))
        try:
            return _plain(value, field.type)
        except _Wrong as expected:
            raise self._complain(where, f"expected {expected}, got {_shown(value, field.is_secret)}") from None

    def _all(self, parts: Sequence[tuple[object, inspect.Type, str]]) -> list[Any]:
        """Every one is looked at, also after a bad one."""
        found = []
        for part in parts:
            try:
                found.append(self._value(*part))
            except _Unread:
                continue
        if len(found) < len(parts):
            raise _Unread
        return found

    def _table(self, value: object, info: inspect.StructType, where: str) -> Any:
        if not isinstance(value, dict):
            raise self._complain(where, f"expected a table, got {_shown(value, False)}")
        fields = {field.name: field for field in info.fields}
        is_whole = True
        for name in [name for name in value if name not in fields]:
            self._complain(member(where, name), "unknown key" + _hint(name, fields))
            is_whole = False
        members = {}
        for name, field in fields.items():
            try:
                if name in value:
                    members[name] = self._value(value[name], field.type, member(where, name))
                elif field.required:
                    self._complain(member(where, name), f"missing: expected {describe(field.type)}")
                    is_whole = False
            except _Unread:
                is_whole = False
        if not is_whole:
            raise _Unread
        return info.cls(**members)


def _plain(value: object, info: inspect.Type) -> object:
    from_environ = isinstance(value, Expanded) and value.is_whole
    match info:
        case inspect.StrType(max_length=most):
            if not isinstance(value, str):
                raise _Wrong("text")
            if most is not None and not 1 <= len(value) <= most:
                raise _Wrong(describe(info))
            return str(value)
        case inspect.BoolType():
            word = {"true": True, "false": False}.get(str(value).lower()) if from_environ else value
            if not isinstance(word, bool):
                raise _Wrong("true or false")
            return word
        case inspect.IntType() | inspect.FloatType():
            return _number(_from_text(str(value)) if from_environ else value, info)
        case inspect.LiteralType(values=values):
            if value not in values:
                raise _Wrong(describe(info))
            return str(value)
        case inspect.DateTimeType():
            return _moment(value)
    raise _Wrong(describe(info))  # a list or a table, and the value is neither


def _from_text(text: str) -> object:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def _number(value: object, info: inspect.IntType | inspect.FloatType) -> int | float:
    kinds = int if isinstance(info, inspect.IntType) else (int, float)
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise _Wrong("a whole number" if kinds is int else "a number")
    is_within = (
        (info.gt is None or value > info.gt)
        and (info.ge is None or value >= info.ge)
        and (info.le is None or value <= info.le)
    )
    if not is_within:  # as is what is no number
        raise _Wrong(describe(info))
    return value if isinstance(info, inspect.IntType) else float(value)


def _moment(value: object) -> datetime:
    """A date alone is the beginning of that day. What names no zone is UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise _Wrong("a date and time such as 2027-01-31T12:00:00Z") from None
    if not isinstance(value, date):
        raise _Wrong("a date and time such as 2027-01-31T12:00:00Z")
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day, tzinfo=UTC)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _entry_path(where: str, index: int, value: object) -> str:
    """By its name, where it has one that can be shown."""
    if isinstance(value, dict):
        for key in ("name", "id"):
            name = value.get(key)
            if isinstance(name, str) and 1 <= len(name) <= 64 and "$" not in name:
                return member(where, name)
    return entry(where, index)


def _hint(name: str, fields: Mapping[str, inspect.Field]) -> str:
    for outer, field in fields.items():
        inner = field_of(field.type).type
        if isinstance(inner, inspect.StructType) and any(name == each.name for each in inner.fields):
            return f", did you mean {outer}.{name}?"
    near = get_close_matches(name, fields, 1)
    return f", did you mean {near[0]}?" if near else ""


def _shown(value: object, is_secret: bool) -> str:
    match value:
        case Expanded():
            return f"what the environment has for {dumps(value.written)}"
        case bool():
            return "true or false" if is_secret else str(value).lower()
        case int() | float():
            return "a number" if is_secret else str(value)[:_LONGEST_SHOWN]
        case str():
            text = value if len(value) <= _LONGEST_SHOWN else value[:_LONGEST_SHOWN] + "..."
            return "text" if is_secret else dumps(text)
        case list():
            return "a list"
        case dict():
            return "a table"
    return "a date or time"


def _range(number: inspect.IntType | inspect.FloatType) -> str:
    least = number.ge if number.ge is not None else number.gt
    if least is None or number.le is None:
        return ""
    return f" from {least} to {number.le}" if number.ge is not None else f" above {least}, at most {number.le}"


def _either(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def default_of(field: inspect.Field) -> object:
    """`NODEFAULT` where the key is required."""
    return field.default if field.default_factory is NODEFAULT else field.default_factory()
