"""A seeded part of the fuzzing in every test run, and that the fuzzer sees what it looks for."""

import pytest

from fuzz.sse import SEARCH, Case, difference, shrunk
from streamweir.wire.sse import Frame, Splitter


def test_splitter_does_as_the_reference() -> None:
    assert SEARCH.first_failure(count=20_000, seed=20_000) is None


class SplitterOfLinesWithoutCr(Splitter):
    """Wrong on purpose: a bare CR ends no line."""

    def feed(self, chunk: bytes, /) -> list[Frame]:
        return super().feed(chunk.replace(b"\r", b""))


def test_fuzzer_finds_and_shrinks_a_wrong_splitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.sse.Splitter", SplitterOfLinesWithoutCr)
    report = SEARCH.first_failure(count=1000, seed=1)
    assert report is not None
    assert report.startswith("seed 1, input ")


def test_shrinking_keeps_the_failure() -> None:
    case = Case(b"data: one\n\ndata: two\n\n", (3, 9, 14))
    least = shrunk(case, lambda smaller: b"tw" in smaller.body)
    assert least == Case(b"tw", ())
    assert difference(least) is None
