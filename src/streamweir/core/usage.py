"""The token counts of a request, in categories that do not overlap, and the searches that the provider made for it.

Providers count in overlapping ways: some include cached input in the prompt, some do not; some include reasoning in
the completion, some do not. Decoders convert a report into the categories below, once. Every number that a dialect
shows or a price multiplies is derived from them, so nothing is counted twice. None means "not reported", which is
not 0: some dialects show only what was reported.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

MAX_TOKEN_COUNT = 2**53
"""A larger JSON number is not exact. A report with a larger or a negative count is invalid."""


class Usage(Struct, frozen=True, kw_only=True, gc=False):
    """One report. The fields do not overlap; the properties are the overlapping totals."""

    input_uncached: int = 0
    cache_read: int | None = None
    cache_write_5m: int | None = None
    cache_write_1h: int | None = None
    audio_input: int | None = None
    image_input: int | None = None
    output: int = 0
    """Visible text and tool arguments: neither reasoning nor audio nor images."""
    reasoning: int | None = None
    audio_output: int | None = None
    image_output: int | None = None

    searches: int | None = None
    """Searches of the web that the provider made and charges for. They are not tokens: the totals do not have them."""

    accepted_prediction: int | None = None
    """Part of `output`, shown separately for display only; so is the next."""
    rejected_prediction: int | None = None

    openai_style: bool = False
    """Reported in OpenAI's format: the next two are its details objects, for dialects that show them unchanged."""
    prompt_details: dict[str, Any] | None = None
    completion_details: dict[str, Any] | None = None

    @property
    def cache_write(self) -> int | None:
        if self.cache_write_5m is None and self.cache_write_1h is None:
            return None
        return (self.cache_write_5m or 0) + (self.cache_write_1h or 0)

    @property
    def prompt_tokens(self) -> int:
        cached = (self.cache_read or 0) + (self.cache_write_5m or 0) + (self.cache_write_1h or 0)
        return self.input_uncached + cached + (self.audio_input or 0) + (self.image_input or 0)

    @property
    def completion_tokens(self) -> int:
        return self.output + (self.reasoning or 0) + (self.audio_output or 0) + (self.image_output or 0)

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


def token_count(value: object) -> int | None:
    """A reported count, or None if the value is invalid (absent, negative, too large, not a number)."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and 0 <= value <= MAX_TOKEN_COUNT:
        return value
    return None


def member_count(report: Mapping[str, Any], *path: str) -> int | None:
    """`token_count` of a member of a report, or of a member of a member of it."""
    value: object = report
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return token_count(value)


def has_invalid_count(report: Mapping[str, Any], *names: str) -> bool:
    """Whether one of these members is present and not a valid count."""
    return any(report.get(name) is not None and token_count(report[name]) is None for name in names)


def take_at_most(count: int | None, left: int) -> tuple[int | None, int]:
    """The part of `count` that fits into `left`, and the remainder of `left`."""
    if count is None:
        return None, left
    count = min(count, left)
    return count, left - count


def take_cached(cached: int | None, prompt: int) -> tuple[int | None, int]:
    """The input that was read from a cache, and the rest of the prompt.

    quirk: where there is more of it than the prompt has, the prompt was reported without it (docs/spec/quirks.md Q42).
    """
    if cached is None or cached > prompt:
        return cached, prompt
    return cached, prompt - cached


def missing_output(total: int, prompt: int, output: int, cached: int | None, reasoning: int | None) -> int:
    """The output that only a reported total includes, which is larger than prompt and output.

    Such a total can also include cached input that the prompt does not. If it differs from the sum by just the
    `reasoning` that was reported, it does not.
    """
    missing = total - prompt - output
    if cached is not None and prompt < cached <= missing and missing != reasoning:
        missing -= cached
    return missing
