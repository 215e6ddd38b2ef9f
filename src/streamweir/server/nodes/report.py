"""What a process says about the health of its targets and of the credentials (API keys) of its providers.

    Router -> Report -> text -> the database -> text -> Report, by any process

Only what is of interest is listed: a candidate that is not in a report is healthy. A report has no text of a provider:
an error is a code of the gateway (`core.errors`), and a credential has its name. Times are ages and remaining times,
not moments, so that no two clocks are compared. A text is bounded: what does not fit is counted, and healthy candidates
are left out first.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Literal, TypeVar, get_args

import msgspec
from msgspec import Struct

from streamweir.core.errors import CODES
from streamweir.policy.routing.credentials import CredentialPool
from streamweir.policy.routing.health import Candidate, Health, State
from streamweir.policy.routing.router import Router
from streamweir.store.journal.entries import plain

FORMAT = 1
"""A report in another format is not read."""
MAX_BYTES = 131_072
MAX_UNROUTED = 200
"""Targets whose names callers have chosen: those that failed last."""
_MAX_NAME_LENGTH = 256
_END_STEP_S = 5.0
"""Ends of pauses that differ by less are the same."""
_MAX_AGE_MS = 10 * 365 * 86_400_000

Word = Literal["well", "probation", "away"]
WORDS: dict[State, Word] = {State.HEALTHY: "well", State.PROBING: "probation", State.UNAVAILABLE: "away"}
SEVERITY: dict[Word, int] = {word: number for number, word in enumerate(get_args(Word))}


class TargetReport(Struct, frozen=True, array_like=True):
    """A target with one of the credentials of its provider."""

    provider: str
    model: str
    credential: str
    """Empty: the provider has only one."""
    is_routed: bool
    """A route names it: no caller has made it up."""
    state: Word
    is_limited: bool
    """It is `away` only because the provider asked for a pause."""
    away_ms: int
    """The remaining time."""
    ttft_ms: int | None
    ejections: int
    running: int
    error: str | None
    """The code of the last failure."""
    error_age_ms: int


class CredentialReport(Struct, frozen=True, array_like=True):
    provider: str
    name: str
    state: Word
    away_ms: int
    ejections: int
    error: str | None
    """The code with which the provider refused it last."""
    error_age_ms: int


class Report(Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    version: str
    """Of the gateway."""
    requests: int
    """That are running."""
    targets: list[TargetReport]
    """The worst first."""
    credentials: list[CredentialReport]
    left_out: int = 0
    """So many of both did not fit."""


class _Format(Struct):
    format: int = 0


E = TypeVar("E", TargetReport, CredentialReport)


def report_of(router: Router, now: float, version: str, requests: int) -> Report:
    """What is known now. Nothing that is known is left out, but for targets of callers."""
    unrouted: deque[tuple[Candidate, Health]] = deque(maxlen=MAX_UNROUTED)
    targets = []
    for candidate, health, is_routed in router.known():
        if not is_routed:
            unrouted.append((candidate, health))
        elif not health.is_unknown or _is_refused(router, candidate, now):
            targets.append(_target(router, candidate, health, now, is_routed))
    targets += [_target(router, candidate, health, now, False) for candidate, health in unrouted]
    return Report(
        version=version,
        requests=requests,
        targets=sorted(targets, key=_rank),
        credentials=[entry for pool in router.pools.values() for entry in _credentials(pool, now)],
    )


def _is_refused(router: Router, candidate: Candidate, now: float) -> bool:
    pool = router.pools.get(candidate.target.provider)
    return pool is not None and pool.state(candidate.credential, now) is not State.HEALTHY


def _target(router: Router, candidate: Candidate, health: Health, now: float, is_routed: bool) -> TargetReport:
    return TargetReport(
        provider=plain(candidate.target.provider),
        model=plain(candidate.target.model),
        credential=plain(candidate.credential),
        is_routed=is_routed,
        state=WORDS[router.state_of(candidate, health, now)],
        is_limited=health.is_limited(now) and not _is_refused(router, candidate, now),
        away_ms=_ms(router.wait_of(candidate, health, now)),
        ttft_ms=_ms(health.ttft_s) if health.ttft_s is not None else None,
        ejections=health.times_ejected,
        running=health.running,
        error=health.error,
        error_age_ms=_ms(now - health.failed_at) if health.error is not None else 0,
    )


def _credentials(pool: CredentialPool, now: float) -> Iterator[CredentialReport]:
    for each, health in pool.known():
        if health.error is not None or health.times_ejected:
            yield CredentialReport(
                provider=plain(pool.provider),
                name=plain(each.name),
                state=WORDS[pool.state(each.name, now)],
                away_ms=_ms(pool.remaining_s(each.name, now)),
                ejections=health.times_ejected,
                error=health.error,
                error_age_ms=_ms(now - health.refused_at) if health.error is not None else 0,
            )


def _rank(entry: TargetReport) -> tuple[int, bool, int]:
    """The worst first; of those that do well, targets of routes and the last failures."""
    return -SEVERITY[entry.state], not entry.is_routed, entry.error_age_ms if entry.error else _MAX_AGE_MS


def _ms(seconds: float) -> int:
    return _within(round(1000 * seconds))


def _within(milliseconds: int) -> int:
    return min(max(milliseconds, 0), _MAX_AGE_MS)


def news_of(report: Report, now: float) -> frozenset[tuple[object, ...]]:
    """What of a report is passed on at once: states and failures, and not latencies and numbers of requests."""

    def end_of(entry: TargetReport | CredentialReport) -> int:
        """Of a pause, which may be prolonged."""
        return round((now + entry.away_ms / 1000) / _END_STEP_S) if entry.away_ms else 0

    targets = (
        (each.provider, each.model, each.credential, each.state, each.is_limited, end_of(each), each.error)
        for each in report.targets
        if each.state != "well" or each.error is not None
    )
    credentials = ((each.provider, each.name, each.state, end_of(each), each.error) for each in report.credentials)
    return frozenset((*targets, *credentials))


def counts_of(report: Report) -> tuple[object, ...]:
    """What is passed on less often."""
    targets = ((each.provider, each.model, each.credential, each.ttft_ms, each.running) for each in report.targets)
    return report.requests, frozenset(targets)


def encode_report(report: Report, max_bytes: int = MAX_BYTES) -> str:
    """Entries that do not fit are left out, from the end; those of credentials last."""
    encoder, room = msgspec.json.Encoder(), max_bytes
    credentials, room = _fitting(encoder, report.credentials, room)
    named = (each for each in report.targets if max(len(each.model), len(each.provider)) <= _MAX_NAME_LENGTH)
    targets, room = _fitting(encoder, named, room)
    left_out = len(report.credentials) - len(credentials) + len(report.targets) - len(targets)
    fitting = msgspec.structs.replace(report, credentials=credentials, targets=targets, left_out=left_out)
    return encoder.encode(fitting).decode()


def _fitting(encoder: msgspec.json.Encoder, entries: Iterable[E], room: int) -> tuple[list[E], int]:
    fitting: list[E] = []
    for entry in entries:
        room -= len(encoder.encode(entry)) + 1
        if room < 0:
            break
        fitting.append(entry)
    return fitting, room


def decode_report(text: str, age_ms: int) -> Report | None:
    """As it is `age_ms` after it was written. None: it is in another format, or broken."""
    try:
        if msgspec.json.decode(text, type=_Format).format != FORMAT:
            return None
        report = msgspec.json.decode(text, type=Report)
    except (msgspec.DecodeError, RecursionError):
        return None
    return msgspec.structs.replace(
        report,
        targets=[_aged_target(each, age_ms) for each in report.targets],
        credentials=[_aged_credential(each, age_ms) for each in report.credentials],
    )


def _aged_target(entry: TargetReport, age_ms: int) -> TargetReport:
    return msgspec.structs.replace(
        entry,
        state=_aged_state(entry.state, entry.away_ms, age_ms, after="well" if entry.is_limited else "probation"),
        away_ms=_within(entry.away_ms - age_ms),
        error=entry.error if entry.error in CODES else None,
        error_age_ms=_within(entry.error_age_ms + age_ms),
    )


def _aged_credential(entry: CredentialReport, age_ms: int) -> CredentialReport:
    return msgspec.structs.replace(
        entry,
        state=_aged_state(entry.state, entry.away_ms, age_ms, after="probation"),
        away_ms=_within(entry.away_ms - age_ms),
        error=entry.error if entry.error in CODES else None,
        error_age_ms=_within(entry.error_age_ms + age_ms),
    )


def _aged_state(state: Word, away_ms: int, age_ms: int, *, after: Word) -> Word:
    """A wait that is over by now is."""
    return after if state == "away" and away_ms <= age_ms else state
