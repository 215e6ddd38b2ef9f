"""What one check has found: an outcome, a sentence, and what to do. No check puts a secret into it."""

from typing import Literal

from msgspec import Struct

Outcome = Literal["ok", "warn", "fail"]


class Finding(Struct, frozen=True, kw_only=True):
    subject: str
    """What was checked: `provider openai`, `database`, `clock`."""
    outcome: Outcome
    message: str
    advice: str | None = None
    """What to do. None: nothing."""


def ok(subject: str, message: str) -> Finding:
    return Finding(subject=subject, outcome="ok", message=message)


def warn(subject: str, message: str, advice: str) -> Finding:
    return Finding(subject=subject, outcome="warn", message=message, advice=advice)


def fail(subject: str, message: str, advice: str) -> Finding:
    return Finding(subject=subject, outcome="fail", message=message, advice=advice)
