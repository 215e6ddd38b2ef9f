"""Validates a parsed file against the types: known keys, types and ranges of values.

`read` returns the value and reports each problem with its path, so that all problems are found at once. In place of an
invalid value it uses the default or a placeholder, and lists the path as spoiled. `config.check`, which checks values
together, can then run too: what it says about a spoiled path means nothing. A number or a boolean may come from the
environment, if the text is exactly one variable; an empty variable leaves an optional setting unset. Messages show a
value as it is written in the file, and never show a secret. Where a secret is expected, the value may be a table that
says where it is (`config.file.secret_reference`).
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from difflib import get_close_matches
from functools import cache
from json import dumps
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, cast

from msgspec import NODEFAULT, inspect, structs

from streamweir.config.error import ConfigProblem, entry, member
from streamweir.config.file.secret_reference import Reference, SecretCommand, SecretFile, Unresolved
from streamweir.config.file.variable import BadVariable, Expanded, expand
from streamweir.core.text import cut

PLACEHOLDER = "(not valid)"
"""Of a text that is required and has no valid value."""
_MAX_SHOWN_LENGTH = 60


class _Invalid(Exception):
    """A problem was reported; there is no value."""


class _TypeMismatch(Exception):
    """The text describes the expected value."""


class Field(NamedTuple):
    """One key of a table: its type without `Optional` and metadata."""

    type: inspect.Type
    is_optional: bool
    is_secret: bool
    or_one: bool = False
    """A list of tables that may also be a single table."""
    is_url: bool = False


def field_of(info: inspect.Type) -> Field:
    is_optional = is_secret = or_one = is_url = False
    if isinstance(info, inspect.UnionType):
        info, *_ = [kind for kind in info.types if not isinstance(kind, inspect.NoneType)]
        is_optional = True
    if isinstance(info, inspect.Metadata):
        extra = info.extra or {}
        is_secret, or_one, is_url = (bool(extra.get(name)) for name in ("secret", "or_one", "url"))
        info = info.type
    return Field(info, is_optional, is_secret, or_one, is_url)


def _has_secrets(info: inspect.Type) -> bool:
    """Of a table whose values are secrets: headers."""
    return isinstance(info, inspect.DictType) and field_of(info.value_type).is_secret


def describe(info: inspect.Type) -> str:
    """Describes a type, for messages and the reference page."""
    field = field_of(info)
    match field.type:
        case inspect.VarTupleType() if field.or_one:
            return "a table, or a list of tables"
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
        case inspect.DictType(value_type=inspect.AnyType()):
            return "a table"
        case inspect.DictType(value_type=value):
            return f"a table of {describe(value)}"
        case inspect.StructType():
            return "a table"
        case inspect.StrType(max_length=max_length) if max_length is not None:
            return f"text of 1 to {max_length} characters"
    return "text"


@cache
def _struct_info(model: type) -> inspect.StructType:
    return cast(inspect.StructType, inspect.type_info(model))


class Reader:
    def __init__(
        self,
        environ: Mapping[str, str],
        folder: Path | None = None,
        secrets: Mapping[Reference, str | Unresolved] | None = None,
    ) -> None:
        """`folder`: that of the file, for references to secrets. `secrets`: their values; None: they are only listed,
        and each is a placeholder."""
        self.problems: list[ConfigProblem] = []
        self.written: dict[str, str] = {}
        """Values from the environment, with their text in the file."""
        self.references: dict[Reference, str] = {}
        """Secrets that are elsewhere, with the path of the first setting that has it."""
        self.spoiled: set[str] = set()
        """Paths below which there are placeholders and defaults in place of invalid values."""
        self._environ = environ
        self._folder = folder if folder is not None else Path()
        self._secrets = secrets

    def read(self, value: dict[str, Any], model: type) -> object:
        """`value` as the struct `model`, which means something only where there are no problems."""
        return self._table(value, _struct_info(model), "")

    def is_spoiled(self, problem: ConfigProblem) -> bool:
        """A check found it, and it may be a consequence of a problem that was reported."""
        if PLACEHOLDER in problem.where or problem.reason.startswith(dumps(PLACEHOLDER)):
            return True
        return any(_contains(each, problem.where) or _contains(problem.where, each) for each in self.spoiled)

    def _report(self, where: str, reason: str) -> _Invalid:
        self.problems.append(ConfigProblem(where, reason))
        self.spoiled.add(where)
        return _Invalid()

    def _value(self, value: object, info: inspect.Type, where: str) -> Any:
        field = field_of(info)
        if isinstance(value, str):
            try:
                value = expand(value, self._environ)
            except BadVariable as reason:
                raise self._report(where, str(reason)) from None
            if isinstance(value, Expanded):
                self.written[str(value)] = value.written
                if field.is_optional and value == "" and value.is_whole:
                    return None
        match field.type:
            case inspect.StructType() as struct:
                return self._table(value, struct, where)
            case inspect.VarTupleType(item_type=item) if field.or_one and isinstance(value, dict):
                return (self._value(value, item, where),)
            case inspect.VarTupleType(item_type=item) if isinstance(value, list):
                return tuple(
                    self._all([(each, item, _entry_path(where, at, each)) for at, each in enumerate(value)], where)
                )
            case inspect.DictType(value_type=item) if isinstance(value, dict):
                return self._all_of(value, item, where)
            case inspect.AnyType():
                return self._json(value, info, where)
            case inspect.StrType() if field.is_secret and isinstance(value, dict):
                return self._secret(value, where)
        try:
            return _plain(value, field.type)
        except _TypeMismatch as expected:
            is_secret = field.is_secret or _has_secrets(field.type)
            raise self._report(where, f"expected {expected}, got {_shown(value, is_secret)}") from None

    def _secret(self, value: dict[str, Any], where: str) -> str:
        """What a file or a command has for it."""
        if ("command" in value) == ("file" in value):
            raise self._report(where, "expected text, or a table with either command or file")
        reference: Reference
        known = len(self.problems)
        if "file" in value:
            file: SecretFile = self._table(value, _struct_info(SecretFile), where)
            reference = structs.replace(file, file=str(self._folder / file.file))
        else:
            command: SecretCommand = self._table(value, _struct_info(SecretCommand), where)
            if len(self.problems) == known and not any(command.command[:1]):
                raise self._report(member(where, "command"), "expected the program and its arguments")
            reference = command
        if len(self.problems) > known:
            raise _Invalid
        self.references.setdefault(reference, where)
        if self._secrets is None:
            self.spoiled.add(where)
            return PLACEHOLDER
        found = self._secrets.get(reference, "")
        if isinstance(found, Unresolved):
            raise self._report(where, str(found))
        return found

    def _json(self, value: object, info: inspect.Type, where: str) -> Any:
        """Any value that JSON has."""
        match value:
            case list():
                return self._all([(each, info, entry(where, at)) for at, each in enumerate(value)], where)
            case dict():
                return self._all_of(value, info, where)
            case str():
                return str(value)
            case bool() | int():
                return value
            case float() if isfinite(value):
                return value
        reason = f"expected text, a number, true or false, a list or a table, got {_shown(value, False)}"
        raise self._report(where, reason)

    def _all(self, parts: Sequence[tuple[object, inspect.Type, str]], where: str) -> list[Any]:
        """Reads all parts, also after an invalid one, which is left out."""
        found = []
        for part in parts:
            try:
                found.append(self._value(*part))
            except _Invalid:
                self.spoiled.add(where)  # the others have other numbers now
                continue
            if any(_contains(part[2], each) for each in self.spoiled):
                self.spoiled |= {each for each in _other_paths(where, len(found), found[-1]) if each != part[2]}
        return found

    def _all_of(self, table: dict[str, Any], item: inspect.Type, where: str) -> dict[str, Any]:
        found = {}
        for name, value in table.items():
            try:
                found[name] = self._value(value, item, member(where, name))
            except _Invalid:
                continue
        return found

    def _table(self, value: object, info: inspect.StructType, where: str) -> Any:
        if not isinstance(value, dict):
            raise self._report(where, f"expected a table, got {_shown(value, False)}")
        fields = {field.encode_name: field for field in info.fields}
        for name in [name for name in value if name not in fields]:
            self._report(member(where, name), "unknown key" + self._hint(name, fields, value, where))
        members = {}
        for name, field in fields.items():
            try:
                if name in value:
                    members[field.name] = self._value(value[name], field.type, member(where, name))
                    continue
                if not field.required:
                    continue
                self._report(member(where, name), f"missing: expected {describe(field.type)}")
            except _Invalid:
                if not field.required:
                    continue
            self.spoiled.add(where)
            members[field.name] = _placeholder(field.type)
        return info.cls(**members)

    def _hint(self, name: str, fields: Mapping[str, inspect.Field], table: Mapping[str, object], where: str) -> str:
        for outer, field in fields.items():
            inner = field_of(field.type).type
            if isinstance(inner, inspect.StructType) and any(name == each.name for each in inner.fields):
                return f", did you mean {outer}.{name}?"
        matches = get_close_matches(name, fields, 1)
        # It may be missing only because of the mistake.
        self.spoiled |= {member(where, each) for each in matches if each not in table}
        return f", did you mean {matches[0]}?" if matches else ""


def _placeholder(info: inspect.Type) -> Any:
    """A value of the type."""
    match field_of(info).type:
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.BoolType():
            return False
        case inspect.IntType(ge=minimum) | inspect.FloatType(ge=minimum):
            return minimum if minimum is not None else 1
        case inspect.VarTupleType():
            return ()
        case inspect.DictType():
            return {}
        case inspect.StructType() as struct:
            required = (field for field in struct.fields if field.required)
            return struct.cls(**{field.name: _placeholder(field.type) for field in required})
    return PLACEHOLDER


def _plain(value: object, info: inspect.Type) -> object:
    from_environ = isinstance(value, Expanded) and value.is_whole
    match info:
        case inspect.StrType(max_length=max_length):
            if not isinstance(value, str):
                raise _TypeMismatch("text")
            if max_length is not None and not 1 <= len(value) <= max_length:
                raise _TypeMismatch(describe(info))
            return str(value)
        case inspect.BoolType():
            word = {"true": True, "false": False}.get(str(value).lower()) if from_environ else value
            if not isinstance(word, bool):
                raise _TypeMismatch("true or false")
            return word
        case inspect.IntType() | inspect.FloatType():
            return _number(_from_text(str(value)) if from_environ else value, info)
        case inspect.LiteralType(values=values):
            if value not in values:
                raise _TypeMismatch(describe(info))
            return str(value)
        case inspect.DateTimeType():
            return _datetime(value)
    raise _TypeMismatch(describe(info))  # a list or a table, and the value is neither


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
        raise _TypeMismatch("a whole number" if kinds is int else "a number")
    is_within = (
        (info.gt is None or value > info.gt)
        and (info.ge is None or value >= info.ge)
        and (info.le is None or value <= info.le)
    )
    if not is_within:  # also for NaN
        raise _TypeMismatch(describe(info))
    return value if isinstance(info, inspect.IntType) else float(value)


def _datetime(value: object) -> datetime:
    """A date is the beginning of that day. Without a time zone it is UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise _TypeMismatch("a date and time such as 2027-01-31T12:00:00Z") from None
    if not isinstance(value, date):
        raise _TypeMismatch("a date and time such as 2027-01-31T12:00:00Z")
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day, tzinfo=UTC)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _contains(outer: str, inner: str) -> bool:
    """The paths are equal, or the second one leads to a part of the first."""
    return inner.startswith(outer) and inner[len(outer) : len(outer) + 1] in ("", ".", "[")


