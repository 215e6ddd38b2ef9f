"""Who asks the API: the operator, or a key that is the admin of its own workspace.

There are no user accounts. The operator has the admin secret; a key with the scope `admin` acts within
its workspace; every other key may nothing here. A session of the console acts as the one that opened
it. A foreign workspace is as good as none: what is out of reach is not found, in the same words.
"""

from msgspec import Struct
from sqlalchemy import Connection

from streamweir.core.errors import CallerError
from streamweir.store.db.errors import NotFound, quoted
from streamweir.store.keys.workspaces import find_workspace


class Actor(Struct, frozen=True, kw_only=True):
    name: str
    """For the audit log: `admin`, or `key:{id}`."""
    is_operator: bool = False
    workspace_id: str = ""
    """Of a key."""
    key_id: str = ""
    by_session: bool = False
    """The cookie is what was believed."""

    @property
    def reach(self) -> str | None:
        """The workspace that this one is bound to. None: all of them."""
        return None if self.is_operator else self.workspace_id

    def within(self, conn: Connection, asked: str | None) -> str | None:
        """The id of the workspace to look into, of which `asked` is the name or the id. None: all of them."""
        return self.reach if asked is None else self.the_workspace(conn, asked)

    def the_workspace(self, conn: Connection, asked: str) -> str:
        found = find_workspace(conn, asked).id
        if self.reach not in (None, found):
            raise NotFound(f"there is no workspace {quoted(asked)}")
        return found


OPERATOR = Actor(name="admin", is_operator=True)
NOBODY = Actor(name="nobody")
"""Where anyone may ask. Bound to a workspace that does not exist."""


def forbidden(message: str) -> CallerError:
    return CallerError("insufficient_permissions", message)
