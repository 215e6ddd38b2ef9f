"""What was measured: every figure of every round, and what can be said of them.

A figure is the median of its rounds, with the least beside it. A ratio is the median of the
ratios within a round, because what disturbs a round disturbs all systems in it. A system may lack
a scenario, and one scenario may have more rounds than another: only rounds that both sides of a
ratio have are compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.system import STREAMWEIR, WITHOUT_BOOKS

YARDSTICK = "nginx"
DIRECT = "direct"

FIRST_TEXT, ADDED = "first_text.first_text_us", "first_text.added_us"
PASSED, SHORT = "passed.chunk_cpu_us", "short.request_cpu_us"


@dataclass
class Record:
    """`values[system][figure]` is a list with one number per round."""

    versions: Mapping[str, str]
    cores: tuple[int, int]
    values: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, system: str, scenario: str, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self.values.setdefault(system, {}).setdefault(f"{scenario}.{name}", []).append(value)

    def add_differences(self) -> None:
        """What a system adds to the time that the provider alone takes, round by round."""
        for system in self.versions:
            for through, alone in self.rounds((system, FIRST_TEXT), (DIRECT, FIRST_TEXT)):
                self.values[system].setdefault(ADDED, []).append(through - alone)

    def of(self, system: str, figure: str) -> list[float]:
        return self.values.get(system, {}).get(figure, [])

    def rounds(self, *wanted: tuple[str, str]) -> list[tuple[float, ...]]:
        """These figures of these systems, side by side, for as many rounds as all of them have."""
        return list(zip(*(self.of(system, figure) for system, figure in wanted), strict=False))

    def ratio(self, ours: tuple[str, str], theirs: tuple[str, str]) -> float | None:
        """Of one system's figure to another's, within the rounds; none where a side is missing or nothing."""
        ratios = [our / their for our, their in self.rounds(ours, theirs) if their]
        return median(ratios) if ratios else None

    def middle(self, system: str, figure: str) -> float | None:
        values = self.of(system, figure)
        return median(values) if values else None

    def systems(self) -> list[str]:
        """Those with figures, in the order in which they were started; without a gateway at all comes first."""
        return [system for system in (DIRECT, *self.versions) if system in self.values]

    def books(self) -> tuple[float, float] | None:
        """What accounting adds to a short request, and how many of the yardstick's whole requests that is."""
        rounds = self.rounds((STREAMWEIR, SHORT), (WITHOUT_BOOKS, SHORT), (YARDSTICK, SHORT))
        if not rounds:
            return None
        return median(ours - plain for ours, plain, _ in rounds), median((o - p) / theirs for o, p, theirs in rounds)

    def noise(self) -> float:
        """The share of its core that the system under test did not get, at worst."""
        shares: Sequence[float] = [
            share
            for figures in self.values.values()
            for name, each in figures.items()
            if name.endswith(".others")
            for share in each
        ]
        return max(shares, default=0.0)

    def count(self) -> int:
        return max((len(values) for figures in self.values.values() for values in figures.values()), default=0)
