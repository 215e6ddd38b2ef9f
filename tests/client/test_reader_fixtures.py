"""Every fixture in a dialect, read by the client: the same as the plain reading of it, whatever the cuts.

`make soak` reads each in every dialect.

A stream that ends too early is never taken for a whole one: each prefix of each is an error, but for those of bitseek,
where a clean close between two frames is an end without a finish reason.
"""

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from conftest import SOAKS
from streamweir.cli.commands.replay import replay
from streamweir.client import StreamTruncated
from support.client_result import outcome, told, told_by
from support.dialect_output import passed_frames, read_stream
from support.dialect_rules import DIALECTS, Rules
from support.soak import one_of_each, part_of

ROOT = Path(__file__).parents[1] / "fixtures"
CASES = sorted({path.parent for path in [*ROOT.glob("*/*/response.sse"), *ROOT.glob("*/*/response.json")]})
GOLDEN = sorted(path for rules in DIALECTS for path in ROOT.glob(f"*/*/{rules.name}.sse"))
PLACES = 20
"""Of each stream, in `make test`; in `make soak` it is every place there is."""


def named(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def name_of(value: Path | Rules) -> str:
    return value.name if isinstance(value, Rules) else named(value)


def build_body(case: Path) -> bytes:
    return next(path for path in (case / "response.sse", case / "response.json") if path.exists()).read_bytes()


@cache
def written(case: Path, dialect: str) -> bytes:
    """What a caller of the gateway would get."""
    return replay(build_body(case), source=case.parent.name, target=dialect, model="vendor/model", usage=True)[0]


def places(stream: bytes) -> Iterator[int]:
    if SOAKS or len(stream) <= PLACES:
        yield from range(len(stream))
        return
    rng = random.Random(len(stream))
    ends = [at for at in range(len(stream)) if stream[at - 1 : at + 1] == b"\n\n"]
    yield from sorted({*rng.sample(range(len(stream)), PLACES), *rng.sample(ends, min(8, len(ends))), len(stream) - 1})


@pytest.mark.parametrize(("case", "rules"), part_of(one_of_each(CASES, DIALECTS), 2), ids=name_of)
def test_a_stream_is_read_as_it_was_written(case: Path, rules: Rules) -> None:
    stream = written(case, rules.name)
    expected = told_by(read_stream(stream, rules, True, passed_frames(build_body(case))))
    completion, error = outcome(stream, dialect=rules.name)
    assert told(completion, error) == expected
    assert completion.is_whole is (error is None)
    assert all(call.is_whole for call in completion.tool_calls) or error is not None


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{named(path.parent)}/{path.stem}")
def test_no_cut_changes_what_is_read(path: Path) -> None:
    stream, dialect = path.read_bytes(), path.stem
    whole = told(*outcome(stream, dialect=dialect))
    assert told(*outcome(*(stream[at : at + 1] for at in range(len(stream))), dialect=dialect)) == whole
    assert told(*outcome(stream.replace(b"\n", b"\r\n"), dialect=dialect)) == whole
    for at in places(stream):
        assert told(*outcome(stream[:at], stream[at:], dialect=dialect)) == whole, f"cut at {at}"


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{named(path.parent)}/{path.stem}")
def test_a_beginning_is_never_taken_for_the_whole(path: Path) -> None:
    stream, dialect = path.read_bytes(), path.stem
    whole, failure = outcome(stream, dialect=dialect)
    end = stream.rfind(b"data: [DONE]") + len(b"data: [DONE]") if dialect != "bitseek" else len(stream) - 2
    texts = {choice.index: choice.text or "" for choice in whole.choices}
    for at in places(stream):
        part, error = outcome(stream[:at], dialect=dialect)
        for choice in part.choices:
            assert texts[choice.index].startswith(choice.text or "")
        if at >= end:
            assert (error is None) is (failure is None)
        elif failure is not None and error is not None and type(error) is type(failure):
            assert str(error) == str(failure), "the error frame had come"
        elif dialect == "bitseek" and error is None:
            assert is_between_frames(stream[:at]), f"cut at {at}"
            assert part.finish_reason is None
            assert part.is_whole
        else:
            assert isinstance(error, StreamTruncated), f"cut at {at}"
            assert error.completion.is_whole is False
            assert not error.may_retry or part.is_empty


def is_between_frames(beginning: bytes) -> bool:
    rest = beginning.rpartition(b"\n\n")[2]
    return bool(beginning) and (not rest or rest.rstrip(b"\n").endswith(b"}]}"))
