"""The identity behind an API request: the admin secret, a key that is the admin of its own workspace, or a person.

Each has a role, and what a role may do is in one table (`policy.permission`). The admin secret has the role `owner`. A
key with the scope `admin` acts within its workspace, one with `metrics` reads the metrics; others have no access. A
session of the console acts as the identity that opened it. Another workspace is treated as if it did not exist: its
objects are "not found", with the same message.
"""

from msgspec import Struct
from sqlalchemy import Connection

from streamweir.core.errors import CallerError
from streamweir.policy.permission import GATEWAY_ROLES, Permission, Role, may
from streamweir.store.db.errors import NotFound, quoted
from streamweir.store.keys.workspaces import find_workspace


class Actor(Struct, frozen=True, kw_only=True):
    name: str
    """For the audit log: `admin`, `key:{id}`, or `person:{name}`."""
    role: Role
    workspace_id: str = ""
    """Of a role that is bound to a workspace."""
    key_id: str = ""
    person_id: str = ""
    by_session: bool = False
    """Authenticated by the session's cookie."""

    def may(self, permission: Permission) -> bool:
        return may(self.role, permission)

    @property
    def sees_cost(self) -> bool:
        """What providers ask for, and so the margin, is not the business of a workspace."""
        return self.may(Permission.COSTS_READ)

    @property
    def sees_all(self) -> bool:
        """All workspaces, and what belongs to none."""
        return self.role in GATEWAY_ROLES

    @property
    def allowed_workspace(self) -> str | None:
        """The workspace that this actor is restricted to. None: all of them."""
        return None if self.sees_all else self.workspace_id

    def workspace_filter(self, conn: Connection, requested: str | None) -> str | None:
        """The id of the workspace to query, of which `requested` is the name or the id. None: all of them."""
        return self.allowed_workspace if requested is None else self.find_allowed_workspace(conn, requested)

    def find_allowed_workspace(self, conn: Connection, requested: str) -> str:
        found = find_workspace(conn, requested).id
        if self.allowed_workspace not in (None, found):
            raise NotFound(f"there is no workspace {quoted(requested)}")
        return found


ADMIN_SECRET = Actor(name="admin", role=Role.OWNER)
ANONYMOUS = Actor(name="nobody", role=Role.MEMBER)
"""For operations without authentication. Restricted to a workspace that does not exist."""


def forbidden(message: str) -> CallerError:
    return CallerError("insufficient_permissions", message)
