"""What is settled for one stream, and counting tokens that nobody reported.

A count is labelled with its source; if several counts make up one usage, the least exact source is named. Counting is
pure and may take long: `Pending` is made on the event loop and may be counted in a thread.
"""

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct, structs

from streamweir.core.errors import StreamweirError
from streamweir.core.events import FinishReason
from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict

BYTES_PER_TOKEN = 4
"""The rule of thumb behind `estimate`, where no tokenizer is at hand."""


class UsageSource(StrEnum):
    PROVIDER = "provider"
    TOKENIZER = "tokenizer"
    ESTIMATE = "estimate"


Count = tuple[int, UsageSource]
Counter = Callable[[str], Count]
"""A text to its tokens."""


def size_of(text: str) -> int:
    """In bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def estimate_tokens(text: str) -> int:
    return -(-size_of(text) // BYTES_PER_TOKEN)


def estimate(text: str) -> Count:
    return estimate_tokens(text), UsageSource.ESTIMATE


class Settlement(Struct, frozen=True, kw_only=True):
    """What is booked: one per stream."""

    verdict: Verdict
    usage: Usage
    usage_source: UsageSource
    completion_id: str | None
    model: str | None
    finishes: dict[int, FinishReason]
    error: StreamweirError | None
    flags: tuple[str, ...] = ()
    """What was odd about it: `usage_anomaly`, `usage_cut`, `missing_done`, `junk_after_done`."""


class CountableText(Struct, frozen=True, kw_only=True):
    """What there is to count."""

    prompt: Count
    """As counted at admission."""
    delivered: str
    reasoning_text: str
    reported: Usage | None = None
    """From within the answer: it knows the prompt, and of the answer only what came before it."""

    def count(self, count: Counter, prompt: Count | None = None) -> tuple[Usage, UsageSource]:
        output, source = count(self.delivered)
        reasoning, reasoning_source = count(self.reasoning_text) if self.reasoning_text else (None, source)
        sources = {source, reasoning_source}
        reported = self.reported
        if reported is None:
            prompt_tokens, prompt_source = prompt or self.prompt
            sources.add(prompt_source)
            usage = Usage(input_uncached=prompt_tokens, output=output, reasoning=reasoning)
        else:
            reasoning = max(reported.reasoning or 0, reasoning or 0) or reported.reasoning
            usage = structs.replace(reported, output=max(reported.output, output), reasoning=reasoning)
        return usage, max(sources, key=_BY_EXACTNESS.index)


class PendingSettlement:
    """A settlement, complete but for the usage where that is still to be counted."""

    __slots__ = ("_countable_text", "_settlement")

    def __init__(self, settlement: Settlement, text: CountableText | None = None) -> None:
        self._settlement = settlement
        self._countable_text = text

    @property
    def needs_count(self) -> bool:
        return self._countable_text is not None

    @property
    def settlement(self) -> Settlement:
        """Before it is counted, all of it but the usage holds."""
        return self._settlement

    def count(self, count: Counter | None = None, prompt: Count | None = None) -> Settlement:
        """The whole settlement, counted at most once. `prompt` is a better count of it than admission's."""
        text = self._countable_text
        if text is not None:
            usage, source = text.count(count or estimate, prompt)
            self._settlement = structs.replace(self._settlement, usage=usage, usage_source=source)
            self._countable_text = None
        return self._settlement


_BY_EXACTNESS = list(UsageSource)
