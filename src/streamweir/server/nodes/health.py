"""The health of targets and credentials over the processes of all nodes, from their reports.

A target is as well as its best credential, in one process. Over all processes the worst state is shown, with the number
of the processes that have it: some requests meet it. A process without a readable report counts as one that is not
known, and not as one in which everything is healthy.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from streamweir.policy.routing.health import Candidate, TargetId
from streamweir.server.nodes.report import SEVERITY, CredentialReport, Report, TargetReport, Word, decode_report
from streamweir.store.requests.health_reports import ReportRow

Key = tuple[str, str]
"""Names of a provider, and of a model or a credential of it."""


class ProcessReport(Struct, kw_only=True):
    """A process that is alive, and what it has reported."""

    instance: str
    node: str
    started_ms: int | None
    reported_ms: int | None
    report: Report | None


class Health(Struct, frozen=True, kw_only=True):
    """Of a target or a credential, over several processes or in one."""

    state: Word = "well"
    """The worst of them."""
    is_limited: bool = False
    away_ms: int = 0
    """Until the last of them has it again."""
    ttft_ms: int | None = None
    """The mean."""
    ejections: int = 0
    running: int = 0
    error: str | None = None
    """The newest."""
    error_age_ms: int = 0
    processes: int = 1
    away: int = 0
    """Processes in which it is `away`."""
    probation: int = 0


_WELL = Health()


class _Process:
    """One report, by names."""

    def __init__(self, report: Report) -> None:
        self.targets: dict[Key, dict[str, TargetReport]] = {}
        for each in report.targets:
            self.targets.setdefault((each.provider, each.model), {})[each.credential] = each
        self.credentials = {(each.provider, each.name): each for each in report.credentials}

    def candidate(self, provider: str, model: str, credential: str) -> Health:
        found = self.targets.get((provider, model), {}).get(credential)
        return health_of_target(found) if found is not None else self.credential(provider, credential, is_counted=False)

    def credential(self, provider: str, name: str, *, is_counted: bool = True) -> Health:
        found = self.credentials.get((provider, name))
        if found is None:
            return _WELL
        return health_of_credential(found) if is_counted else _alone(found.state, away_ms=found.away_ms)


class Nodes:
    """What is known of all processes that are alive."""

    def __init__(self, processes: Sequence[ProcessReport]) -> None:
        self.processes = processes
        self._known = [_Process(each.report) for each in processes if each.report is not None]

    @property
    def unknown(self) -> int:
        """Processes without a report: of an older version, or just started."""
        return len(self.processes) - len(self._known)

    def target(self, provider: str, model: str, credentials: Iterable[str]) -> Health:
        """With the best of these credentials in each process."""
        names = list(credentials) or [""]
        return _over([_best([each.candidate(provider, model, name) for name in names]) for each in self._known])

    def credential(self, provider: str, name: str) -> Health:
        return _over([each.credential(provider, name) for each in self._known])

    def candidates(self) -> dict[Candidate, None]:
        """Every target that some process has reported, with its credential. Those that are not healthy first."""
        found = [
            (entry.state == "well", number, entry)
            for process in self._known
            for number, entries in enumerate(process.targets.values())
            for entry in entries.values()
        ]
        ordered = sorted(found, key=lambda each: each[:2])
        return {Candidate(TargetId(each.provider, each.model), each.credential): None for _, _, each in ordered}


def health_of_target(entry: TargetReport) -> Health:
    return _alone(
        entry.state,
        is_limited=entry.is_limited,
        away_ms=entry.away_ms,
        ttft_ms=entry.ttft_ms,
        ejections=entry.ejections,
        running=entry.running,
        error=entry.error,
        error_age_ms=entry.error_age_ms,
    )


def health_of_credential(entry: CredentialReport) -> Health:
    return _alone(
        entry.state,
        away_ms=entry.away_ms,
        ejections=entry.ejections,
        error=entry.error,
        error_age_ms=entry.error_age_ms,
    )


def _alone(state: Word, **more: object) -> Health:
    return Health(state=state, away=int(state == "away"), probation=int(state == "probation"), **more)  # type: ignore[arg-type]


def _best(found: list[Health]) -> Health:
    """Of the credentials of a target, in one process."""
    if len(found) == 1:
        return found[0]
    best = min(found, key=lambda each: (SEVERITY[each.state], each.away_ms))
    return _summed(found, best, min(each.away_ms for each in found), [best])


def _over(found: list[Health]) -> Health:
    """Of several processes."""
    if len(found) <= 1:
        return found[0] if found else Health(processes=0)
    worst = max(found, key=lambda each: (SEVERITY[each.state], not each.is_limited))
    return _summed(found, worst, max(each.away_ms for each in found), found)


def _summed(found: list[Health], shown: Health, away_ms: int, counted: list[Health]) -> Health:
    latencies = [each.ttft_ms for each in found if each.ttft_ms is not None]
    failed = [each for each in found if each.error is not None]
    last = min(failed, key=lambda each: each.error_age_ms, default=_WELL)
    return Health(
        state=shown.state,
        is_limited=shown.is_limited,
        away_ms=away_ms,
        ttft_ms=round(sum(latencies) / len(latencies)) if latencies else None,
        ejections=sum(each.ejections for each in found),
        running=sum(each.running for each in found),
        error=last.error,
        error_age_ms=last.error_age_ms,
        processes=sum(each.processes for each in counted),
        away=sum(each.away for each in counted),
        probation=sum(each.probation for each in counted),
    )


def processes_of(rows: Iterable[ReportRow]) -> list[ProcessReport]:
    return [
        ProcessReport(
            instance=row.instance,
            node=row.node,
            started_ms=row.started_ms,
            reported_ms=row.at_ms,
            report=decode_report(row.report, row.age_ms) if row.report is not None else None,
        )
        for row in rows
    ]
