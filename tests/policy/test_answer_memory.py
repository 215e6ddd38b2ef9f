"""What the last answers of a model say about the next: whether it can be cut, and how long it will be."""

from streamweir.policy import answer_memory
from streamweir.policy.answer_memory import AnswerMemory

SHOWN = 400
"""Bytes of 100 tokens."""


def noted(*answers: tuple[int, int], reasons: bool = False) -> AnswerMemory:
    memory = AnswerMemory()
    for tokens, shown_bytes in answers:
        memory.note("k", "m", tokens, shown_bytes, reasons=reasons)
    return memory


def test_a_model_is_shown_when_an_answer_of_some_length_was() -> None:
    assert not AnswerMemory().is_shown("m", reasons=False)
    assert not noted((31, 124)).is_shown("m", reasons=False), "too short to say anything"
    memory = noted((100, SHOWN))
    assert memory.is_shown("m", reasons=False)
    assert not memory.is_shown("other", reasons=False)
    assert not memory.is_shown("m", reasons=True), "reasoning may be hidden"


def test_hidden_tokens_count_for_a_while() -> None:
    memory = noted((100, SHOWN), (100, 10))
    for _ in range(31):
        memory.note("k", "m", 100, SHOWN, reasons=False)
        assert not memory.is_shown("m", reasons=False)
    memory.note("k", "m", 100, SHOWN, reasons=False)
    assert memory.is_shown("m", reasons=False)


def test_an_answer_is_expected_to_be_twice_the_longest_of_the_last_of_its_key() -> None:
    memory = noted((500, 2000), *[(100, SHOWN)] * 7)
    assert memory.expected_tokens("k", "m", reasons=False) == 1000
    memory.note("k", "m", 3, 12, reasons=False)
    assert memory.expected_tokens("k", "m", reasons=False) == 200
    assert memory.expected_tokens("other", "m", reasons=False) is None


def test_tokens_are_counted_by_the_densest_of_the_last_answers() -> None:
    assert AnswerMemory().bytes_per_token("m", reasons=False) == 1
    assert noted((100, 400), (100, 300), (100, 500)).bytes_per_token("m", reasons=False) == 0.75 * 3
    assert noted((100, 200)).bytes_per_token("m", reasons=False) == 1.5


def test_no_more_is_remembered_than_a_bound() -> None:
    memory = AnswerMemory()
    for number in range(answer_memory._MAX_KEYS + 10):
        memory.note(f"k{number}", f"m{number}", 100, SHOWN, reasons=False)
    assert (len(memory._models), len(memory._lengths)) == (answer_memory._MAX_MODELS, answer_memory._MAX_KEYS)
