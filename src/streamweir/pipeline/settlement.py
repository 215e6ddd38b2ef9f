"""The settlement of one stream, and counting tokens that the provider did not report.

A count is labelled with its source; if several counts make up one usage, the least exact source is named. Counting is
pure and may take long: `Pending` is made on the event loop and may be counted in a thread.
"""

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct, structs

from streamweir.core.delivered import DeliveredPart
from streamweir.core.errors import StreamweirError
from streamweir.core.events import FinishReason
from streamweir.core.usage import Usage
from streamweir.core.verdict import Verdict

BYTES_PER_TOKEN = 4
"""The average that `estimate` uses if there is no tokenizer."""


class UsageSource(StrEnum):
    PROVIDER = "provider"
    TOKENIZER = "tokenizer"
    ESTIMATE = "estimate"


Count = tuple[int, UsageSource]
Counter = Callable[[str], Count]
"""Counts the tokens of a text."""


def size_of(text: str) -> int:
    """In bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def estimate_tokens(text: str) -> int:
    return -(-size_of(text) // BYTES_PER_TOKEN)


def estimate(text: str) -> Count:
    return estimate_tokens(text), UsageSource.ESTIMATE


class Settlement(Struct, frozen=True, kw_only=True):
    """The final result of a stream for accounting: one per stream."""

    verdict: Verdict
    usage: Usage
    usage_source: UsageSource
    completion_id: str | None
    model: str | None
    finishes: dict[int, FinishReason]
    error: StreamweirError | None
    flags: tuple[str, ...] = ()
    """Anomalies: `usage_anomaly`, `usage_cut`, `missing_done`, `junk_after_done`, `finish_inferred`."""
    delivered: DeliveredPart | None = None
    """The part that the caller got of an answer that the usage covers. None: all of it, or all that was counted."""


class CountableText(Struct, frozen=True, kw_only=True):
    """The texts whose tokens are counted."""

    prompt: Count
    """As counted at admission."""
    delivered: str
    reasoning_text: str
    reported: Usage | None = None
    """An interim report: it covers the prompt, and the part of the answer before it."""
    sent_share: float = 1.0
    """See `Meter.sent_share`."""

    def count(self, count: Counter, prompt: Count | None = None) -> tuple[Usage, UsageSource]:
        output, source = count(self.delivered)
        reasoning, reasoning_source = count(self.reasoning_text) if self.reasoning_text else (None, source)
        sources = {source, reasoning_source}
        reported = self.reported
        if reported is None:
            prompt_tokens, prompt_source = prompt or self.prompt
            if self.sent_share < 1.0:
                prompt_tokens, prompt_source = int(prompt_tokens * self.sent_share), UsageSource.ESTIMATE
            sources.add(prompt_source)
            usage = Usage(input_uncached=prompt_tokens, output=output, reasoning=reasoning)
        else:
            reasoning = max(reported.reasoning or 0, reasoning or 0) or reported.reasoning
            usage = structs.replace(reported, output=max(reported.output, output), reasoning=reasoning)
        return usage, max(sources, key=_BY_EXACTNESS.index)


class PendingSettlement:
    """A settlement whose usage may still have to be counted."""

    __slots__ = ("_countable_text", "_settlement")

    def __init__(self, settlement: Settlement, text: CountableText | None = None) -> None:
        self._settlement = settlement
        self._countable_text = text

    @property
    def needs_count(self) -> bool:
        return self._countable_text is not None

    @property
    def settlement(self) -> Settlement:
        """Until it is counted, everything except the usage is valid."""
        return self._settlement

    def count(self, count: Counter | None = None, prompt: Count | None = None) -> Settlement:
        """The complete settlement, counted at most once. `prompt`: a more exact count than admission's."""
        text = self._countable_text
        if text is not None:
            usage, source = text.count(count or estimate, prompt)
            self._settlement = structs.replace(self._settlement, usage=usage, usage_source=source)
            self._countable_text = None
        return self._settlement


_BY_EXACTNESS = list(UsageSource)
