"""How the modules of rules write theirs down: one decorated function is one rule.

A chapter is a group of rules over one kind of answer, in the order of its module. The helpers make a
breach out of the place where it stands.
"""

from collections.abc import Callable, Iterator

from streamweir.conformance.parsed_answer import Frame, Reading
from streamweir.conformance.recording import Kind
from streamweir.conformance.rule import Rule, Severity, Violation
from streamweir.frontends.chat.dialect import Dialect

Check = Callable[[Reading, Dialect], Iterator[Violation]]
Needs = Callable[[Reading, Dialect], str | None]

_CONTEXT_BYTES = 60
_NOT_THIS_KIND = {
    Kind.STREAM: "no streamed answer",
    Kind.WHOLE: "no whole answer",
    Kind.FAILURE: "no failed answer",
}


class Chapter:
    def __init__(self, group: str, kind: Kind | None = Kind.STREAM) -> None:
        self.rules: list[Rule[Reading]] = []
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
        holds_for: Callable[[Dialect], bool] = lambda _: True,
        value: Callable[[Dialect], str] = lambda _: "",
        needs: Needs = lambda _, __: None,
    ) -> Callable[[Check], Rule[Reading]]:
        def write(check: Check) -> Rule[Reading]:
            rule: Rule[Reading] = Rule(
                id=f"{self._group}.{name}",
                title=title,
                text=text,
                why=why,
                source=source,
                severity=severity,
                odd_in=odd_in,
                holds_for=holds_for,
                value=value,
                needs=self._needs(needs),
                check=check,
            )
            self.rules.append(rule)
            return rule

        return write

    def _needs(self, needs: Needs) -> Needs:
        def of_this_kind(reading: Reading, dialect: Dialect) -> str | None:
            if self._kind is not None and reading.kind is not self._kind:
                return _NOT_THIS_KIND[self._kind]
            return needs(reading, dialect)

        return of_this_kind


def at(frame: Frame, message: str, needle: bytes = b"") -> Violation:
    """A breach in a frame. `needle`: where in it, so that a long frame is shown from about there."""
    found = max(frame.raw.find(needle), 0)
    start = max(found - _CONTEXT_BYTES, 0) if found > _CONTEXT_BYTES else 0
    return Violation(message, frame.raw[start:], frame.offset + start, frame.number)


def words(names: object) -> str:
    """Names for a sentence: `a`, `b`."""
    return (
        ", ".join(f"`{name}`" for name in names) if isinstance(names, list | tuple | set | frozenset) else f"`{names}`"
    )


def shown(value: object) -> str:
    """A foreign value for a message: short, on one line."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
