"""The token counts of the Responses wire as `Usage`.

`input_tokens` is the whole prompt, including tokens read from and written to a cache; `output_tokens` includes the
reasoning. The totals are always those that were reported: the parts are reduced to fit into them, except cached input
that is outside of the prompt (docs/spec/quirks.md Q42). A report without both totals is ignored. Searches are items of
the output (OpenAI), or in the report of other vendors. Prices that a vendor reports (OpenRouter, xAI) are not read.
"""

from collections.abc import Mapping
from typing import Any

from streamweir.core.usage import Usage, member_count, take_at_most, take_cached

CORE = ("input_tokens", "output_tokens")


_SEARCHES = (
    ("server_tool_use_details", "web_search_requests"),
    ("server_tool_use", "web_search_requests"),
    ("server_side_tool_usage_details", "web_search_calls"),
    ("tool_calls_details", "search_web", "invocation"),
)
"""Of OpenRouter (which has two names for it), xAI and Perplexity."""


def read_usage(report: Mapping[str, Any], searches: int = 0) -> Usage | None:
    """The report. None: its totals are not valid. `searches`: the items of searches in the output."""
    prompt, completion = member_count(report, "input_tokens"), member_count(report, "output_tokens")
    if prompt is None or completion is None:
        return None
    cache_read, left = take_cached(member_count(report, "input_tokens_details", "cached_tokens"), prompt)
    cache_write, left = take_at_most(member_count(report, "input_tokens_details", "cache_write_tokens"), left)
    reasoning, output = take_at_most(member_count(report, "output_tokens_details", "reasoning_tokens"), completion)
    image_input, left = take_at_most(member_count(report, "input_tokens_details", "image_tokens"), left)
    image_output, output = take_at_most(member_count(report, "output_tokens_details", "image_tokens"), output)
    return Usage(
        input_uncached=left,
        cache_read=cache_read,
        cache_write_5m=cache_write,
        output=output,
        reasoning=reasoning,
        image_input=image_input,
        image_output=image_output,
        searches=_searches(report, searches),
    )


def _searches(report: Mapping[str, Any], items: int) -> int | None:
    for path in _SEARCHES:
        count = member_count(report, *path) if path[0] in report else None
        if count is not None:
            return count
    return items or None
