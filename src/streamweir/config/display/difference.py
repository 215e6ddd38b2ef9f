"""What differs between two configurations, setting by setting, with secrets masked.

Entries of lists are compared by their names, if they have some. What an added table has by default is not told. Pure.
"""

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import NODEFAULT, Struct, structs

from streamweir.config.display.mask import Masks
from streamweir.config.display.setting import Setting, name_of, walk
from streamweir.config.model import Config
from streamweir.config.toml import value_text
from streamweir.core.text import cut

MAX_CHANGES = 100
_MAX_LENGTH = 200
FOR_RESTART = (
    *(f"server.{name}" for name in ("listen", "health_listen", "node", "tls", "log")),
    *("store.url", "shared.url"),
)
"""Settings, and tables of settings, that are used at a start alone."""


class Change(Struct, frozen=True, kw_only=True):
    path: str
    what: Literal["added", "removed", "changed", "moved"]
    """`moved`: the entries of a list have another order."""
    before: str
    """TOML; empty if it is new."""
    after: str
    needs_restart: bool


class Difference(Struct, frozen=True, kw_only=True):
    changes: list[Change]
    more: int
    """Changes that are left out because there are too many."""
    for_restart: list[str]
    """Settings of all changes that a reload does not use."""


def difference(before: Config, after: Config) -> Difference:
    if before == after:
        return Difference(changes=[], more=0, for_restart=[])
    masks = Masks(before, after)
    one, other = _parts_that_differ(before, after)
    changes = list(_changes(_settings(one, masks), _settings(other, masks), masks))
    changes += _moves(_orders(before, masks), _orders(after, masks))
    names = (_name_for_restart(each.path) for each in changes)
    return Difference(
        changes=changes[:MAX_CHANGES],
        more=max(0, len(changes) - MAX_CHANGES),
        for_restart=list(dict.fromkeys(name for name in names if name is not None)),
    )


def _parts_that_differ(before: Config, after: Config) -> tuple[Config, Config]:
    """Without entries of lists that are in both: there may be thousands of keys, and one that has changed."""
    lists: list[dict[str, Any]] = [{}, {}]
    for name in Config.__struct_fields__:
        one, other = getattr(before, name), getattr(after, name)
        if isinstance(one, tuple):
            found, others = ({name_of(each): each for each in entries} for entries in (one, other))
            lists[0][name] = tuple(each for each in one if others.get(name_of(each)) != each)
            lists[1][name] = tuple(each for each in other if found.get(name_of(each)) != each)
    return structs.replace(before, **lists[0]), structs.replace(after, **lists[1])


def _changes(before: dict[str, Setting], after: dict[str, Setting], masks: Masks) -> Iterator[Change]:
    for path in after | before:  # what is gone comes last
        old, new = before.get(path), after.get(path)
        if not _differ(old, new):
            continue
        was, now = (cut(masks.shown(each).toml, _MAX_LENGTH) if each is not None else "" for each in (old, new))
        yield Change(
            path=path,
            what="changed" if was and now else "added" if now else "removed",
            before=was,
            after=now,
            needs_restart=_name_for_restart(path) is not None,
        )


def _moves(before: dict[str, list[str]], after: dict[str, list[str]]) -> Iterator[Change]:
    for path in before:
        names, others = before[path], after[path]
        was, now = [each for each in names if each in others], [each for each in others if each in names]
        if was != now:
            texts = [cut(value_text(each), _MAX_LENGTH) for each in (was, now)]
            yield Change(path=path, what="moved", before=texts[0], after=texts[1], needs_restart=False)


def _settings(config: Config, masks: Masks) -> dict[str, Setting]:
    return {each.path: each for each in walk(config, masks.text) if isinstance(each, Setting)}


def _differ(one: Setting | None, other: Setting | None) -> bool:
    if one is not None and other is not None:
        return bool(one.value != other.value)
    there = one or other
    return there is not None and (there.default is NODEFAULT or there.value != there.default)


def _orders(config: Config, masks: Masks) -> dict[str, list[str]]:
    """The names of the entries of each list of tables."""
    lists = {name: getattr(config, name) for name in Config.__struct_fields__}
    entries = {name: each for name, each in lists.items() if isinstance(each, tuple)}
    return {name: [masks.text(name_of(each)) for each in found] for name, found in entries.items()}


def _name_for_restart(path: str) -> str | None:
    return next((name for name in FOR_RESTART if path == name or path.startswith(f"{name}.")), None)
