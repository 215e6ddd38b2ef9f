"""`streamweir people`: what it prints, and what it refuses."""

from pathlib import Path

import pytest

from streamweir.policy import secret as form
from streamweir.policy.secret import is_well_formed
from streamweir.store.db.clock import now_ms
from streamweir.store.keys.people import accept_invitation, find_credentials
from streamweir.store.keys.sessions import Client, SessionPerson, create_session
from support.command import Commands
from support.key_store import NOW


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


def test_a_person_from_the_invitation_to_the_end(commands: Commands) -> None:
    made = commands("people", "invite", "Ada", "--role", "owner")
    token = made.stdout.removesuffix("\n")
    assert is_well_formed(token, form.INVITATION), "nothing else is on the output"
    assert "Ada (psn_" in made.stderr
    assert commands.table("people", "list")[1][5] == "invited"
    person = commands.write(lambda conn: accept_invitation(conn, token, "$hash", NOW))
    assert person is not None
    assert commands.table("people", "list")[1][5] == "active"
    commands.json("people", "invite", "bob", "--role", "operator")
    assert commands.json("people", "change", "BOB", "--role", "viewer")["role"] == "viewer"
    assert commands.json("people", "change", "bob", "--disable")["disabled_ms"] is not None
    assert "disabled" in commands("people", "change", "bob", "--role", "billing").stdout
    assert commands.json("people", "change", "bob", "--enable")["disabled_ms"] is None
    again = commands.json("people", "reset", "Ada")
    assert is_well_formed(again["invitation"], form.INVITATION)
    found = commands.read(lambda conn: find_credentials(conn, "ada"))
    assert found is not None
    assert found.password is None
    assert commands("people", "remove", "bob").stdout.startswith("removed  bob (psn_")
    assert [row["name"] for row in commands.json("people", "list")] == ["Ada"]
    actions = [row["action"] for row in commands.json("admin", "audit")]
    assert actions.count("person.change") == 4


def test_the_address_of_an_account_at_the_identity_provider(commands: Commands) -> None:
    made = commands.json("people", "invite", "Ada", "--role", "owner", "--email", "Ada@Example.com")
    assert made["person"]["email"] == "ada@example.com"
    assert commands.table("people", "list")[1][4] == "ada@example.com"
    assert commands.json("people", "change", "Ada", "--email", "new@example.com")["email"] == "new@example.com"
    assert commands.json("people", "change", "Ada", "--email", "")["email"] is None


def test_the_sessions_of_a_person(commands: Commands) -> None:
    person = commands.json("people", "invite", "Ada", "--role", "owner")["person"]
    holder = SessionPerson(person_id=person["id"], workspace_id=None)
    client = Client(address="192.0.2.1", browser="Firefox \x1b[31m")
    at_ms = now_ms()
    commands.write(lambda conn: create_session(conn, actor="x", at_ms=at_ms, holder=holder, client=client))
    (session,) = commands.json("people", "sessions", "ada")
    assert (session["address"], len(session["id"])) == ("192.0.2.1", 12)
    assert "digest" not in session
    assert "\x1b" not in commands("people", "sessions", "ada").stdout
    assert commands.json("people", "end-sessions", "ada") == {"sessions_ended": 1}
    assert commands.json("people", "sessions", "ada") == []
    assert commands.json("admin", "audit")[0]["action"] == "person.end_sessions"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["remove", "nobody"], "there is no person 'nobody'"),
        (["invite", "Ada", "--role", "admin"], "the role 'admin' needs a workspace"),
        (["invite", "Ada", "--role", "owner", "--workspace", "default"], "is for all workspaces"),
        (["invite", "", "--role", "owner"], "a name must have 1 to 64 characters"),
    ],
)
def test_what_is_refused(commands: Commands, words: list[str], told: str) -> None:
    commands("keys", "create", "ci")
    assert told in commands.fails("people", *words)


def test_what_is_misused(commands: Commands) -> None:
    assert "nothing to change" in commands.misused("people", "change", "ada")
    assert "Missing option '--role'" in commands.misused("people", "invite", "ada")
    assert "'key' is not one of" in commands.misused("people", "invite", "ada", "--role", "key")
