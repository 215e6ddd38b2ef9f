"""No chunk and no request costs more calls than were committed: bench/count.json. See `bench.count`."""

from collections import Counter

import pytest
from bench.count import (
    CHUNKS,
    HELD,
    PYTHON,
    SHORT,
    STREAM,
    TRACED_CHUNK,
    TRACED_SHORT,
    Figure,
    changes,
    committed,
    measure,
    problem_with,
    table,
    typical,
)

CHUNK = "calls, chunk passed"


def test_no_figure_is_worse_than_the_committed_one() -> None:
    python, before = committed()
    if python != PYTHON:
        pytest.skip(f"counted with Python {python}, and {PYTHON} makes other calls")
    measured = measure()
    assert measured.keys() == before.keys() == {*CHUNKS, STREAM, SHORT, HELD, TRACED_CHUNK, TRACED_SHORT}
    difference = [each for each in changes(measured[TRACED_CHUNK], measured[CHUNK]) if "telemetry" in each]
    assert difference == [], "tracing adds nothing to a chunk"
    found = [problem_with(name, figure, before[name]) for name, figure in measured.items()]
    wrong = [what for what in found if what is not None]
    if wrong:
        pytest.fail("\n\n".join([*wrong, "If that is as it should be: python -m bench.count --write"]), pytrace=False)


@pytest.mark.parametrize(
    ("now", "then", "word"),
    [
        (30, 30, None),
        (31, 30, None),
        (31.5, 30, "allowed"),
        (1020, 1000, None),
        (1021, 1000, "allowed"),
        (900, 1000, None),
        (899, 1000, "stale"),
    ],
)
def test_a_figure_may_be_a_little_worse_and_somewhat_better(now: float, then: float, word: str | None) -> None:
    problem = problem_with("a chunk", Figure({"f": now}), Figure({"f": then}))
    assert (
        problem is None
        if word is None
        else problem is not None and word in problem and problem.startswith(f"a chunk: {now}, ")
    )


def test_the_functions_that_changed_most_are_named_first() -> None:
    then = Figure({"same": 5, "more": 1, "gone": 3, "less": 2.5})
    now = Figure({"same": 5, "more": 9, "new": 1, "less": 2})
    assert [line.split() for line in changes(now, then)] == [
        ["+8.00", "more", "(1,", "now", "9)"],
        ["-3.00", "gone", "(3,", "now", "0)"],
        ["+1.00", "new", "(0,", "now", "1)"],
        ["-0.50", "less", "(2.5,", "now", "2)"],
    ]


def test_the_commonest_run_is_taken_and_the_least_of_those_that_are_as_common() -> None:
    runs = [Counter(a=number) for number in (9, 5, 7, 5, 7, 8)]
    assert typical(runs) == Counter(a=5)


def test_the_table_has_what_is_measured_beside_what_is_committed() -> None:
    lines = table({"chunk": Figure({"f": 2}), "new": Figure({"f": 3})}, {"chunk": Figure({"f": 1})}).splitlines()
    assert [line.split() for line in lines] == [
        ["measured", "committed"],
        ["chunk", "2.00", "1.00"],
        ["+1.00", "f", "(1,", "now", "2)"],
        ["new", "3.00"],
    ]
