"""The OpenAPI document and docs/api.md say what is served; whatever the document allows is answered without a fault."""

import json
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import jsonschema_rs
import pytest
import requests
import schemathesis
from hypothesis import given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from conftest import SOAKS
from streamweir.server.control import api as package
from streamweir.server.control.api import table
from streamweir.server.control.api.openapi import document
from streamweir.server.control.api.operation import Nothing
from streamweir.server.control.api.table import OPERATIONS
from streamweir.server.control.routing import Access
from support.api import TOML, api_on
from support.api_calls import make_id, name_of
from support.api_server import ServedApi, served_api

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
EXAMPLES = 300 if SOAKS else 8
PROXIED = '[server]\ntrusted_proxies = ["127.0.0.1"]\n' + TOML
DOCUMENT = document(OPERATIONS, is_secure=False)
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
ENDLESS = {"GET /api/live/events"}
"""Nobody can wait for the end of its answer; it has tests of its own."""
BY_NAME = {name_of(operation): operation for operation in OPERATIONS}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedApi]:
    with served_api(tmp_path_factory.mktemp("api"), PROXIED) as found:
        yield found
        assert found.faults == []


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as found:
        yield found


def test_the_document_is_one() -> None:
    SCHEMA.validate()
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    listed = {f"{method.upper()} {path}" for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert listed == set(BY_NAME)
    refs = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(DOCUMENT)))
    assert refs <= set(DOCUMENT["components"]["schemas"])
    for operation in OPERATIONS:
        made = DOCUMENT["paths"][operation.path][operation.method.lower()]
        assert (made["operationId"], made["summary"]) == (operation.name, operation.about)
        assert {each["name"] for each in made["parameters"] if each["in"] == "query"} == set(
            operation.query.__struct_fields__
        )
        ways = [sorted(each) for each in made["security"]]
        is_read = operation.method == "GET"
        by_page = ["session"] if is_read else ["csrf", "session"]
        assert ways == ([] if operation.access is Access.ANYONE else [["bearer"], by_page])


def test_every_module_with_operations_is_in_the_table() -> None:
    """`server/control/api/table.py` lists them, because their order decides which of two paths matches."""
    names = [module.name for module in walk_packages(package.__path__, f"{package.__name__}.")]
    modules = [import_module(name) for name in names if name != table.__name__]
    declared = {name_of(each) for module in modules for each in getattr(module, "OPERATIONS", ())}
    assert declared | {"GET /api/openapi.json"} == BY_NAME.keys()


@pytest.mark.parametrize(("is_secure", "cookie"), [(False, "streamweir"), (True, "__Host-streamweir")])
async def test_the_document_is_served(tmp_path: Path, is_secure: bool, cookie: str) -> None:
    async with api_on("sqlite", tmp_path, is_secure=is_secure) as api:
        found = (await api.ask("GET", "/api/openapi.json", **api.operator)).json()
        assert found == json.loads(json.dumps(document(OPERATIONS, is_secure=is_secure)))
        assert found["components"]["securitySchemes"]["session"]["name"] == cookie


@pytest.mark.parametrize("name", sorted(BY_NAME.keys() - ENDLESS))
def test_whatever_the_document_allows_is_answered(name: str, served: ServedApi, session: requests.Session) -> None:
    operation = BY_NAME[name]
    headers = {"authorization": f"Bearer {served.api.secret}"}
    found = SCHEMA[operation.path][operation.method]
    statuses: list[int] = []

    @settings(max_examples=EXAMPLES)
    @given(case=found.as_strategy())
    def check(case: Any) -> None:
        if operation.access is Access.ANYONE:  # who guesses the secret too often is not listened to
            headers["x-forwarded-for"] = f"198.51.{len(statuses) // 200}.{len(statuses) % 200}"
        if "{id}" in operation.path and len(statuses) % 2:
            case.path_parameters["id"] = served.call(make_id(served.api, operation, served.api.one))
        reply = case.call(base_url=served.base_url, session=session, headers=headers)
        statuses.append(reply.status_code)
        checks = [not_a_server_error, response_schema_conformance, content_type_conformance]
        case.validate_response(reply, checks=checks)

    check()
    assert served.faults == []
    assert 429 not in statuses
    has_one_form = operation.access is Access.ANYONE and operation.query is operation.body is Nothing
    assert len(statuses) >= (1 if has_one_form else EXAMPLES // 2)


def test_the_examples_work(served: ServedApi, session: requests.Session) -> None:
    examples = re.findall(r"^curl .*$", PAGE.read_text(), re.MULTILINE)
    assert len(examples) > 5
    api = served.api
    filled = {
        "$SECRET": api.secret,
        "$KEY": served.call(api.new_key(api.one)).key.id,
        "$REQUEST": served.call(api.new_request(api.one)),
        "http://127.0.0.1:8080": served.base_url,
    }
    for example in examples:
        for name, value in filled.items():
            example = example.replace(name, value)
        arguments = iter(shlex.split(example)[1:])
        sent: dict[str, Any] = {"method": "GET", "headers": {}}
        for argument in arguments:
            if argument == "-H":
                name, _, value = next(arguments).partition(": ")
                sent["headers"][name] = value
            elif argument == "-X":
                sent["method"] = next(arguments)
            elif argument == "--json":
                sent["json"] = json.loads(next(arguments))
                sent["method"] = "POST" if sent["method"] == "GET" else sent["method"]
            else:
                sent["url"] = argument
        assert session.request(**sent).status_code in (200, 201), example