def _other_paths(where: str, number: int, value: object) -> list[str]:
    """What checks may call an entry: by its number, or by a name with the values of its variables."""
    names = [getattr(value, "name", None), getattr(value, "id", None), str(number)]
    return [member(where, name) for name in names if isinstance(name, str)]


def _entry_path(where: str, index: int, value: object) -> str:
    """Identified by its name, if it has one that can be shown."""
    if isinstance(value, dict):
        for key in ("name", "id"):
            name = value.get(key)
            if isinstance(name, str) and 1 <= len(name) <= 64 and "$" not in name:
                return member(where, name)
    return entry(where, index)


def _shown(value: object, is_secret: bool) -> str:
    match value:
        case Expanded():
            return f"what the environment has for {dumps(value.written)}"
        case bool():
            return "true or false" if is_secret else str(value).lower()
        case int() | float():
            return "a number" if is_secret else str(value)[:_MAX_SHOWN_LENGTH]
        case str():
            return "text" if is_secret else dumps(cut(value, _MAX_SHOWN_LENGTH))
        case list():
            return "a list"
        case dict():
            return "a table"
    return "a date or time"


def _range(number: inspect.IntType | inspect.FloatType) -> str:
    minimum = number.ge if number.ge is not None else number.gt
    if minimum is None or number.le is None:
        return ""
    return f" from {minimum} to {number.le}" if number.ge is not None else f" above {minimum}, at most {number.le}"


def _either(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def default_of(field: inspect.Field) -> object:
    """`NODEFAULT` if the key is required."""
    return field.default if field.default_factory is NODEFAULT else field.default_factory()
