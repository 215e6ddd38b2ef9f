"""A decorator for the rules of an API that has one form and no dialects, and the rules that it shares with others.

`MessagesApi` and `ResponsesApi` are such forms. The rules about bytes, lines and headers are those of chat completions:
they are the same for every event stream.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from streamweir.conformance.parsed_answer import ParsedAnswer
from streamweir.conformance.recording import Kind
from streamweir.conformance.rule import Rule, Severity, Violation
from streamweir.conformance.rules.group import NOT_THIS_KIND
from streamweir.frontends.chat.dialect import Dialect
from streamweir.frontends.chat.openai import OPENAI


class ApiAnswer(Protocol):
    """A parsed answer of one API."""

    parsed: ParsedAnswer

    @property
    def kind(self) -> Kind: ...


Answer = TypeVar("Answer", bound=ApiAnswer)
Api = TypeVar("Api")


class ApiGroup(Generic[Answer, Api]):
    def __init__(self, group: str, *kinds: Kind, source: str) -> None:
        """`kinds`: of the answers that it checks. `source`: of a rule that names no other."""
        self.rules: list[Rule[Answer, Api]] = []
        self._group = group
        self._kinds = kinds or (Kind.STREAM,)
        self._source = source

    def rule(
        self,
        name: str,
        title: str,
        *,
        text: str,
        why: str,
        source: str = "",
        severity: Severity = Severity.BROKEN,
        needs: Callable[[Answer], object] = lambda _: True,
        lacks: str = "",
    ) -> Callable[[Callable[[Answer, Api], Iterator[Violation]]], Rule[Answer, Api]]:
        """`needs`: what an answer must have to be checked; `lacks`: the reason if it has not."""

        def skip_reason(answer: Answer, _: Api) -> str | None:
            if answer.kind not in self._kinds:
                return NOT_THIS_KIND[self._kinds[0]]
            return None if needs(answer) else lacks

        def decorate(check: Callable[[Answer, Api], Iterator[Violation]]) -> Rule[Answer, Api]:
            rule: Rule[Answer, Api] = Rule(
                id=f"{self._group}.{name}",
                title=title,
                text=text,
                why=why,
                source=source or self._source,
                severity=severity,
                skip_reason=skip_reason,
                check=check,
            )
            self.rules.append(rule)
            return rule

        return decorate


def shared(rules: Iterable[Rule[ParsedAnswer, Dialect]], without: tuple[str, ...]) -> list[Rule[Any, Any]]:
    """Rules about bytes, lines and headers, which are the same for every event stream."""
    return [_shared(rule) for rule in rules if rule.id not in without]


def _shared(rule: Rule[ParsedAnswer, Dialect]) -> Rule[ApiAnswer, Any]:
    return Rule(
        id=rule.id,
        title=rule.title,
        text=rule.text,
        why=rule.why,
        source=rule.source,
        severity=rule.severity_in(OPENAI),
        skip_reason=lambda answer, _: rule.skip_reason(answer.parsed, OPENAI),
        check=lambda answer, _: rule.check(answer.parsed, OPENAI),
    )


def lacking(value: Any, wanted: dict[str, Any]) -> list[str]:
    """The members of `wanted` that are missing, or of another type. A null in `wanted` may be anything."""
    if not isinstance(value, dict):
        return list(wanted)
    return [
        name
        for name, like in wanted.items()
        if name not in value or (like is not None and not _is_like(value[name], like))
    ]


def _is_like(value: object, like: object) -> bool:
    if isinstance(like, str):
        return isinstance(value, str)
    return type(value) is type(like)
