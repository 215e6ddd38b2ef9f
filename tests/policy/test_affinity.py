"""Which candidate a conversation gets, and what is remembered of it."""

from collections import Counter

import pytest

from streamweir.policy.routing.affinity import MAX_REMEMBERED, Affinity, rendezvous

HOLD_S = 600.0
CONVERSATIONS = [f"conversation {n}".encode() for n in range(2000)]


def order(conversation: bytes, weights: dict[str, int]) -> list[str]:
    return rendezvous(conversation, weights, str, weights.__getitem__)


@pytest.mark.parametrize("weights", [{"a": 1, "b": 1}, {"a": 3, "b": 1}, {"a": 1, "b": 2, "c": 7}], ids=str)
def test_over_many_conversations_each_is_first_as_often_as_its_weight_says(weights: dict[str, int]) -> None:
    first = Counter(order(conversation, weights)[0] for conversation in CONVERSATIONS)
    for name, weight in weights.items():
        assert first[name] / len(CONVERSATIONS) == pytest.approx(weight / sum(weights.values()), abs=0.04)


def test_if_one_is_not_available_only_its_own_conversations_move_and_by_weight() -> None:
    weights = {"a": 5, "b": 3, "c": 1}
    moved = Counter[str]()
    for conversation in CONVERSATIONS:
        whole = order(conversation, weights)
        assert order(conversation, {"b": 3, "c": 1}) == [name for name in whole if name != "a"]
        if whole[0] == "a":
            moved[whole[1]] += 1
    assert moved["b"] / moved.total() == pytest.approx(0.75, abs=0.05)


def test_the_order_of_the_entries_does_not_matter() -> None:
    for conversation in CONVERSATIONS[:50]:
        assert order(conversation, {"a": 1, "b": 1, "c": 1}) == order(conversation, {"c": 1, "a": 1, "b": 1})


def test_every_version_and_node_has_the_same_order() -> None:
    """A change of the rule moves every conversation once: it must not happen by accident."""
    weights = {"openai/gpt": 1, "azure/gpt": 1, "other/gpt": 2}
    assert order(bytes(16), weights) == ["azure/gpt", "other/gpt", "openai/gpt"]


def test_what_has_answered_is_remembered_from_its_last_answer_on() -> None:
    memory = Affinity[str](HOLD_S)
    memory.note(b"c", "a", 0.0)
    assert memory.recent(b"c", HOLD_S - 1) == ("a",)
    memory.note(b"c", "a", HOLD_S - 1)
    assert memory.recent(b"c", 2 * HOLD_S - 2) == ("a",)
    assert memory.recent(b"c", 2 * HOLD_S - 1) == ()
    assert memory.recent(b"other", 0.0) == ()


def test_after_a_failover_the_newest_comes_first_and_the_others_are_not_forgotten() -> None:
    memory = Affinity[str](HOLD_S)
    for at, name in enumerate("abab"):
        memory.note(b"c", name, float(at))
    assert memory.recent(b"c", 4.0) == ("b", "a")
    for at, name in enumerate("cdef", start=4):
        memory.note(b"c", name, float(at))
    assert memory.recent(b"c", 8.0) == ("f", "e", "d")
    assert len(memory.recent(b"c", 8.0)) == MAX_REMEMBERED


def test_a_candidate_that_answered_before_the_memory_ended_does_not_come_back() -> None:
    memory = Affinity[str](HOLD_S)
    memory.note(b"c", "a", 0.0)
    memory.note(b"c", "b", HOLD_S)
    assert memory.recent(b"c", HOLD_S) == ("b",)


def test_a_clock_that_was_set_back_ends_what_is_remembered() -> None:
    memory = Affinity[str](HOLD_S)
    memory.note(b"c", "a", 1000.0)
    assert memory.recent(b"c", 999.0) == ()


def test_no_more_than_the_maximum_is_kept_and_the_oldest_are_dropped_first() -> None:
    memory = Affinity[int](HOLD_S, max_conversations=10)
    for n in range(100):
        memory.note(b"first", 0, float(n))
        memory.note(b"%d" % n, n, float(n))
        assert len(memory) <= 10
    assert memory.recent(b"first", 100.0) == (0,)
    assert memory.recent(b"99", 100.0) == (99,)
    assert memory.recent(b"90", 100.0) == ()


def test_what_is_over_does_not_stay() -> None:
    memory = Affinity[int](HOLD_S)
    for n in range(100):
        memory.note(b"%d" % n, n, 0.0)
    for n in range(51):
        memory.note(b"new", n, HOLD_S + n)
    assert len(memory) == 1


def test_zero_remembers_nothing() -> None:
    memory = Affinity[str](0)
    memory.note(b"c", "a", 0.0)
    assert len(memory) == 0
    assert memory.recent(b"c", 0.0) == ()


def test_a_reload_keeps_what_is_remembered_and_uses_the_new_time() -> None:
    old, new = Affinity[str](HOLD_S), Affinity[str](10.0)
    old.note(b"c", "a", 0.0)
    new.adopt(old)
    assert new.recent(b"c", 9.0) == ("a",)
    assert new.recent(b"c", 10.0) == ()
