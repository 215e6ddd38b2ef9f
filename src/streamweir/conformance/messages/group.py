"""A decorator for rules of the Messages API, and the rules that it shares with chat completions."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from streamweir.conformance.messages.answer import MessagesAnswer
from streamweir.conformance.messages.api import MessagesApi
from streamweir.conformance.parsed_answer import ParsedAnswer
from streamweir.conformance.recording import Kind
from streamweir.conformance.rule import Rule, Severity, Violation
from streamweir.conformance.rules.group import NOT_THIS_KIND
from streamweir.frontends.chat.dialect import Dialect
from streamweir.frontends.chat.openai import OPENAI

MessagesRule = Rule[MessagesAnswer, MessagesApi]
Check = Callable[[MessagesAnswer, MessagesApi], Iterator[Violation]]
STREAMING = "Messages API, streaming"
REFERENCE = "Messages API, the response"
ERRORS = "Messages API, errors"


class MessagesGroup:
    def __init__(self, group: str, *kinds: Kind) -> None:
        self.rules: list[MessagesRule] = []
        self._group = group
        self._kinds = kinds or (Kind.STREAM,)

    def rule(
        self,
        name: str,
        title: str,
        *,
        text: str,
        why: str,
        source: str = STREAMING,
        severity: Severity = Severity.BROKEN,
        needs: Callable[[MessagesAnswer], object] = lambda _: True,
        lacks: str = "",
    ) -> Callable[[Check], MessagesRule]:
        """`needs`: what an answer must have to be checked; `lacks`: the reason if it has not."""

        def skip_reason(answer: MessagesAnswer, _: MessagesApi) -> str | None:
            if answer.kind not in self._kinds:
                return NOT_THIS_KIND[self._kinds[0]]
            return None if needs(answer) else lacks

        def decorate(check: Check) -> MessagesRule:
            rule: MessagesRule = Rule(
                id=f"{self._group}.{name}",
                title=title,
                text=text,
                why=why,
                source=source,
                severity=severity,
                skip_reason=skip_reason,
                check=check,
            )
            self.rules.append(rule)
            return rule

        return decorate


def shared(rules: Iterable[Rule[ParsedAnswer, Dialect]], without: tuple[str, ...]) -> list[MessagesRule]:
    """Rules about bytes, lines and headers, which are the same for every event stream."""
    return [_shared(rule) for rule in rules if rule.id not in without]


def _shared(rule: Rule[ParsedAnswer, Dialect]) -> MessagesRule:
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
