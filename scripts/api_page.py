"""docs/api-reference.md: every operation of the admin API with its parameters, and every object.

scripts/generate.py writes it. The one rule: what the page says is in the OpenAPI document that a gateway serves.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from streamweir.server.control.api.openapi import document
from streamweir.server.control.api.table import OPERATIONS

PATH = "docs/api-reference.md"
_HEAD = """\
# Admin API: operations and objects

Made by scripts/generate.py from the OpenAPI document that a gateway serves (`GET /api/openapi.json`): change the Python
types instead. [api.md](api.md) says who may do what, and explains the conventions.
"""
_METHODS = ("get", "post", "put", "patch", "delete")
"""In this order. One that is missing here is an error, so that no operation is left out of the page."""
_WORDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} entries",
    "maxItems": "at most {} entries",
}
Schema = dict[str, Any]


def page() -> str:
    made = document(OPERATIONS, is_secure=False)
    operations = [
        (path, method, members[method])
        for path, members in made["paths"].items()
        for method in sorted(members, key=_METHODS.index)
    ]
    parts = [_HEAD]
    for name, group in groupby(operations, key=lambda each: each[0].split("/")[2]):
        parts.append(f"## {name.removesuffix('.json').capitalize().replace('Openapi', 'OpenAPI')}\n")
        parts += [_operation(*each) for each in group]
    parts.append("## Objects\n")
    parts += [_object(name, schema) for name, schema in sorted(made["components"]["schemas"].items())]
    return "\n".join(parts)


def _operation(path: str, method: str, made: Schema) -> str:
    lines = [f"### `{method.upper()} {path}`\n", f"{made['summary']}. {made['description']}\n"]
    if made["parameters"]:
        lines += ["| parameter | type | meaning |", "|---|---|---|"]
        lines += [_parameter(each) for each in made["parameters"]]
        lines.append("")
    if body := made.get("requestBody"):
        lines.append(f"Body: {_sorts(body['content'])}{'' if body['required'] else ', optional'}.\n")
    status, answer = next(iter(made["responses"].items()))
    lines.append(f"Answer: {status}, {_sorts(answer['content'])}.\n")
    return "\n".join(lines)


def _parameter(made: Schema) -> str:
    name = f"`{{{made['name']}}}`" if made["in"] == "path" else f"`{made['name']}`"
    return _row(name, made["schema"], is_required=made["required"])


def _sorts(content: Schema) -> str:
    """What is sent, in each media type that there is."""
    return " or ".join(
        _sort(each["schema"]) if kind == "application/json" else f"`{kind}`" for kind, each in content.items()
    )


def _object(name: str, schema: Schema) -> str:
    required = schema.get("required", [])
    lines = [f"### {name}\n"]
    if about := schema.get("description"):
        lines.append(f"{_one_line(about)}\n")
    if values := schema.get("enum"):
        lines += [", ".join(f"`{each}`" for each in values) + ".", ""]
    if members := schema.get("properties"):
        lines += ["| member | type | meaning |", "|---|---|---|"]
        lines += [_row(f"`{key}`", member, is_required=key in required) for key, member in members.items()]
    elif not values:
        lines.append("It has no members.")
    return "\n".join([*lines, ""])


def _row(name: str, schema: Schema, *, is_required: bool) -> str:
    return f"| {name}{', required' if is_required else ''} | {_sort(schema)} | {' '.join(_about(schema))} |"


def _sort(schema: Schema) -> str:
    """The type of a value, in words."""
    if name := schema.get("$ref"):
        name = name.rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if parts := schema.get("anyOf"):
        return " or ".join(_sort(part) for part in sorted(parts, key=lambda part: part == {"type": "null"}))
    if values := schema.get("enum"):
        return ", ".join(f"`{value}`" for value in values)
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"list of {_sort(schema['items'])}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object with values: {_sort(schema['additionalProperties'])}"
    return kind if isinstance(kind, str) else " or ".join(kind)


def _about(schema: Schema) -> Iterator[str]:
    """What is said about a value: its meaning, its bounds, what it is when it is left out."""
    parts = [schema, *schema.get("anyOf", [])]
    for part in parts:
        if text := part.get("description"):
            yield f"{_one_line(text).removesuffix('.')}."
    for part in parts:
        bounds = [_bound(key, part[key]) for key in _WORDS if key in part]
        if bounds:
            text = ", ".join(bounds)
            yield f"{text[0].upper()}{text[1:]}."
    default = schema.get("default")
    if default is not None and default not in ([], ()):
        yield f"Default: `{_literal(default)}`."


def _bound(key: str, value: int) -> str:
    text = _WORDS[key].format(f"{value:,}")
    return text.replace("characters", "character").replace("entries", "entry") if value == 1 else text


def _literal(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_literal(each) for each in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
