"""The tokens of an answer so far: none within its limit is taken for longer, and what is beyond it is seen."""

import pytest

from streamweir.core.usage import Usage
from streamweir.pipeline.answer_count import AnswerCount
from streamweir.pipeline.meter import Record
from streamweir.pipeline.settlement import Count, UsageSource, estimate


def three_each(text: str) -> Count:
    """As a tokenizer reads digits."""
    return -(-len(text) // 3), UsageSource.TOKENIZER


def test_digits_are_counted_by_the_tokenizer_and_not_by_the_rule_of_thumb() -> None:
    record = Record()
    count = AnswerCount(record, three_each)
    for _ in range(300):
        record.delivered.write("123")
    assert not count.exceeds(300)
    for _ in range(60):
        record.delivered.write("456")
    assert count.exceeds(300)
    count.is_over_limit = True
    assert count() == 360
    assert record.delivered.getvalue().endswith("456456"), "what is counted is not touched"


def test_pieces_that_were_counted_one_by_one_are_counted_again_before_they_are_too_many() -> None:
    record = Record()
    count = AnswerCount(record, three_each)
    for _ in range(200):
        record.reasoning_text.write("1")
        count()
    assert count() == max(0, 200 - 16 - 200 // 64)
    assert not count.exceeds(100), "of 67 tokens"


def test_an_answer_far_beyond_its_limit_is_not_counted_from_its_beginning_each_time() -> None:
    record, counted = Record(), 0

    def counter(text: str) -> Count:
        nonlocal counted
        counted += len(text)
        return three_each(text)

    count = AnswerCount(record, counter)
    count.is_over_limit = True
    for held in range(1000):
        record.delivered.write("123" * 100)
        assert count.exceeds(100 * held + 99)
    assert counted < 20 * record.written


@pytest.mark.parametrize("counter", [None, estimate], ids=["no tokenizer", "not loaded yet"])
def test_without_a_tokenizer_only_what_is_surely_longer_is(counter: object) -> None:
    record = Record()
    count = AnswerCount(record, counter)  # type: ignore[arg-type]
    record.delivered.write("слово " * 100)  # 1,100 bytes
    assert not count.exceeds(69)
    record.delivered.write("слово " * 100)
    assert count.exceeds(69)
    count.is_over_limit = True
    assert count() == 2200, "a token for each byte"


def test_the_providers_report_is_used_unchanged() -> None:
    record = Record(usage=Usage(output=10, reasoning=490))
    count = AnswerCount(record, three_each)
    assert not count.exceeds(500)
    assert count.exceeds(499)
