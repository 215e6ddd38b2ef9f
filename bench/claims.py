"""The claims about the gateway with everything on, and whether a record confirms them.

Each claim names its figures and the limit that none of them may exceed. If one figure exceeds the limit, the claim is
not kept; if one is missing and no other exceeds it, the claim is not measured. Figures are not rounded before they are
compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bench.record import ADDED, PASSED, SHORT, YARDSTICK, Record
from bench.system import STREAMWEIR

Figure = Callable[[Record], float | None]


class Verdict(StrEnum):
    KEPT = "met"
    NOT_KEPT = "not met"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Claim:
    what: str
    limit: float
    unit: str
    figures: tuple[Figure, ...]
    is_floor: bool = False
    """The limit is what the figure must reach, and not what it may reach."""


@dataclass(frozen=True)
class ClaimResult:
    claim: Claim
    measured: float | None
    """The worst of the claim's figures."""
    verdict: Verdict

    @property
    def limit(self) -> str:
        return f"{'at least' if self.claim.is_floor else 'at most'} {self.claim.limit:g} {self.claim.unit}"

    @property
    def figure(self) -> str:
        """With at least three digits that count."""
        if self.measured is None:
            return ""
        digits = 0 if self.measured >= 100 else 1 if self.measured >= 10 else 2
        return f"{self.measured:,.{digits}f} {self.claim.unit}"


def own(figure: str, scale: float = 1) -> Figure:
    """A figure as it was measured."""

    def of(record: Record) -> float | None:
        middle = record.middle(STREAMWEIR, figure)
        return None if middle is None else middle * scale

    return of


def against(figure: str, system: str = YARDSTICK, theirs: str | None = None) -> Figure:
    """Ours in theirs."""
    return lambda record: record.ratio((STREAMWEIR, figure), (system, theirs or figure))


def less_than(system: str, figure: str) -> Figure:
    """How many of ours are one of theirs."""
    return lambda record: record.ratio((system, figure), (STREAMWEIR, figure))


def under_load(figure: str) -> tuple[Figure, ...]:
    """As it was beyond the peak."""
    return tuple(own(f"overload.{figure}_{times}") for times in (3, 10))


CLAIMS = (
    Claim("CPU per chunk, lockstep, passed", 2, "x nginx", (against(PASSED),)),
    Claim(
        "CPU per chunk, lockstep, translated openai to openai",
        3,
        "x nginx",
        (against("translated.chunk_cpu_us", theirs=PASSED),),
    ),
    Claim(
        "CPU per chunk, lockstep, Anthropic or Gemini to openai",
        4,
        "x nginx",
        (against("anthropic.chunk_cpu_us", theirs=PASSED), against("gemini.chunk_cpu_us", theirs=PASSED)),
    ),
    Claim(
        "CPU per chunk, lockstep, Messages passed",
        2.2,
        "x nginx",
        (against("messages_passed.chunk_cpu_us", theirs=PASSED),),
    ),
    Claim(
        "CPU per chunk, lockstep, openai to Messages",
        3,
        "x nginx",
        (against("messages.chunk_cpu_us", theirs=PASSED),),
    ),
    Claim(
        "CPU per chunk, lockstep, Responses passed",
        2.2,
        "x nginx",
        (against("responses_passed.chunk_cpu_us", theirs=PASSED),),
    ),
    Claim(
        "CPU per chunk, lockstep, Responses to openai or openai to Responses",
        3.5,
        "x nginx",
        (
            against("from_responses.chunk_cpu_us", theirs=PASSED),
            against("responses.chunk_cpu_us", theirs=PASSED),
        ),
    ),
    Claim(
        "CPU per chunk, lockstep, Bedrock's Converse to openai, or Claude on Bedrock passed or to openai",
        3,
        "x nginx",
        (
            against("converse.chunk_cpu_us", theirs=PASSED),
            against("invoke_passed.chunk_cpu_us", theirs=PASSED),
            against("invoke.chunk_cpu_us", theirs=PASSED),
        ),
    ),
    Claim("CPU per chunk of a resumable stream against another", 1.2, "x", (own("resumable.ratio"),)),
    Claim("CPU per short buffered request", 7, "x nginx", (against(SHORT),)),
    Claim("added time to first token, one stream at a time, median", 0.5, "ms", (own(ADDED, 1e-3),)),
    Claim("memory per open idle stream", 12, "KiB", (own("memory.stream_kib"),)),
    Claim("memory when idle, without the embedded model", 70, "MB", (own("memory.idle_mb"),)),
    Claim("CPU per chunk at 5,000 streams against 100", 1.3, "x", (own("growth.ratio"),)),
    Claim("start to first answer", 1.5, "s", (own("start.first_answer_s"),)),
    Claim(
        "chunks delivered at 1,000 paced streams", 0.95, "x nginx", (against("paced_1000.delivered"),), is_floor=True
    ),
    Claim("goodput at 3 and 10 times the peak", 0.85, "x peak", under_load("goodput"), is_floor=True),
    Claim("time to first token of what is accepted then, p99", 1000, "ms", under_load("accepted_p99_ms")),
    Claim("time to a refusal then, p99", 50, "ms", under_load("refusal_p99_ms")),
    Claim("/health then, p99", 50, "ms", under_load("health_p99_ms")),
    Claim("requests of a quiet key refused then", 0, "", under_load("quiet_refused")),
    Claim("against LiteLLM, CPU per chunk", 60, "times less", (less_than("litellm", PASSED),), is_floor=True),
    Claim("against Portkey, CPU per chunk", 5, "times less", (less_than("portkey", PASSED),), is_floor=True),
)


def judge(record: Record, claims: Sequence[Claim] = CLAIMS) -> list[ClaimResult]:
    return [judge_one(record, claim) for claim in claims]


def judge_one(record: Record, claim: Claim) -> ClaimResult:
    figures = [figure(record) for figure in claim.figures]
    known = [figure for figure in figures if figure is not None]
    if not known:
        return ClaimResult(claim, None, Verdict.NOT_MEASURED)
    worst = min(known) if claim.is_floor else max(known)
    if worst < claim.limit if claim.is_floor else worst > claim.limit:
        return ClaimResult(claim, worst, Verdict.NOT_KEPT)
    return ClaimResult(claim, worst, Verdict.KEPT if len(known) == len(figures) else Verdict.NOT_MEASURED)
