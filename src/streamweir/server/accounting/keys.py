"""Every key and every workspace, in memory, as of the last load from the store.

A request never waits for a query: a process loads all keys at its start, and once a second those that have changed
(`server.accounting.maintenance`). The keys of the operator's file have priority and are replaced by every reload. If
the store has not answered for a minute, its keys are refused: one of them may have been revoked meanwhile. Keys of the
file do not need the store.
"""

import time
from collections.abc import Iterator

from msgspec import Struct

from streamweir.core.errors import GatewayFault
from streamweir.policy.access import Key, KeyRing, digest_of
from streamweir.store.keys.changes import Changes, KeyState


class Workspace(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    prepaid: bool = False
    granted: int = 0
    """The sum of its credits, in nano-dollars."""
    price_group: str | None = None
    is_unresolved: bool = False
    """It is new in the file, and the store has not assigned its id yet: nothing can be charged to it."""


class _Entry(Struct, frozen=True):
    key: Key
    until: float | None
    """Unix seconds: until when a rotated secret is valid."""


class KeyDirectory:
    def __init__(self, file_keys: KeyRing, max_age_s: float = 60.0) -> None:
        self._file = file_keys
        self._max_age_s = max_age_s
        self._stored: dict[bytes, _Entry] = {}
        self._digests: dict[str, tuple[bytes, ...]] = {}  # of each stored key
        self._workspaces: dict[str, Workspace] = {}
        self._names: dict[str, str] = {}
        self._price_groups: dict[str, str] = {}  # of the workspaces that have one
        self._key_price_groups: dict[str, str] = {}  # of the stored keys that have one
        self.file_is_new = True
        """The keys of the file are not in the store yet."""
        self._refreshed_at = time.monotonic()
        self.version = 0
        """The version of the newest known change in the store."""
        self.generation = 0
        """Increases with every change, of the store or of the file: results of earlier look-ups are not valid then."""

    def __len__(self) -> int:
        return len(self._file) + len(self._digests)

    @property
    def file_keys(self) -> KeyRing:
        return self._file

    def use_file_keys(self, keys: KeyRing) -> None:
        self._file = keys
        self.file_is_new = True
        self.generation += 1

    def find(self, secret: str, now: float | None = None) -> Key | None:
        """By its secret. `now` in Unix seconds: checks that a rotated secret is still valid; None: it is not
        checked."""
        return self.find_digest(digest_of(secret), now)

    def find_digest(self, digest: bytes, now: float | None = None) -> Key | None:
        """By the digest of its secret, as `find`."""
        key = self._file.of_digest(digest)
        if key is not None:
            return key
        entry = self._stored.get(digest)
        if entry is None or (entry.until is not None and now is not None and now >= entry.until):
            return None
        return entry.key

    def find_id(self, id: str) -> Key | None:
        """By its id in the database, even if it may not be used."""
        for key in self._file:
            if key.id == id:
                return key
        digests = self._digests.get(id)
        return self._stored[digests[0]].key if digests else None

    def __iter__(self) -> Iterator[Key]:
        """All known keys: those of the file, then those of the store, the last changed first.

        There may be very many: this may run in a thread, and then leaves out changes that are made meanwhile.
        """
        yield from self._file
        for digests in list(reversed(self._digests.values())):
            entry = self._stored.get(digests[0])
            if entry is not None:
                yield entry.key

    def newest(self, key: Key) -> Key:
        """The current version of the key."""
        digests = self._digests.get(key.id)
        found = self._stored[digests[0]].key if digests else self._file.of_digest(key.digest)
        return found if found is not None and found.id == key.id else key

    def stale_reason(self, key: Key) -> GatewayFault | None:
        """The error if the data of a key is too old to be used."""
        if key.id in self._digests and time.monotonic() - self._refreshed_at > self._max_age_s:
            return GatewayFault("ledger_unavailable", "API keys cannot be checked at the moment. Try again later.")
        return None

    def workspace_of(self, key: Key) -> Workspace:
        """The file identifies workspaces by name, the store by id."""
        found = self._workspaces.get(self.workspace_id(key.workspace_id) or "")
        has_store = bool(self._workspaces)
        return found or Workspace(id=key.workspace_id, name=key.workspace_id, is_unresolved=has_store)

    def workspace_name(self, id_or_name: str) -> str:
        """If it is not known, what was given."""
        found = self._workspaces.get(id_or_name)
        return found.name if found is not None else id_or_name

    def workspace_id(self, id_or_name: str | None) -> str | None:
        if id_or_name is None or id_or_name in self._workspaces:
            return id_or_name
        return self._names.get(id_or_name, id_or_name)

    def price_group_of(self, key: Key) -> str | None:
        """Its own, else that of its workspace. None: neither has one."""
        if key.price_group is not None or not self._price_groups:  # for every request
            return key.price_group
        return self._price_groups.get(self.workspace_id(key.workspace_id) or "")

    def price_group_of_workspace(self, workspace_id: str) -> str | None:
        return self._price_groups.get(workspace_id)

    def price_groups(self) -> set[str]:
        """The names of all price groups that keys and workspaces of the store have."""
        return {*self._key_price_groups.values(), *self._price_groups.values()}

    def apply(self, changes: Changes) -> list[Key]:
        """Applies changes of the store. Returns the keys that are revoked or suspended."""
        self._refreshed_at = time.monotonic()
        if changes.version < self.version:  # another database, or an older state of it: everything is replaced
            self._stored.clear()
            self._digests.clear()
            self._workspaces.clear()
            self._names.clear()
            self._price_groups.clear()
            self._key_price_groups.clear()
        if changes.version != self.version or changes.keys or changes.workspaces:
            self.generation += 1
        self.version = changes.version
        for workspace in changes.workspaces:
            before = self._workspaces.get(workspace.id)
            if before is not None and self._names.get(before.name) == workspace.id:  # else another has this name now
                del self._names[before.name]
            self._names[workspace.name] = workspace.id
            self._workspaces[workspace.id] = Workspace(
                id=workspace.id,
                name=workspace.name,
                prepaid=workspace.prepaid,
                granted=workspace.granted,
                price_group=workspace.price_group,
            )
            self._price_groups.pop(workspace.id, None)
            if workspace.price_group is not None:
                self._price_groups[workspace.id] = workspace.price_group
        for state in changes.keys:
            self._put(state)
        return [key for key in (state.key for state in changes.keys) if key.revoked_at is not None or key.is_suspended]

    def _put(self, state: KeyState) -> None:
        key = state.key
        for digest in self._digests.pop(key.id, ()):
            self._stored.pop(digest, None)
        self._key_price_groups.pop(key.id, None)
        if key.price_group is not None and key.revoked_at is None:
            self._key_price_groups[key.id] = key.price_group
        for digest, until in state.digests.items():
            self._stored[digest] = _Entry(key, until)
        self._digests[key.id] = tuple(state.digests)
