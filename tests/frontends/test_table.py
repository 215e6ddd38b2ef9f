"""The table of frontends: who answers where, and by which name it is known."""

import json
import re
import tomllib
from pathlib import Path

import pytest

import streamweir
from streamweir.frontends.base import Frontend
from streamweir.frontends.chat.frontend import ChatFrontend
from streamweir.frontends.chat.openai import OPENAI
from streamweir.frontends.chat.opentoken import OPENTOKEN
from streamweir.frontends.chat.table import DIALECTS
from streamweir.frontends.table import FRONTENDS, FrontendTable, unknown_url
from streamweir.pipeline.native import NATIVE
from streamweir.wire.native import NativeWire
from support.dialect_rules import DIALECTS as RULES

SHARED = "/v1/chat/completions"
ROOT = Path(__file__).parents[2]


def test_every_dialect_has_a_path_of_its_own_and_shares_one() -> None:
    assert set(FRONTENDS.dialects) == set(DIALECTS)
    assert FRONTENDS.by_name.keys() == {*DIALECTS, "messages", "responses", "embeddings", "completions"}
    assert FRONTENDS.by_prefix.keys() == {*DIALECTS, "anthropic"}
    assert FRONTENDS.by_path[SHARED] is None, "there the key or the configuration chooses"
    for name in DIALECTS:
        assert FRONTENDS.by_name[name].name == name
        assert FRONTENDS.by_path[f"/{name}{SHARED}"] is FRONTENDS.by_name[name]


def test_messages_have_their_paths_for_themselves() -> None:
    frontend = FRONTENDS.by_name["messages"]
    assert FRONTENDS.by_path["/v1/messages"] is FRONTENDS.by_path["/anthropic/v1/messages"] is frontend


def test_responses_have_their_paths_for_themselves() -> None:
    frontend = FRONTENDS.by_name["responses"]
    assert FRONTENDS.by_path["/v1/responses"] is FRONTENDS.by_path["/openai/v1/responses"] is frontend
    assert "responses" not in FRONTENDS.dialects


def test_embeddings_have_their_paths_for_themselves() -> None:
    frontend = FRONTENDS.by_name["embeddings"]
    assert FRONTENDS.by_path["/v1/embeddings"] is FRONTENDS.by_path["/openai/v1/embeddings"] is frontend


def test_completions_have_their_paths_for_themselves() -> None:
    frontend = FRONTENDS.by_name["completions"]
    assert FRONTENDS.by_path["/v1/completions"] is FRONTENDS.by_path["/openai/v1/completions"] is frontend


def test_a_frontend_alone_on_its_paths_answers_there_for_any_key() -> None:
    (frontend,) = FrontendTable([ChatFrontend(OPENAI)]).by_name.values()
    table = FrontendTable([frontend])
    assert set(table.by_path.values()) == {frontend}
    assert table.dialects == []


def test_one_that_is_removed_leaves_no_trace() -> None:
    first, second = ChatFrontend(OPENAI), ChatFrontend(OPENTOKEN)
    table, alone = FrontendTable([first, second]), FrontendTable([first])
    table.remove(second)
    assert (table.by_name, table.by_path, table.by_prefix) == (alone.by_name, alone.by_path, alone.by_prefix)
    second.client_header = "x-second"
    table.add(second)
    assert table.by_client_header == {"x-second": second}
    table.remove(second)
    assert table.by_client_header == {}


def test_no_two_have_one_name_or_one_prefix() -> None:
    class Other(ChatFrontend):
        def __init__(self) -> None:
            super().__init__(OPENAI)
            self.name = "other"

    table = FrontendTable([ChatFrontend(OPENAI)])
    for frontend, reason in ((ChatFrontend(OPENAI), "already"), (Other(), "prefix")):
        with pytest.raises(ValueError, match=reason):
            table.add(frontend)
    assert list(table.by_name) == ["openai"]


@pytest.mark.parametrize(
    ("asked", "served"),
    [
        ("/chat/completions", "/v1/chat/completions"),
        ("/v1/chat/completions/", "/v1/chat/completions"),
        ("/v1/v1/messages", "/v1/messages"),
        ("/api/v1/responses", "/v1/responses"),
        ("/aivene/chat/completions", "/aivene/v1/chat/completions"),
        ("/models", "/v1/models"),
        ("/v1/chat", None),
        ("/chat/completion", None),
        ("/", None),
        ("/x" * 1000 + "/chat/completions", None),
    ],
)
def test_a_similar_path_is_named(asked: str, served: str | None) -> None:
    assert FRONTENDS.served_path(asked) == served
    hint = f" Did you mean {served}?" if served is not None else ""
    assert unknown_url("POST", asked).message == f"Unknown request URL: POST {asked[:200]}.{hint}"


def test_frames_of_every_native_wire_can_be_passed_on() -> None:
    frontends: list[Frontend] = list(FRONTENDS.by_name.values())
    assert NATIVE.keys() == set(NativeWire) == {each.native_wire for each in frontends} - {None}


def test_the_console_offers_every_dialect() -> None:
    source = Path(streamweir.__file__).parent / "console" / "web" / "src" / "lib" / "apis.ts"
    found = re.search(r"export const DIALECTS = (\[.*\]) as const;", source.read_text())
    assert found is not None
    assert json.loads(found[1]) == FRONTENDS.dialects


def test_the_console_names_every_api() -> None:
    source = (Path(streamweir.__file__).parent / "console" / "web" / "src" / "lib" / "apis.ts").read_text()
    names = dict(re.findall(r'export const ([A-Z]+) = "(\w+)";', source))

    def listed(form: str) -> list[str]:
        (found,) = re.findall(form, source)
        return [names[each] for each in found.split(", ")]

    others = [name for name in FRONTENDS.by_name if name not in FRONTENDS.dialects]
    assert listed(r"export const APIS = \[\.\.\.DIALECTS, (.*)\] as const;") == others
    assert listed(r"isChat\(.*\n  return !\[(.*)\]\.includes") == others
    absent = [name for name in others if name not in FRONTENDS.in_playground]
    assert listed(r"isInPlayground\(.*\n  return !\[(.*)\]\.includes") == absent


def test_the_first_page_has_every_path() -> None:
    page = (ROOT / "docs" / "getting-started.md").read_text()
    assert [path for path in FRONTENDS.by_path if path.startswith("/v1/") and f"`POST {path}`" not in page] == []


@pytest.mark.parametrize("id", ["pipeline-frontend", "server-frontend"])
def test_no_frontend_may_be_imported_by_name(id: str) -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if contract["id"] == id]
    packages = [path.parent.name for path in Path(streamweir.__file__).parent.glob("frontends/*/__init__.py")]
    assert {f"streamweir.frontends.{name}" for name in packages} <= set(contract["forbidden_modules"])


def test_every_dialect_is_described_a_second_time_for_the_tests() -> None:
    assert {rules.name for rules in RULES} == set(DIALECTS)
