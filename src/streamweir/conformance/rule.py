"""The types of rules, violations, findings and verdicts.

A rule is a value: its text, its reason, its source, the dialects that it applies to (derived from the `Dialect`
value), and a pure function that checks one subject and yields its violations. A rule knows neither files nor sockets
nor how a finding is shown. If a subject does not contain what the rule needs, `skip_reason` returns why; the rule is
then skipped and does not count as holding.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, Generic, TypeVar

from msgspec import Struct

Subject = TypeVar("Subject")
"""What a rule checks: a `ParsedAnswer`, or a `ProbeSession` with all its exchanges."""

Form = TypeVar("Form")
"""What the rule is derived from: a `Dialect` of chat completions, or the `MessagesApi`."""

EXCERPT_BYTES = 240


class Severity(StrEnum):
    BROKEN = "broken"
    """A client written to the dialect's document breaks, or loses something."""
    ODD = "odd"
    """Allowed, or ignored by such a client, but unusual."""


class Outcome(StrEnum):
    HOLDS = "holds"
    BROKEN = "broken"
    ODD = "odd"
    SKIPPED = "skipped"


class Violation(Struct, frozen=True):
    """One violation of a rule, as its function yields it."""

    message: str
    excerpt: bytes = b""
    """The bytes that broke it, as received. They are untrusted and must be escaped when they are shown."""
    offset: int | None = None
    """Their offset in the body."""
    frame: int | None = None
    """The number of the frame, from 1."""
    answer: str = ""
    """The name of the answer, if the rule checks several."""


class Rule(Struct, Generic[Subject, Form], frozen=True, kw_only=True):
    id: str
    """`group.name`; an interface, like an error code."""
    title: str
    text: str
    """The requirement."""
    why: str
    source: str
    """A rule of docs/spec, or a standard."""
    severity: Severity = Severity.BROKEN
    odd_in: Callable[[Form], bool] = lambda _: False
    """Dialects whose own document does not mention it: a violation is odd there, not broken."""
    applies_to: Callable[[Form], bool] = lambda _: True
    value: Callable[[Form], str] = lambda _: ""
    """The value that the rule requires in this dialect: a word, a form or a position."""
    skip_reason: Callable[[Subject, Form], str | None] = lambda _, __: None
    """Why the subject cannot be checked. None if it can."""
    check: Callable[[Subject, Form], Iterable[Violation]]

    @property
    def group(self) -> str:
        return self.id.partition(".")[0]

    def severity_in(self, form: Form) -> Severity:
        return Severity.ODD if self.odd_in(form) else self.severity


class Finding(Struct, frozen=True, kw_only=True):
    """A violation, with the rule that it breaks and the answer in which it was found."""

    rule: str
    severity: Severity
    message: str
    answer: str = ""
    """The name of the recording."""
    excerpt: bytes = b""
    offset: int | None = None
    frame: int | None = None


class Verdict(Struct, frozen=True, kw_only=True):
    """The result of one rule."""

    rule: Rule[Any, Any]
    outcome: Outcome
    reason: str = ""
    """Why it was skipped."""
    findings: tuple[Finding, ...] = ()
    """The first ones; `count` is the number of all."""
    count: int = 0
