"""A good call of every operation of the API, with objects of its own, so that it can be made again and again.

An operation that is not in `BODIES` or `IDS`, where it needs to be, fails whoever asks for its call.
"""

import re
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from msgspec import Struct

from streamweir.policy.permission import Permission, Role, may
from streamweir.server.control.api.operation import Nothing, Operation
from streamweir.server.control.api.table import OPERATIONS
from streamweir.server.control.routing import Access
from streamweir.store.keys.sessions import list_sessions
from support.api import Api, Space

_numbers = count(1)

IDS: dict[str, Callable[[Api, Space], Awaitable[str]]] = {}
"""For each kind of id in a path: creates a new object."""
BODIES: dict[str, Callable[[Space], dict[str, Any]]] = {
    "open_session": lambda _: {"secret": "sw-admin-wrong"},
    "log_in": lambda _: {"name": "nobody", "password": "wrong"},
    "accept_invitation": lambda _: {"invitation": "sw-invite-wrong", "password": "wrong"},
    "show_invitation": lambda _: {"invitation": "sw-invite-wrong"},
    "change_password": lambda _: {"old": "wrong", "new": "a password that is long"},
    "create_workspace": lambda _: {"name": f"new space {next(_numbers)}", "prepaid": True},
    "change_workspace": lambda _: {"name": f"changed space {next(_numbers)}", "prepaid": False},
    "create_key": lambda space: {
        "name": f"new key {next(_numbers)}",
        "workspace": space.workspace.id,
        "scopes": ["chat"],
        "models": ["gpt-*", "smart"],
        "dialect": "openai",
        "budget_usd": "12.5",
        "budget_period": "month",
    },
    "change_key": lambda _: {
        "name": f"changed key {next(_numbers)}",
        "scopes": ["models"],
        "models": ["own"],
        "dialect": "bitseek",
        "budget_usd": 3,
        "budget_period": "day",
    },
    "create_own_key": lambda _: {
        "name": f"own key {next(_numbers)}",
        "models": ["gpt-*"],
        "budget_usd": "1.5",
        "budget_period": "month",
    },
    "change_member_keys": lambda _: {"max_keys": 100, "budget_usd": next(_numbers), "budget_period": "month"},
    "rotate_key": lambda _: {"grace_s": 60},
    "create_person": lambda space: {
        "name": f"new person {next(_numbers)}",
        "role": "member",
        "workspace": space.workspace.id,
    },
    "change_person": lambda _: {"disabled": True},
    "chat_as_key": lambda space: {
        "key": space.chat.key.id,
        "dialect": "openai",
        "body": {"model": "smart", "messages": [{"role": "user", "content": "Say hello."}]},
    },
    "create_payment": lambda space: {"workspace": space.workspace.id, "amount_usd": "12.34"},
    "add_credit": lambda space: {"workspace": space.workspace.id, "amount_usd": "0.000000001", "note": "a gift"},
}


class Made(Struct, kw_only=True):
    operation: Operation
    path: str
    body: dict[str, Any] | None

    @property
    def sent(self) -> dict[str, Any]:
        return {} if self.body is None else {"body": self.body}


def name_of(operation: Operation) -> str:
    return f"{operation.method} {operation.path}"


def is_for_keys(operation: Operation) -> bool:
    """Whether a key with the scope `admin` may do it, in its own workspace."""
    return operation.access is Access.ANYONE or (
        isinstance(operation.access, Permission) and may(Role.KEY, operation.access)
    )


def named(name: str) -> Operation:
    (found,) = (each for each in OPERATIONS if each.name == name)
    return found


async def make_call(api: Api, operation: Operation, space: Space | None = None) -> Made:
    """Within `space`; by default the first."""
    space = space or api.one
    path = operation.path
    if "{id}" in path:
        path = path.replace("{id}", await make_id(api, operation, space))
    assert "{" not in path
    body = BODIES[operation.name](space) if operation.body is not Nothing else None
    return Made(operation=operation, path=path, body=body)


async def make_id(api: Api, operation: Operation, space: Space) -> str:
    found = re.match(r"/api/(?:me/)?(\w+)/{id}", operation.path)
    assert found is not None
    return await IDS[found[1]](api, space)


async def _key(api: Api, space: Space) -> str:
    return (await api.new_key(space, log_content=True)).key.id


async def _workspace(_: Api, space: Space) -> str:
    return space.workspace.id


async def _request(api: Api, space: Space) -> str:
    return await api.new_request(space)


async def _open(api: Api, space: Space) -> str:
    return await api.new_open(space)


async def _provider(_api: Api, _space: Space) -> str:
    return "sim"


async def _person(api: Api, space: Space) -> str:
    person = await api.new_person(Role.MEMBER, space)
    await api.person_session(person)
    return person.id


async def _session(api: Api, space: Space) -> str:
    id = await _person(api, space)
    at_ms = api.clock.at_ms
    (session,) = await api.storage.store.read(lambda conn: list_sessions(conn, at_ms, person_id=id))
    return session.id


IDS |= {
    "providers": _provider,
    "people": _person,
    "sessions": _session,
    "keys": _key,
    "workspaces": _workspace,
    "requests": _request,
    "live": _open,
}
