"""What a query of PromQL asks for: the metrics that it selects, and the labels that it names."""

from collections.abc import Iterator
from typing import NamedTuple

import promql_parser
from promql_parser import AggregateExpr, BinaryExpr, Expr, MatrixSelector, VectorSelector


class Selector(NamedTuple):
    metric: str
    values: dict[str, list[str]]
    """By label: the values that it names. Empty: a variable, or any."""


class Query(NamedTuple):
    selectors: list[Selector]
    labels: set[str]
    """Those by which it groups or joins."""


def read_query(text: str) -> Query:
    """ValueError if it is not PromQL."""
    query = Query([], set())

    def visit(expr: Expr) -> None:
        if isinstance(expr, MatrixSelector):
            query.selectors.append(_selector(expr.vector_selector))
        elif isinstance(expr, VectorSelector):
            query.selectors.append(_selector(expr))
        elif isinstance(expr, AggregateExpr) and expr.modifier is not None:
            query.labels.update(expr.modifier.labels)
        elif isinstance(expr, BinaryExpr) and expr.modifier is not None and expr.modifier.matching is not None:
            query.labels.update(expr.modifier.matching.labels)

    promql_parser.walk(promql_parser.parse(text), visit)
    return query


def _selector(selector: VectorSelector) -> Selector:
    values = {matcher.name: list(_values(matcher.value)) for matcher in selector.matchers.matchers}
    return Selector(selector.name or "", values)


def _values(value: str) -> Iterator[str]:
    if not value.startswith("$"):
        yield from value.split("|")
