"""What a rule is, and what it finds.

A rule is a value: what it says, why that matters, which document says so, for which dialects it holds
(read off the `Dialect` value), and a pure function that looks at one thing and yields what breaks it.
A rule knows neither files nor sockets nor how a finding is shown. What it cannot tell it does not guess:
`needs` says why a thing gives it nothing to look at, and the rule is then skipped, not held.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Generic, TypeVar

from msgspec import Struct

from streamweir.frontends.chat.dialect import Dialect

Looked = TypeVar("Looked")
"""What a rule looks at: a `Reading` of one recorded answer, or several exchanges together."""

EXCERPT_BYTES = 240


class Severity(StrEnum):
    BROKEN = "broken"
    """A client written to the dialect's document breaks, or loses something."""
    ODD = "odd"
    """Allowed, or ignored by such a client, but surprising."""


class Outcome(StrEnum):
    HOLDS = "holds"
    BROKEN = "broken"
    ODD = "odd"
    SKIPPED = "skipped"


class Violation(Struct, frozen=True):
    """One place where a rule does not hold, as its function yields it."""

    message: str
    excerpt: bytes = b""
    """The bytes that broke it, as they came: foreign, so never shown unescaped."""
    offset: int | None = None
    """Where they begin in the body."""
    frame: int | None = None
    """In which frame of the stream, from 1."""
    answer: str = ""
    """Which answer, where the rule looks at several together."""


class Rule(Struct, Generic[Looked], frozen=True, kw_only=True):
    id: str
    """`group.name`; an interface, like an error code."""
    title: str
    text: str
    """What the rule says."""
    why: str
    source: str
    """What says so: a rule of docs/spec, or a standard."""
    severity: Severity = Severity.BROKEN
    odd_in: Callable[[Dialect], bool] = lambda _: False
    """Where this dialect's own document is silent on it, it is odd there, not broken."""
    holds_for: Callable[[Dialect], bool] = lambda _: True
    value: Callable[[Dialect], str] = lambda _: ""
    """What the rule comes to in this dialect: the word, the form, the place."""
    needs: Callable[[Looked, Dialect], str | None] = lambda _, __: None
    """Why there is nothing to look at here. None: there is."""
    check: Callable[[Looked, Dialect], Iterable[Violation]]

    @property
    def group(self) -> str:
        return self.id.partition(".")[0]

    def severity_in(self, dialect: Dialect) -> Severity:
        return Severity.ODD if self.odd_in(dialect) else self.severity


class Finding(Struct, frozen=True, kw_only=True):
    """A breach, with the rule that it breaks and the answer that it stands in."""

    rule: str
    severity: Severity
    message: str
    answer: str = ""
    """The name of the recording."""
    excerpt: bytes = b""
    offset: int | None = None
    frame: int | None = None


class Verdict(Struct, frozen=True, kw_only=True):
    """What became of one rule."""

    rule: Rule[object]
    outcome: Outcome
    reason: str = ""
    """Why it was skipped."""
    findings: tuple[Finding, ...] = ()
    """The first ones; `count` says how many there were."""
    count: int = 0
