"""Converse's token counts, in the categories of `core.usage`.

They are reported once, at the end. `inputTokens` does not include cached input; `outputTokens` includes reasoning,
which is not reported separately. A report with an invalid core count is ignored.

Streams of OpenAI's models differ (`repeats_cached_input`): `inputTokens` is the whole prompt, its cached part is
reported besides, and `totalTokens` counts that part twice. Of another model the same numbers mean a longer prompt
(fixture bedrock/cached_input_besides_the_prompt), so the model decides, and not the numbers. Whole answers of these
models are as documented.
"""

from collections.abc import Mapping
from typing import Any

from streamweir.core.usage import Usage, has_invalid_count, member_count
from streamweir.providers.members import objects_in

CORE = ("inputTokens", "outputTokens")


def usage_of(report: Mapping[str, Any], *, repeats_cached_input: bool = False) -> Usage | None:
    """None: the report is invalid or incomplete."""
    if has_invalid_count(report, *CORE):
        return None
    prompt, output = member_count(report, "inputTokens"), member_count(report, "outputTokens")
    if prompt is None or output is None:
        return None
    read, write = (_either(report, f"cache{kind}InputTokens") for kind in ("Read", "Write"))
    cached = (read or 0) + (write or 0)
    if 0 < cached <= prompt and (repeats_cached_input or member_count(report, "totalTokens") == prompt + output):
        # quirk: the prompt was reported with its cached part. Of most models only the total shows that
        # (fixtures bedrock/cached_input_inside_the_prompt, bedrock-openai/cached_input_repeated).
        prompt -= cached
    write_1h = _long_writes(report)
    if write is not None and write_1h is not None:
        write_1h = min(write_1h, write)
    return Usage(
        input_uncached=prompt,
        cache_read=read,
        cache_write_5m=None if write is None else write - (write_1h or 0),
        cache_write_1h=write_1h,
        output=output,
    )


def _either(report: Mapping[str, Any], name: str) -> int | None:
    """A count, which an older version of the API calls otherwise. Both are sent today."""
    count = member_count(report, name)
    return member_count(report, name.removesuffix("s") + "Count") if count is None else count


def _long_writes(report: Mapping[str, Any]) -> int | None:
    """What was written to the cache for one hour; None if it is not said."""
    counts = [
        member_count(detail, "inputTokens")
        for detail in objects_in(report, "cacheDetails")
        if detail.get("ttl") == "1h"
    ]
    valid = [count for count in counts if count is not None]
    return sum(valid) if valid else None
