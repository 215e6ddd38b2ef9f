"""Who may do what with the console and the admin API: the roles, the permissions, and the table of the two.

Every route of the admin API declares one permission, and `server.control.api.authentication` compares it with this
table. What is not in the table is not allowed. Which objects a permission reaches is another question: a role that is
bound to a workspace sees nothing of another one with any permission (`Actor.allowed_workspace`).
"""

from collections.abc import Mapping
from enum import StrEnum


class Permission(StrEnum):
    SESSION = "session"
    """Its own session: see who it is, and end it."""
    SELF = "self"
    """Of a person: its own account, sessions, keys, usage, credit and requests."""
    DOCUMENT = "document"
    """Read the description of this API."""
    PEOPLE_READ = "people.read"
    PEOPLE_CHANGE = "people.change"
    """Invite, change and remove people, and end their sessions. In a workspace: its members."""
    PEOPLE_APPOINT = "people.appoint"
    """Give every role, and not just that of a member."""
    WORKSPACES_READ = "workspaces.read"
    WORKSPACES_CHANGE = "workspaces.change"
    KEYS_READ = "keys.read"
    KEYS_CHANGE = "keys.change"
    """Create, change, rotate and revoke keys."""
    KEYS_APPOINT = "keys.appoint"
    """Grant the scopes `admin` and `metrics`, and change keys that have one of them."""
    PRICE_GROUPS_CHOOSE = "price_groups.choose"
    """Choose by what a key's or a workspace's requests are sold."""
    CREDIT_READ = "credit.read"
    """Balances, the ledger, and payments."""
    CREDIT_GRANT = "credit.grant"
    PAYMENTS_OPEN = "payments.open"
    """Ask for a payment, which gives credit when it is paid."""
    REQUESTS_READ = "requests.read"
    """The log of requests, without their content."""
    REQUESTS_EXPORT = "requests.export"
    CONTENT_READ = "content.read"
    """What was asked and answered, of keys that keep it."""
    CONTENT_ERASE = "content.erase"
    USAGE_READ = "usage.read"
    COSTS_READ = "costs.read"
    """What providers ask for, and the margin."""
    LIVE_READ = "live.read"
    LIVE_FOLLOW = "live.follow"
    """The running requests as a stream, which a page keeps open."""
    LIVE_STOP = "live.stop"
    PLAYGROUND = "playground"
    """Chat with a key, at its cost."""
    ROUTING_READ = "routing.read"
    """Models, providers and prices."""
    NODES_READ = "nodes.read"
    """The processes of all nodes, and what each knows about providers."""
    PROVIDERS_TEST = "providers.test"
    """Reach a provider with its credentials."""
    ALERTS_READ = "alerts.read"
    AUDIT_READ = "audit.read"
    ACCOUNTING_CHECK = "accounting.check"
    """Check the audit log and the ledger as a whole."""
    SETTINGS_READ = "settings.read"
    METRICS = "metrics.read"


class Role(StrEnum):
    OWNER = "owner"
    """May do everything; the admin secret has this role."""
    OPERATOR = "operator"
    """Runs the gateway: everything but people and money."""
    BILLING = "billing"
    """Credit, payments, costs and usage of all workspaces."""
    VIEWER = "viewer"
    """Sees what happens in all workspaces, without contents and costs, and changes nothing."""
    ADMIN = "admin"
    """Of a workspace: its keys, requests, credit and members."""
    MEMBER = "member"
    """Of a workspace: what is its own."""
    KEY = "key"
    """A key with the scope `admin`: as the admin of its workspace, without people."""
    METRICS = "metrics"
    """A key with the scope `metrics`: reads the metrics of all workspaces, and does nothing else."""


GATEWAY_ROLES = frozenset({Role.OWNER, Role.OPERATOR, Role.BILLING, Role.VIEWER})
"""Of all workspaces."""
WORKSPACE_ROLES = frozenset({Role.ADMIN, Role.MEMBER, Role.KEY})
"""Of one workspace each."""
PERSON_ROLES = tuple(role for role in Role if role not in (Role.KEY, Role.METRICS))
"""Those that a person can have."""

_P = Permission
_EVERYONE = frozenset({_P.SESSION})
_PERSON = _EVERYONE | {_P.SELF}
_WATCH = frozenset(
    {
        _P.DOCUMENT,
        _P.WORKSPACES_READ,
        _P.KEYS_READ,
        _P.CREDIT_READ,
        _P.REQUESTS_READ,
        _P.USAGE_READ,
        _P.LIVE_READ,
        _P.LIVE_FOLLOW,
        _P.ROUTING_READ,
        _P.ALERTS_READ,
        _P.METRICS,
    }
)
"""What every role but a member sees."""
_KEY = (
    _EVERYONE
    | _WATCH
    | {
        _P.KEYS_CHANGE,
        _P.PAYMENTS_OPEN,
        _P.REQUESTS_EXPORT,
        _P.CONTENT_READ,
        _P.CONTENT_ERASE,
        _P.LIVE_STOP,
        _P.PLAYGROUND,
        _P.AUDIT_READ,
    }
)
_OF_OPERATOR = {
    _P.PEOPLE_READ,
    _P.WORKSPACES_CHANGE,
    _P.KEYS_CHANGE,
    _P.KEYS_APPOINT,
    _P.PRICE_GROUPS_CHOOSE,
    _P.REQUESTS_EXPORT,
    _P.CONTENT_READ,
    _P.CONTENT_ERASE,
    _P.COSTS_READ,
    _P.LIVE_STOP,
    _P.PLAYGROUND,
    _P.NODES_READ,
    _P.PROVIDERS_TEST,
    _P.AUDIT_READ,
    _P.ACCOUNTING_CHECK,
    _P.SETTINGS_READ,
}
_OF_BILLING = {
    _P.NODES_READ,
    _P.CREDIT_GRANT,
    _P.PAYMENTS_OPEN,
    _P.REQUESTS_EXPORT,
    _P.COSTS_READ,
    _P.AUDIT_READ,
    _P.ACCOUNTING_CHECK,
}

PERMISSIONS: Mapping[Role, frozenset[Permission]] = {
    Role.OWNER: frozenset(Permission),
    Role.OPERATOR: _PERSON | _WATCH | _OF_OPERATOR,
    Role.BILLING: _PERSON | _WATCH | _OF_BILLING,
    Role.VIEWER: _PERSON | _WATCH | {_P.NODES_READ},
    Role.ADMIN: _PERSON | _KEY | {_P.PEOPLE_READ, _P.PEOPLE_CHANGE},
    Role.MEMBER: _PERSON,
    Role.KEY: _KEY,
    Role.METRICS: frozenset({_P.METRICS}),
}

REPEATED = frozenset({Permission.LIVE_FOLLOW, Permission.METRICS})
"""Used by pages and programs by themselves: it does not extend a session."""


def may(role: Role, permission: Permission) -> bool:
    return permission in PERMISSIONS[role]


def roles_with(permission: Permission) -> tuple[Role, ...]:
    return tuple(role for role in Role if may(role, permission))
