"""What `make test` leaves to `make soak`: never a value that has no other test."""

from itertools import product

import pytest

from support import soak
from support.soak import _is_on_diagonal, in_turn, one_of_each, part_of


@pytest.mark.parametrize("sizes", [(3, 4), (2, 2), (4, 3, 2), (1, 5), (5,), ()])
def test_a_diagonal_has_each_value_of_each_parameter(sizes: tuple[int, ...]) -> None:
    lists = [[f"{place}.{number}" for number in range(size)] for place, size in enumerate(sizes)]
    kept = [ids for ids in product(*lists) if _is_on_diagonal(ids, lists)]
    assert {value for ids in kept for value in ids} == {value for values in lists for value in values}
    assert len(kept) == max(sizes, default=1)


def test_the_parts_are_all_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "SOAKS", False)
    found: list[int] = []
    for number in range(5):
        monkeypatch.setattr(soak, "_number", lambda number=number: number)
        found += part_of(range(23), 5)
    assert sorted(found) == list(range(23))
    monkeypatch.setattr(soak, "SOAKS", True)
    assert part_of(range(23), 5) == list(range(23))


def test_each_case_meets_each_of_the_others_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "SOAKS", False)
    found: list[tuple[int, str]] = []
    for number in range(4):
        monkeypatch.setattr(soak, "_number", lambda number=number: number)
        pairs = one_of_each(range(6), "abcd")
        assert [case for case, _ in pairs] == list(range(6))
        assert {other for _, other in pairs} == set("abcd")
        found += pairs
    assert sorted(found) == list(product(range(6), "abcd"))
    monkeypatch.setattr(soak, "SOAKS", True)
    assert one_of_each(range(6), "abcd") == list(product(range(6), "abcd"))


def test_each_test_has_each_case_in_time_and_not_all_have_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"test_{number}" for number in range(20)]
    monkeypatch.setattr(soak, "SOAKS", False)
    found: dict[str, set[str]] = {name: set() for name in names}
    for number in range(2):
        monkeypatch.setattr(soak, "_number", lambda number=number: number)
        chosen = {name: in_turn(name, "ab") for name in names}
        assert all(len(cases) == 1 for cases in chosen.values())
        assert {case for cases in chosen.values() for case in cases} == {"a", "b"}
        for name, cases in chosen.items():
            found[name].update(cases)
    assert all(cases == {"a", "b"} for cases in found.values())
    monkeypatch.setattr(soak, "SOAKS", True)
    assert in_turn("test_0", "ab") == ["a", "b"]
