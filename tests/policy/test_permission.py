"""Which role may do what: written out here as a person would say it, and compared with the table."""

import pytest

from streamweir.policy.permission import (
    GATEWAY_ROLES,
    PERMISSIONS,
    PERSON_ROLES,
    WORKSPACE_ROLES,
    Permission,
    Role,
    may,
    roles_with,
)

EVERYONE = "owner operator billing viewer admin member key"
ALL_BUT_MEMBERS = "owner operator billing viewer admin key"
EXPECTED = {
    "session": EVERYONE,
    "self": "owner operator billing viewer admin member",
    "document": ALL_BUT_MEMBERS,
    "people.read": "owner operator admin",
    "people.change": "owner admin",
    "people.appoint": "owner",
    "workspaces.read": ALL_BUT_MEMBERS,
    "workspaces.change": "owner operator",
    "keys.read": ALL_BUT_MEMBERS,
    "keys.change": "owner operator admin key",
    "keys.appoint": "owner operator",
    "price_groups.choose": "owner operator",
    "credit.read": ALL_BUT_MEMBERS,
    "credit.grant": "owner billing",
    "payments.open": "owner billing admin key",
    "requests.read": ALL_BUT_MEMBERS,
    "requests.export": "owner operator billing admin key",
    "content.read": "owner operator admin key",
    "content.erase": "owner operator admin key",
    "usage.read": ALL_BUT_MEMBERS,
    "costs.read": "owner operator billing",
    "live.read": ALL_BUT_MEMBERS,
    "live.follow": ALL_BUT_MEMBERS,
    "live.stop": "owner operator admin key",
    "playground": "owner operator admin key",
    "routing.read": ALL_BUT_MEMBERS,
    "nodes.read": "owner operator billing viewer",
    "providers.test": "owner operator",
    "alerts.read": ALL_BUT_MEMBERS,
    "audit.read": "owner operator billing admin key",
    "accounting.check": "owner operator billing",
    "settings.read": "owner operator",
    "metrics.read": f"{ALL_BUT_MEMBERS} metrics",
}


@pytest.mark.parametrize("permission", list(Permission))
def test_the_roles_that_may(permission: Permission) -> None:
    expected = set(EXPECTED[permission].split())
    assert set(roles_with(permission)) == expected
    assert {role for role in Role if may(role, permission)} == expected


def test_every_role_has_a_row_and_a_place() -> None:
    assert set(PERMISSIONS) == set(Role) == GATEWAY_ROLES | WORKSPACE_ROLES | {Role.METRICS}
    assert not GATEWAY_ROLES & WORKSPACE_ROLES
    assert set(PERSON_ROLES) == (GATEWAY_ROLES | WORKSPACE_ROLES) - {Role.KEY}


def test_no_role_of_a_workspace_reaches_what_belongs_to_no_workspace() -> None:
    """There is no object of these permissions that lies in one workspace."""
    beyond = {
        "people.appoint",
        "workspaces.change",
        "costs.read",
        "accounting.check",
        "settings.read",
        "credit.grant",
        "providers.test",
    }
    for role in WORKSPACE_ROLES:
        assert not PERMISSIONS[role] & beyond


def test_a_member_has_its_own_alone() -> None:
    assert PERMISSIONS[Role.MEMBER] == {Permission.SESSION, Permission.SELF}


def test_the_key_of_a_prometheus_reads_the_metrics_alone() -> None:
    assert PERMISSIONS[Role.METRICS] == {Permission.METRICS}


def test_a_key_is_no_person() -> None:
    assert not {each for each in PERMISSIONS[Role.KEY] if each.startswith(("people", "self"))}
