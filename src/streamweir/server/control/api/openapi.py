"""The operations as an OpenAPI 3.1 document, generated from the values that are served.

Pure. Types describe the members; `about` describes the operation.
"""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from streamweir import __version__
from streamweir.policy.permission import REPEATED, Permission, roles_with
from streamweir.server.control.api.authentication import COOKIE, CSRF, SAFE, SECURE_COOKIE
from streamweir.server.control.api.operation import JSON, Nothing, Operation
from streamweir.server.control.routing import Access

_TEMPLATE = "#/components/schemas/{name}"


class ErrorMembers(Struct, kw_only=True):
    message: str
    type: str
    param: str | None
    code: str


class Error(Struct, kw_only=True):
    error: ErrorMembers


def document(operations: Sequence[Operation], *, is_secure: bool) -> dict[str, Any]:
    types: list[Any] = [Error]
    for operation in operations:
        types += [operation.answer, operation.body]
    schemas, components = msgspec.json.schema_components(types, ref_template=_TEMPLATE)
    paths: dict[str, dict[str, Any]] = {}
    for place, operation in enumerate(operations):
        answer, body = schemas[1 + 2 * place : 3 + 2 * place]
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(
            operation, answer, body if operation.body is not Nothing else None, schemas[0]
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "Streamweir", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {"schemas": _with_amounts(components), "securitySchemes": _schemes(is_secure)},
    }


def _operation(
    operation: Operation, answer: dict[str, Any], body: dict[str, Any] | None, error: dict[str, Any]
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.about,
        "description": _access_text(operation),
        "security": _security(operation),
        "parameters": [*_path_parameters(operation), *_query_parameters(operation)],
        "responses": {
            str(operation.status): {"description": "Done.", "content": _content(operation, answer)},
            "default": {"description": "An error.", "content": {JSON: {"schema": error}}},
        },
    }
    if body is not None:
        is_required = any(field.required for field in msgspec.structs.fields(operation.body))
        made["requestBody"] = {"required": is_required, "content": {JSON: {"schema": body}}}
    return made


def _access_text(operation: Operation) -> str:
    if not isinstance(operation.access, Permission):
        return "Anyone may."
    roles = ", ".join(f"`{role}`" for role in roles_with(operation.access))
    about = f"With the permission `{operation.access}`: the roles {roles}."
    return f"{about} It does not keep a session alive." if operation.access in REPEATED else about


def _content(operation: Operation, answer: dict[str, Any]) -> dict[str, Any]:
    return {kind: {"schema": answer if kind == JSON else {"type": "string"}} for kind in operation.media}


def _security(operation: Operation) -> list[dict[str, list[str]]]:
    if operation.access is Access.ANYONE:
        return []
    by_session: dict[str, list[str]] = {"session": []}
    return [{"bearer": []}, by_session if operation.method in SAFE else {**by_session, "csrf": []}]


def _schemes(is_secure: bool) -> dict[str, Any]:
    cookie = SECURE_COOKIE if is_secure else COOKIE
    return {
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "The admin secret, or a key with the scope `admin`.",
        },
        "session": {"type": "apiKey", "in": "cookie", "name": cookie, "description": "Set by POST /api/session."},
        "csrf": {"type": "apiKey", "in": "header", "name": CSRF, "description": "`csrf` of GET /api/session."},
    }


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    names: list[str] = re.findall(r"{(\w+)}", operation.path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_parameters(operation: Operation) -> list[dict[str, Any]]:
    _, components = msgspec.json.schema_components([operation.query], ref_template=_TEMPLATE)
    (schema,) = components.values()
    return [
        {"name": name, "in": "query", "required": name in schema["required"], "schema": _not_null(members)}
        for name, members in schema["properties"].items()
    ]


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A query cannot send null: an absent parameter means the same."""
    if "anyOf" not in schema:
        return schema
    (only,) = (each for each in schema["anyOf"] if each != {"type": "null"})
    return dict(only)


def _with_amounts(schema: Any) -> Any:
    """Money can also be sent as a number, which the schema of a decimal does not contain."""
    if isinstance(schema, dict):
        made = {name: _with_amounts(value) for name, value in schema.items()}
        if made.get("format") == "decimal":
            del made["format"]
            made["type"] = ["string", "number"]
        return made
    return [_with_amounts(each) for each in schema] if isinstance(schema, list) else schema


_ABOUT = (
    "Money is exact dollars in text, a moment Unix milliseconds. A list is a page: where it has a `next`, that is the "
    "`cursor` (or `before`) of the page after it."
)
