"""How often logins to the console and secrets at the API were taken and refused, for the metrics, without any names."""

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum

from prometheus_client.metrics_core import Metric

from streamweir.server.telemetry.metric_families import counter


class LoginOutcome(StrEnum):
    OPENED = "opened"
    WRONG = "wrong"
    LIMITED = "limited"
    """Not compared, or not counted as a try: there were too many before."""


class LoginCounts:
    def __init__(self) -> None:
        self._counts: Counter[LoginOutcome] = Counter(dict.fromkeys(LoginOutcome, 0))

    def count(self, outcome: LoginOutcome) -> None:
        self._counts[outcome] += 1

    def families(self) -> Iterator[Metric]:
        about = "Sessions opened in the console; wrong secrets, passwords and invitations; attempts beyond the limits."
        yield counter("logins", about, ("outcome",), {(outcome.value,): n for outcome, n in self._counts.items()})
