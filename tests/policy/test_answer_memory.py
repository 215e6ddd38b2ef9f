"""What the last answers of a model say about the next: whether it can be cut, and how long it will be."""

from streamweir.policy.limits import answer_memory
from streamweir.policy.limits.answer_memory import AnswerMemory

SHOWN = 400
"""Bytes of 100 tokens."""
LONG = 1024, 4096


def noted(*answers: tuple[int, int], reasons: bool = False) -> AnswerMemory:
    memory = AnswerMemory()
    for tokens, shown_bytes in answers:
        memory.note("k", "m", tokens, shown_bytes, reasons=reasons)
    return memory


def test_a_model_is_shown_when_many_long_answers_were() -> None:
    assert not AnswerMemory().is_shown("m", reasons=False)
    assert not noted(*[LONG] * 31).is_shown("m", reasons=False), "too few"
    assert not noted(*[(1023, 4092)] * 32).is_shown("m", reasons=False), "too short"
    assert not noted((32_768, 131_072), *[(31, 124)] * 40).is_shown("m", reasons=False), "these say nothing"
    memory = noted(*[LONG] * 32)
    assert memory.is_shown("m", reasons=False)
    assert not memory.is_shown("other", reasons=False)
    assert not memory.is_shown("m", reasons=True), "reasoning may be hidden"


def test_one_answer_with_hidden_tokens_takes_all_of_that_away() -> None:
    memory = noted(*[LONG] * 1000, (100, 10))
    for _ in range(31):
        memory.note("k", "m", *LONG, reasons=False)
        assert not memory.is_shown("m", reasons=False)
    memory.note("k", "m", *LONG, reasons=False)
    assert memory.is_shown("m", reasons=False)


def test_an_answer_is_expected_to_be_twice_the_longest_of_the_last_of_its_key() -> None:
    memory = noted((500, 2000), *[(100, SHOWN)] * 31)
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
