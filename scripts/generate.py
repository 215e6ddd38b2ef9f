"""What is written down twice, made from its one declaration: types for the console, tables for the pages, dashboards,
the reference of the commands, completion for shells (`scripts.command_line`), and the chart's copy of the rules for
Prometheus (a chart reads no file outside of its folder).

    python -m scripts.generate

The console's types are those of the API's operations (`server.control.api.table`), under the names that the OpenAPI
document gives them. A table of a page stands between two comments, `<!-- NAME: made by scripts/generate.py -->` and
`<!-- /NAME -->`. tests/test_generated.py holds the files to this.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import get_args, get_origin

from msgspec import NODEFAULT, Struct, inspect, structs
from msgspec.inspect import Metadata, StructType, Type, UnionType
from scripts import api_page
from scripts.command_line import commands, completion
from scripts.dashboards.files import files as dashboards

from streamweir.policy.limits.key_limits import KINDS
from streamweir.policy.permission import Permission, Role, may
from streamweir.server.control.api import fields
from streamweir.server.control.api.operation import Nothing, Operation, Page
from streamweir.server.control.api.requests import overview
from streamweir.server.control.api.table import OPERATIONS
from streamweir.server.control.api.view import ABOUT_MARGIN, MARGIN
from streamweir.server.nodes import report
from streamweir.store.db.request_log import COLUMNS, DeclaredColumn

ROOT = Path(__file__).parents[1]
TYPES = "src/streamweir/console/web/src/lib/types.ts"
LIMITS = "src/streamweir/console/web/src/lib/limits.ts"
API = "docs/api.md"
CLI = "docs/cli.md"
RULES = "deploy/prometheus/alerts.yaml"
RULES_OF_THE_CHART = "deploy/helm/streamweir/files/alerts.yaml"
_NAMED = {
    "Period": overview.Period,
    "Grouping": overview.By,
    "TargetState": report.Word,
    "Scope": fields.Scope,
    "BudgetPeriod": fields.Period,
}
"""Choices that the console names."""
_CHOICES = {frozenset(get_args(kind)): name for name, kind in _NAMED.items()}
_PLAIN: dict[type[Type], str] = {
    inspect.StrType: "string",
    inspect.IntType: "number",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
    inspect.NoneType: "null",
    inspect.AnyType: "unknown",
    inspect.RawType: "unknown",
    inspect.DecimalType: "string | number",
}


class T(Struct):
    """The source of a generated part of a page."""


def types() -> str:
    """The console's types."""
    found: dict[str, str] = {}
    for operation in OPERATIONS:
        if get_origin(operation.answer) is Page:
            _add(found, inspect.type_info(get_args(operation.answer)[0]), is_sent=False)
        elif operation.answer is not str:
            _add(found, inspect.type_info(operation.answer), is_sent=False)
        if operation.body is not Nothing:
            _add(found, inspect.type_info(operation.body), is_sent=True)
    page = _interface("Page<T>", inspect.type_info(Page[T]), is_sent=False)
    choices = (f"export type {name} = {_choice(get_args(kind))};" for name, kind in _NAMED.items())
    head = (
        "// The types of the API, made by scripts/generate.py: change the Python types instead.\n"
        "// Amounts are exact dollars in text, moments Unix milliseconds."
    )
    return "\n\n".join([head, "\n".join(choices), page, *found.values()]) + "\n"


def _add(found: dict[str, str], kind: Type, *, is_sent: bool) -> None:
    """An interface for each struct that `kind` is made of."""
    if isinstance(kind, StructType):
        name = kind.cls.__name__
        if name in found:
            return
        found[name] = ""  # it may be made of itself
        found[name] = _interface(name, kind, is_sent=is_sent)
        for field in kind.fields:
            _add(found, field.type, is_sent=is_sent)
        return
    if isinstance(kind, inspect.EnumType):
        found[kind.cls.__name__] = f"export type {kind.cls.__name__} = {_choice(kind.cls)};"
        return
    for part in _parts(kind):
        _add(found, part, is_sent=is_sent)


def _parts(kind: Type) -> Iterator[Type]:
    if isinstance(kind, Metadata):
        yield kind.type
    elif isinstance(kind, UnionType):
        yield from kind.types
    elif isinstance(kind, inspect.DictType):
        yield kind.value_type
    elif isinstance(kind, inspect.ListType | inspect.VarTupleType):
        yield kind.item_type


def _interface(name: str, kind: Type, *, is_sent: bool) -> str:
    assert isinstance(kind, StructType)  # noqa: S101
    cls: type[Struct] = get_origin(kind.cls) or kind.cls
    leaves_out, base = cls.__struct_config__.omit_defaults, cls.__bases__[0]
    is_derived = base.__name__.endswith("View")  # it is shown by itself too
    inherited = {field.name for field in structs.fields(base)} if is_derived else set()
    lines = [f"export interface {name}{f' extends {base.__name__}' if is_derived else ''} {{"]
    for field in kind.fields:
        if field.name in inherited:
            continue
        about = field.type.extra_json_schema if isinstance(field.type, Metadata) else None
        if about and "description" in about:
            lines.append(f"  /** {about['description']} */")
        may_lack = not field.required and (is_sent or leaves_out or _is_unset(field))
        shown = field.type
        if may_lack and not is_sent and field.default is None:
            shown = _without_null(shown)
        lines.append(f"  {field.encode_name}{'?' if may_lack else ''}: {_text(shown)};")
    return "\n".join([*lines, "}"])


