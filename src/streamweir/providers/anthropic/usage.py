"""Anthropic's token counts, in the categories of `core.usage`.

Counts are reported twice, in message_start and in message_delta, and each report can lack fields that the other has.
Both are cumulative, so the newest value of each field is correct, and nothing is added up. Anthropic's `input_tokens`
does not include cached input; its `output_tokens` includes thinking. A report with an invalid core count is ignored.
"""

from collections.abc import Mapping
from typing import Any

from streamweir.core.usage import Usage, has_invalid_count, member_count

CORE = ("input_tokens", "output_tokens")


class UsageFold:
    """The newest value of each field."""

    __slots__ = ("_cache_read", "_cache_write", "_input", "_output", "_searches", "_thinking", "_write_1h", "_write_5m")

    def __init__(self) -> None:
        self._input: int | None = None
        self._output: int | None = None
        self._thinking: int | None = None
        self._cache_read: int | None = None
        self._cache_write: int | None = None
        self._write_5m: int | None = None
        self._write_1h: int | None = None
        self._searches: int | None = None

    def add(self, report: Mapping[str, Any]) -> Usage | None:
        """The usage after this report; None if it is invalid or not all counts are known yet."""
        if has_invalid_count(report, *CORE):
            return None
        self._input = _newest(self._input, report, "input_tokens")
        self._output = _newest(self._output, report, "output_tokens")
        self._thinking = _newest(self._thinking, report, "output_tokens_details", "thinking_tokens")
        self._cache_read = _newest(self._cache_read, report, "cache_read_input_tokens")
        self._cache_write = _newest(self._cache_write, report, "cache_creation_input_tokens")
        self._write_5m = _newest(self._write_5m, report, "cache_creation", "ephemeral_5m_input_tokens")
        self._write_1h = _newest(self._write_1h, report, "cache_creation", "ephemeral_1h_input_tokens")
        self._searches = _newest(self._searches, report, "server_tool_use", "web_search_requests")
        return self._usage()

    def _usage(self) -> Usage | None:
        if self._input is None or self._output is None:
            return None
        reasoning = None if self._thinking is None else min(self._thinking, self._output)
        write_5m, write_1h = self._writes()
        return Usage(
            input_uncached=self._input,
            cache_read=self._cache_read,
            cache_write_5m=write_5m,
            cache_write_1h=write_1h,
            output=self._output - (reasoning or 0),
            reasoning=reasoning,
            searches=self._searches,
        )

    def _writes(self) -> tuple[int | None, int | None]:
        """Cache writes by their time to live.

        Only message_start has the split; both have the total. Tokens by which the total has grown since are counted
        like the known writes: for one hour if all of them were, else for five minutes.
        """
        total, write_5m, write_1h = self._cache_write, self._write_5m, self._write_1h
        if total is None:
            return write_5m, write_1h
        if write_1h is None:
            return total, None
        write_1h = total if write_1h and not write_5m else min(write_1h, total)
        return total - write_1h, write_1h


def _newest(known: int | None, report: Mapping[str, Any], *path: str) -> int | None:
    count = member_count(report, *path)
    return known if count is None else count
