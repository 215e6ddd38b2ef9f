"""The tokens of an answer so far, counted so that an answer within its limit never seems longer.

A provider gets the limit that is paid for. Whether an answer exceeds it all the same is counted with the model's own
tokenizer if it is loaded, less some slack, because a model need not write the tokens that a tokenizer reads. Without
a tokenizer, every token is assumed to be as long as tokens get. A provider's own report is used unchanged. Once an
answer has exceeded its limit, the count must not be too low any more: then there is no slack, and without a
tokenizer every byte counts as a token, or as much of one as in the answers that were seen before. It is counted in
this way from the beginning, if the reservation covers less than the limit.
"""

from io import StringIO
from math import ceil

from streamweir.pipeline.meter import Record
from streamweir.pipeline.settlement import Counter, UsageSource, size_of

MAX_BYTES_PER_TOKEN = 16
"""Bytes, on the average of an answer: four times the rule of thumb."""
_SLACK_TOKENS, _SLACK_FRACTION = 16, 64
_RECOUNT_FRACTION = 8
_PIECE = 16 * 1024
"""Characters that are counted in one step."""


class AnswerCount:
    """`count` is the model's tokenizer, called on the event loop. None: there is none, or there are several choices."""

    __slots__ = (
        "_bytes_per_token",
        "_count",
        "_counted",
        "_measured",
        "_record",
        "_recounted_at",
        "is_over_limit",
        "is_rough",
    )

    def __init__(self, record: Record, count: Counter | None, bytes_per_token: float = 1.0) -> None:
        """`bytes_per_token`: the fewest, for an answer that must not be counted too low."""
        self._record = record
        self._count = count
        self._bytes_per_token = bytes_per_token
        self._recounted_at = 0
        """The number of characters at the last complete count."""
        self._counted = [(0, 0), (0, 0)]
        """Of the text and of the reasoning: the number of counted characters, and their tokens."""
        self._measured = [(0, 0), (0, 0)]
        """The same in bytes."""
        self.is_over_limit = False
        """The answer has exceeded its limit, or what is reserved is less than its limit: it must not be counted too
        low."""
        self.is_rough = False
        """A count by bytes is enough, where it is known how many a token has: a tokenizer would take a good part of the
        time that a chunk takes."""

    def __call__(self) -> int:
        record = self._record
        reported = record.usage.completion_tokens if record.usage is not None else 0
        tokens = self._count_new(self._count) if self._count is not None else None
        if tokens is not None:
            return max(reported, tokens if self.is_over_limit else tokens - _SLACK_TOKENS - tokens // _SLACK_FRACTION)
        size = self._size()
        return max(reported, ceil(size / self._bytes_per_token) if self.is_over_limit else size // MAX_BYTES_PER_TOKEN)

    @property
    def is_reported(self) -> bool:
        return self._record.usage is not None

    def at_end(self) -> int:
        """Of a complete answer: what is billed."""
        usage = self._record.usage
        return usage.completion_tokens if usage is not None else self()

    def roughly(self) -> int:
        """Not too low, and without a tokenizer, if it is known how many bytes a token has."""
        if self._bytes_per_token <= 1:
            return self()
        usage = self._record.usage
        return max(usage.completion_tokens if usage is not None else 0, ceil(self._size() / self._bytes_per_token))

    def exceeds(self, allowed: int) -> bool:
        """Counts again from the start: the sum of the pieces may be a few tokens more than the whole text. An answer
        that is over its limit is not recounted at each extension, because that would take longer and longer."""
        if self.is_over_limit and self._bytes_per_token > 1:
            if self.roughly() <= allowed:
                return False
            if self.is_rough:
                return True
        if self() <= allowed:
            return False
        written = self._record.written
        if self.is_over_limit and written < self._recounted_at + self._recounted_at // _RECOUNT_FRACTION:
            return True
        self._recounted_at = written
        self._counted = [(0, 0), (0, 0)]
        return self() > allowed

    def _count_new(self, count: Counter) -> int | None:
        """None: the tokenizer is not loaded yet."""
        for number, text in enumerate((self._record.delivered, self._record.reasoning_text)):
            done, tokens = self._counted[number]
            if not isinstance(text, StringIO):
                return None
            while done < text.tell():
                piece = _read(text, done, _PIECE)
                more, source = count(piece)
                if source is not UsageSource.TOKENIZER:
                    return None
                done, tokens = done + len(piece), tokens + more
            self._counted[number] = done, tokens
        return sum(tokens for _, tokens in self._counted)

    def _size(self) -> int:
        for number, text in enumerate((self._record.delivered, self._record.reasoning_text)):
            done, size = self._measured[number]
            if isinstance(text, StringIO):
                if done < text.tell():
                    piece = _read(text, done, None)
                    self._measured[number] = done + len(piece), size + size_of(piece)
            else:
                self._measured[number] = text.tell(), size_of(text.getvalue())
        return sum(size for _, size in self._measured)


def _read(text: StringIO, start: int, limit: int | None) -> str:
    """Reads without copying the text before `start`; afterwards the position is at the end again."""
    text.seek(start)
    piece = text.read(limit)
    text.seek(0, 2)
    return piece
