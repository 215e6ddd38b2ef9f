"""Compares a provider's export with what the ledger has: by day, model and key, as far as the export has them.

Both sides are summed up by the same groups, so that the sums of the lines are the sums of the files. Names of models
differ: a provider bills `gpt-4o-2024-08-06` or `Claude Haiku 4.5` where `gpt-4o` or `claude-haiku-4-5` was asked. So
dated versions of a model are one group, and the words of a name count in any order. A difference is reported if it is
larger than the tolerance and than what the provider has rounded. Differences are the provider's amount less the
ledger's: a positive cost is asked for and was not booked. Pure: no clock, no files.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Literal

from msgspec import Struct

from streamweir.policy.billing.exports.base import DAY_MS, Amounts, Export, Zone, day_name, start_of_day

Measure = Literal["cost", "requests", "input_tokens", "cached_tokens", "output_tokens"]
MEASURES: tuple[Measure, ...] = ("cost", "requests", "input_tokens", "cached_tokens", "output_tokens")
_VERSION = re.compile(
    r"[-@ ](?:20\d\d-?\d\d-?\d\d|\d\d-\d\d|\d\d-20\d\d|00\d|latest|preview|exp|experimental)(?=$|[-@ ])"
)
_WORD = re.compile(r"[a-z0-9]+")
_KINDS = frozenset({"lite", "pro", "flash", "nano", "ultra", "live", "tts", "embedding", "8b", "mini"})
"""Words of which a SKU has none that its model does not have."""


class Usage(Struct, frozen=True, kw_only=True):
    """What the ledger has of one hour, by the provider's model and our credential."""

    at_ms: int
    model: str
    credential: str
    requests: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: int
    uncosted: int
    """Requests whose cost is not known, which are not in `cost`."""


class Line(Struct, frozen=True, kw_only=True):
    """One amount of one group."""

    day: str
    """`2026-11-18`, or `2026-11-01..2026-11-30` if the export is not by day. Empty: the sum of all."""
    model: str | None
    """None: of all; so is the key."""
    key: str | None
    what: Measure
    provider: int
    ledger: int
    difference: int
    percent: float | None
    """Of the ledger's amount. None: the ledger has nothing."""
    differs: bool


class Reconciliation(Struct, frozen=True, kw_only=True):
    lines: list[Line]
    totals: list[Line]
    notes: list[str]

    @property
    def differs(self) -> bool:
        return any(line.differs for line in (*self.lines, *self.totals))


class Group(Struct, frozen=True):
    day: str
    model: str | None
    key: str | None


class _Sums(Struct):
    provider: dict[Measure, int]
    ledger: dict[Measure, int]
    rounding: int = 0


def words_of(model: str) -> tuple[str, ...]:
    """The form in which names of models are compared: without dates and versions, the words in order."""
    name = model.lower().rpartition("/")[2]
    while (shorter := _VERSION.sub("", name)) != name:
        name = shorter
    return tuple(sorted(_WORD.findall(name)))


class ModelNames:
    """The names under which models are compared: those of the ledger, where it has them."""

    def __init__(self, known: Iterable[str], renamed: Mapping[str, str]) -> None:
        """`renamed`: by the operator, from the provider's name."""
        self._renamed = renamed
        self._names: dict[tuple[str, ...], str] = {}
        for name in sorted(known, key=lambda name: (len(name), name)):
            self._names.setdefault(words_of(name), name)
        self._found: dict[str, str] = {}

    def name_of(self, model: str) -> str:
        found = self._found.get(model)
        if found is None:
            found = self._found[model] = self._find(self._renamed.get(model, model))
        return found

    def _find(self, model: str) -> str:
        words = words_of(model)
        if words in self._names:
            return self._names[words]
        within = [known for known in self._names if set(known) <= set(words) and not (set(words) - set(known)) & _KINDS]
        if not within or "gemini" not in words:  # the names of others are exact
            return self._names.setdefault(words, model)
        return self._names[max(within, key=len)]


