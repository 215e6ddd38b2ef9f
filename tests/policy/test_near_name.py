"""Which names are near a wrong one, and that hostile names and long lists cost little."""

from collections.abc import Iterator

import pytest

from streamweir.policy.routing.near_name import MAX_COMPARED, MAX_LENGTH, MAX_SEEN, near_names

NAMES = ["openai/gpt-4o", "gpt-4o-mini", "gpt-4.1", "claude-sonnet-4-5", "claude-opus-4", "fast", "vendor/x/gpt-4o"]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("gtp-4o-mini", "gpt-4o-mini"),
        ("GPT-4o-Mini", "gpt-4o-mini"),
        ("gpt4o-mini", "gpt-4o-mini"),
        ("opnai/gpt-4o", "openai/gpt-4o"),
        ("gpt-4o", "openai/gpt-4o"),
        ("x/gpt-4o", "vendor/x/gpt-4o"),
        ("claude-sonet-4.5", "claude-sonnet-4-5"),
        ("fst", "fast"),
    ],
)
def test_the_nearest_name_comes_first(name: str, nearest: str) -> None:
    assert near_names(name, NAMES, 3)[0] == nearest


@pytest.mark.parametrize("name", ["", "g", "llama", "*" * 10, "\n\x00", "é" * 30, "x" * (MAX_LENGTH + 1)])
def test_a_name_that_is_near_none_has_none(name: str) -> None:
    assert near_names(name, NAMES, 3) == []


def test_no_more_than_wanted_and_none_twice() -> None:
    names = [f"model-{number}" for number in range(20)] * 2
    found = near_names("model-", names, 5)
    assert len(found) == len(set(found)) == 5
    assert len(near_names("a", [f"provider-{number}/a" for number in range(9)], 3)) == 0
    assert len(near_names("ab", [f"provider-{number}/ab" for number in range(9)], 3)) == 3


def test_a_list_without_end_is_not_read_to_its_end() -> None:
    seen = 0

    def names() -> Iterator[str]:
        nonlocal seen
        while True:
            seen += 1
            yield f"model-{seen}"

    assert near_names("model-7", names(), 3)
    assert seen == MAX_SEEN
    assert near_names("model-7", ["x" * 1000] * 10, 3) == []


def test_names_of_another_length_do_not_use_up_the_comparisons() -> None:
    assert near_names("model-7", [*["m"] * 2 * MAX_COMPARED, "modell-7"], 3) == ["modell-7"]
