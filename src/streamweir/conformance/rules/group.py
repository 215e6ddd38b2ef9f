"""A decorator for rules: one decorated function is one rule of a group.

A group contains the rules for one kind of answer, in the order of their definition. The helpers make violations and
format values for their messages.
"""

from collections.abc import Callable, Iterator

from streamweir.conformance.parsed_answer import Frame, ParsedAnswer
from streamweir.conformance.recording import Kind
from streamweir.conformance.rule import Rule, Severity, Violation
from streamweir.core.text import cut
from streamweir.frontends.chat.dialect import Dialect

Check = Callable[[ParsedAnswer, Dialect], Iterator[Violation]]
SkipReason = Callable[[ParsedAnswer, Dialect], str | None]

_CONTEXT_BYTES = 60
NOT_THIS_KIND = {
    Kind.STREAM: "no streamed answer",
    Kind.WHOLE: "no whole answer",
    Kind.FAILURE: "no failed answer",
}


class RuleGroup:
    def __init__(self, group: str, kind: Kind | None = Kind.STREAM) -> None:
        self.rules: list[Rule[ParsedAnswer, Dialect]] = []
        self._group = group
        self._kind = kind

    def rule(
        self,
        name: str,
        title: str,
        *,
        text: str,
        why: str,
        source: str,
        severity: Severity = Severity.BROKEN,
        odd_in: Callable[[Dialect], bool] = lambda _: False,
        applies_to: Callable[[Dialect], bool] = lambda _: True,
        value: Callable[[Dialect], str] = lambda _: "",
        skip_reason: SkipReason = lambda _, __: None,
    ) -> Callable[[Check], Rule[ParsedAnswer, Dialect]]:
        def decorate(check: Check) -> Rule[ParsedAnswer, Dialect]:
            rule: Rule[ParsedAnswer, Dialect] = Rule(
                id=f"{self._group}.{name}",
                title=title,
                text=text,
                why=why,
                source=source,
                severity=severity,
                odd_in=odd_in,
                applies_to=applies_to,
                value=value,
                skip_reason=self._skip_reason(skip_reason),
                check=check,
            )
            self.rules.append(rule)
            return rule

        return decorate

    def _skip_reason(self, skip_reason: SkipReason) -> SkipReason:
        def skip_reason_for_kind(answer: ParsedAnswer, dialect: Dialect) -> str | None:
            if self._kind is not None and answer.kind is not self._kind:
                return NOT_THIS_KIND[self._kind]
            return skip_reason(answer, dialect)

        return skip_reason_for_kind


def violation_in(frame: Frame, message: str, needle: bytes = b"") -> Violation:
    """A violation in a frame. `needle`: the bytes in the frame near which the excerpt begins, if the frame is long."""
    found = max(frame.raw.find(needle), 0)
    start = max(found - _CONTEXT_BYTES, 0) if found > _CONTEXT_BYTES else 0
    return Violation(message, frame.raw[start:], frame.offset + start, frame.number)


def quote_names(names: object) -> str:
    """Names for a sentence: `a`, `b`."""
    return (
        ", ".join(f"`{name}`" for name in names) if isinstance(names, list | tuple | set | frozenset) else f"`{names}`"
    )


def quote(value: object) -> str:
    """An untrusted value for a message: short, on one line."""
    return cut(repr(value), 60)