def compare(
    export: Export,
    usage: Sequence[Usage],
    *,
    models: Mapping[str, str],
    keys: Mapping[str, str],
    tolerance_percent: float,
) -> Reconciliation:
    """`usage`: of the period of the export (`period_of`). `models`, `keys`: the operator's names for the export's."""
    notes = list(export.notes)
    names = ModelNames({each.model for each in usage}, models)
    days = _Days(export)
    has_models = any(row.model is not None for row in export.rows)
    has_keys = _has_keys(export, usage, keys, notes)
    measures = _measures(export)
    groups: dict[Group, _Sums] = {}

    def sums_of(day: str, model: str | None, key: str | None) -> _Sums:
        name = names.name_of(model or "unknown") if has_models else None
        group = Group(day, name, (key or "") if has_keys else None)
        return groups.setdefault(group, _Sums(dict.fromkeys(measures, 0), dict.fromkeys(measures, 0)))

    for each in usage:
        _add(sums_of(days.name_of(each.at_ms), each.model, each.credential).ledger, each)
    for row in export.rows:
        key = keys.get(row.key, row.key) if row.key is not None else None
        sums = sums_of(days.name_of(row.start_ms), row.model, key)
        _add(sums.provider, row.amounts)
        sums.rounding += row.amounts.rounding
    uncosted = sum(each.uncosted for each in usage)
    if uncosted and "cost" in measures:
        notes.append(f"The cost of {uncosted:,} requests in the ledger is not known: their models have no price.")
    tolerance = Fraction(str(tolerance_percent)) / 100  # exact: tokens can be more than a float is
    lines = [
        _line(group, sums, what, tolerance) for group, sums in sorted(groups.items(), key=_order) for what in measures
    ]
    totals = [_line(Group("", None, None), _total(groups.values()), what, tolerance) for what in measures]
    return Reconciliation(lines=lines, totals=totals, notes=notes)


def period_of(export: Export) -> tuple[int, int]:
    """Whole days, in the zone of the export, in Unix milliseconds."""
    first = min(row.start_ms for row in export.rows)
    end = max(row.end_ms for row in export.rows)
    noon_after = start_of_day(end - 1, export.zone) + DAY_MS + DAY_MS // 2  # a day can have 23 or 25 hours
    return start_of_day(first, export.zone), start_of_day(noon_after, export.zone)


class _Days:
    """The days by which an export is compared: if one of its rows is of several, it is one period."""

    def __init__(self, export: Export) -> None:
        self._zone: Zone = export.zone
        start_ms, end_ms = period_of(export)
        self._period: str | None = None
        if any(day_name(row.start_ms, self._zone) != day_name(row.end_ms - 1, self._zone) for row in export.rows):
            self._period = f"{day_name(start_ms, self._zone)}..{day_name(end_ms - 1, self._zone)}"

    def name_of(self, at_ms: int) -> str:
        return self._period or day_name(at_ms, self._zone)


def _has_keys(export: Export, usage: Sequence[Usage], keys: Mapping[str, str], notes: list[str]) -> bool:
    if all(row.key is None for row in export.rows):
        if any(each.credential for each in usage):
            notes.append("The file has no keys: the credentials of the ledger are summed up.")
        return False
    if keys or any(each.credential for each in usage):
        return True
    notes.append("The ledger names no credentials: the keys of the file are summed up.")
    return False


def _measures(export: Export) -> list[Measure]:
    """Those that every row of the export has."""
    return [what for what in MEASURES if all(getattr(row.amounts, what) is not None for row in export.rows)]


def _order(group: tuple[Group, _Sums]) -> tuple[str, str, str]:
    return group[0].day, group[0].model or "", group[0].key or ""


def _add(sums: dict[Measure, int], amounts: Amounts | Usage) -> None:
    for what in sums:
        sums[what] += getattr(amounts, what)


def _total(groups: Iterable[_Sums]) -> _Sums:
    total = _Sums({}, {})
    for sums in groups:
        for mine, more in ((total.provider, sums.provider), (total.ledger, sums.ledger)):
            for what, amount in more.items():
                mine[what] = mine.get(what, 0) + amount
        total.rounding += sums.rounding
    return total


def _line(group: Group, sums: _Sums, what: Measure, tolerance: Fraction) -> Line:
    provider, ledger = sums.provider[what], sums.ledger[what]
    difference = provider - ledger
    allowed = max(abs(provider), abs(ledger)) * tolerance
    return Line(
        day=group.day,
        model=group.model,
        key=group.key,
        what=what,
        provider=provider,
        ledger=ledger,
        difference=difference,
        percent=round(difference / ledger * 100, 2) if ledger else None,
        differs=abs(difference) > allowed + (sums.rounding if what == "cost" else 0),
    )