def _is_unset(field: inspect.Field) -> bool:
    """It need not be given, and has no default that would be given for it."""
    return field.default is NODEFAULT and field.default_factory is NODEFAULT


def _without_null(kind: Type) -> Type:
    """Left out is how it says that."""
    if not isinstance(kind, UnionType):
        return kind
    return structs.replace(kind, types=tuple(each for each in kind.types if not isinstance(each, inspect.NoneType)))


def _text(kind: Type) -> str:
    if type(kind) in _PLAIN:
        return _PLAIN[type(kind)]
    if isinstance(kind, Metadata):
        return _text(kind.type)
    if isinstance(kind, StructType):
        return kind.cls.__name__
    if isinstance(kind, inspect.EnumType):
        return kind.cls.__name__
    if isinstance(kind, inspect.LiteralType):
        return _CHOICES.get(frozenset(kind.values)) or _choice(kind.values)
    if isinstance(kind, UnionType):
        texts = [_text(each) for each in kind.types]
        return " | ".join(sorted(texts, key=lambda text: text == "null"))
    if isinstance(kind, inspect.DictType):
        return f"Record<string, {_text(kind.value_type)}>"
    if isinstance(kind, inspect.ListType | inspect.VarTupleType):
        item = _text(kind.item_type)
        return f"({item})[]" if " " in item else f"{item}[]"
    raise TypeError(f"no type of TypeScript for {kind}")


def _choice(values: Iterable[object]) -> str:
    return " | ".join(f'"{value}"' for value in values)


def limits() -> str:
    """The kinds of limits, for the console."""
    lines = (
        f'  {{ name: "{kind.name}", label: "{kind.label.capitalize()}", '
        f'brief: "{kind.brief}", most: {kind.maximum:_} }},'
        for kind in KINDS
    )
    return "\n".join(
        [
            "// The kinds of limits of a key, made by scripts/generate.py from policy/limits/key_limits.py.",
            "export const LIMITS = [",
            *lines,
            "] as const;",
            "",
            "export type Limit = (typeof LIMITS)[number];",
            'export type LimitName = Limit["name"];',
            "",
        ]
    )


def request_columns() -> str:
    """The table of docs/api.md."""
    rows = [row for column in COLUMNS if column.about.shown != "nowhere" for row in _rows(column)]
    return "\n".join(["| member | shown | filters | meaning |", "|---|---|---|---|", *rows])


def _rows(column: DeclaredColumn) -> Iterator[str]:
    where = "everywhere" if column.about.shown == "list" else "`GET /api/requests/{id}`"
    if column.about.is_for_operator:
        where += ", to the operator"
    filters = ", ".join(f"`{name}`" for name in column.about.filters)
    yield f"| `{column.member}` | {where} | {filters} | {column.about.about} |"
    if column.name == "cost":
        yield f"| `{MARGIN}` | {where} |  | {ABOUT_MARGIN} |"


def permissions() -> str:
    """The table of roles and permissions."""
    rows = (
        f"| `{each}` | " + " | ".join("yes" if may(role, each) else "" for role in Role) + " |" for each in Permission
    )
    heads = " | ".join(f"`{role}`" for role in Role)
    return "\n".join([f"| permission | {heads} |", "|---" * (len(Role) + 1) + "|", *rows])


def operations() -> str:
    """The table of docs/api.md. docs/api-reference.md has the rest of each."""
    rows = (f"| `{each.method} {each.path}` | {_access(each)} | {each.about} |" for each in OPERATIONS)
    return "\n".join(["| operation | permission | what |", "|---|---|---|", *rows])


def _access(operation: Operation) -> str:
    return f"`{operation.access}`" if isinstance(operation.access, Permission) else "anyone"


def chart_rules() -> str:
    """The rules without the comment that explains them, for the chart."""
    text = (ROOT / RULES).read_text()
    return f"# Made by scripts/generate.py from {RULES}: change that file.\n{text[text.index('groups:') :]}"


TABLES = {
    API: {"requests": request_columns, "permissions": permissions, "operations": operations},
    CLI: {"commands": commands},
}


def with_tables(page: str, path: str) -> str:
    """A page with its tables as they are now."""
    for name, make in TABLES[path].items():
        first, last = f"<!-- {name}: made by scripts/generate.py -->", f"<!-- /{name} -->"
        between = re.compile(f"{re.escape(first)}.*?{re.escape(last)}", re.DOTALL)
        if len(between.findall(page)) != 1:
            raise ValueError(f"{path} has no place for the table {name}")
        table = f"{first}\n{make()}\n{last}"
        page = between.sub(lambda _, table=table: table, page)  # type: ignore[misc]
    return page


def files() -> dict[str, str]:
    """What each of the files should be."""
    pages = {path: with_tables((ROOT / path).read_text(), path) for path in TABLES}
    made = {TYPES: types(), LIMITS: limits(), api_page.PATH: api_page.page()}
    return made | completion() | pages | dashboards() | {RULES_OF_THE_CHART: chart_rules()}


def main() -> None:
    for path, text in files().items():
        if not (ROOT / path).exists() or (ROOT / path).read_text() != text:
            (ROOT / path).write_text(text)
            sys.stdout.write(f"wrote {path}\n")


if __name__ == "__main__":
    main()
