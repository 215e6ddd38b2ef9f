"""How often logins to the console and secrets at the API were taken and refused, for the metrics, without any names."""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum

from prometheus_client.metrics_core import Metric

from streamweir.server.telemetry.metric_families import counter
from streamweir.store.keys.sessions import LoginWay


class LoginOutcome(StrEnum):
    OPENED = "opened"
    WRONG = "wrong"
    LIMITED = "limited"
    """Not compared, or not counted as a try: there were too many before."""


class LoginCounts:
    def __init__(self) -> None:
        pairs = [(way, outcome) for way in LoginWay for outcome in LoginOutcome]
        self._counts: Counter[tuple[LoginWay, LoginOutcome]] = Counter(dict.fromkeys(pairs, 0))

    def count(self, way: LoginWay, outcome: LoginOutcome) -> None:
        self._counts[way, outcome] += 1

    def families(self) -> Iterator[Metric]:
        about = "Sessions opened in the console; wrong secrets, passwords and invitations; attempts beyond the limits."
        values: dict[tuple[str, ...], float] = {(way, outcome): n for (way, outcome), n in self._counts.items()}
        yield counter("logins", about, ("way", "outcome"), values)
