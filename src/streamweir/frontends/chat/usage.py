"""The usage object of a dialect, derived from the categories of `core.usage`, which do not overlap.

`total_tokens` is always the sum of the other two. Input that was read from or written to the cache is part of
the prompt, reasoning is part of the completion. The details show the values that were reported.
"""

from collections.abc import Mapping
from typing import Any

from streamweir.core.usage import Usage
from streamweir.frontends.chat.dialect import Dialect


def usage_object(usage: Usage, dialect: Dialect) -> dict[str, Any]:
    document: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }
    prompt = _details(usage, dialect, dialect.prompt_details or {}, usage.prompt_details)
    completion = _details(usage, dialect, dialect.completion_details or {}, usage.completion_details)
    if dialect.full_details:  # docs/spec/dialects.md D14: its order
        details = {"completion_tokens_details": completion, "prompt_tokens_details": prompt}
    else:
        details = {"prompt_tokens_details": prompt, "completion_tokens_details": completion}
    document.update((name, members) for name, members in details.items() if members)
    return document


def _details(
    usage: Usage, dialect: Dialect, members: Mapping[str, str], as_reported: dict[str, Any] | None
) -> dict[str, Any]:
    if not dialect.full_details:
        return _reported_details(usage, members)
    if usage.openai_style:
        return as_reported or _reported_details(usage, members)
    return {name: getattr(usage, bucket) or 0 for name, bucket in members.items()}


def _reported_details(usage: Usage, members: Mapping[str, str]) -> dict[str, Any]:
    return {name: value for name, bucket in members.items() if (value := getattr(usage, bucket)) is not None}
