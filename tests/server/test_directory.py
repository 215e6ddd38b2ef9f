"""The directory: a key is found by its id whatever its secret, and all that are known can be gone through."""

import pytest
from msgspec import structs

from streamweir.policy.access import Key, KeyRing, digest_of
from streamweir.server.accounting.keys import KeyDirectory
from streamweir.store.keys.changes import Changes, KeyState, WorkspaceState

OF_FILE = Key(name="filed", id="file:filed", digest=digest_of("filed"))
STORED = Key(name="stored", id="k1", digest=digest_of("new"))
REVOKED = Key(name="gone", id="k2", digest=digest_of("gone"), revoked_at=1.0)


def directory() -> KeyDirectory:
    made = KeyDirectory(KeyRing([OF_FILE]))
    states = (
        KeyState(key=STORED, digests={digest_of("new"): None, digest_of("old"): 5.0}),
        KeyState(key=REVOKED, digests={REVOKED.digest: None}),
    )
    made.apply(Changes(version=1, keys=states))
    return made


def test_by_its_id() -> None:
    known = directory()
    assert [known.find_id(id) for id in ("file:filed", "k1", "k2", "k3", "")] == [OF_FILE, STORED, REVOKED, None, None]
    known.use_file_keys(KeyRing([]))
    assert known.find_id("file:filed") is None


def test_each_key_is_there_once_and_what_changed_last_comes_first() -> None:
    known = directory()
    assert list(known) == [OF_FILE, REVOKED, STORED]
    changed = structs.replace(STORED, name="changed")
    known.apply(Changes(version=2, keys=(KeyState(key=changed, digests={STORED.digest: None}),)))
    assert list(known) == [OF_FILE, changed, REVOKED]


@pytest.mark.parametrize("first", [0, 1])
def test_a_name_that_another_workspace_takes_over_stays_known(first: int) -> None:
    known = KeyDirectory(KeyRing([]))

    def named(one: str, two: str) -> list[WorkspaceState]:
        return [
            WorkspaceState(id=id, name=name, prepaid=False, granted=0) for id, name in (("ws_1", one), ("ws_2", two))
        ]

    known.apply(Changes(version=1, workspaces=tuple(named("team", "new"))))
    renamed = named("old", "team")
    known.apply(Changes(version=3, workspaces=(renamed[first], renamed[1 - first])))
    assert [known.workspace_id(name) for name in ("team", "old", "new")] == ["ws_2", "ws_1", "new"]


def test_changes_during_an_iteration_are_left_out() -> None:
    known = directory()
    seen = iter(known)
    assert [next(seen), next(seen)] == [OF_FILE, REVOKED]
    rotated = structs.replace(STORED, digest=digest_of("newest"))
    more = structs.replace(STORED, id="k3", digest=digest_of("more"))
    states = (KeyState(key=rotated, digests={rotated.digest: None}), KeyState(key=more, digests={more.digest: None}))
    known.apply(Changes(version=2, keys=states))
    assert list(seen) == []
    assert list(known) == [OF_FILE, more, rotated, REVOKED]
