"""The longest answer that a model gives, by its name, as the vendors document it.

A limit above it is refused by most of them, so a limit that the gateway sets stays below. A name that
is not here says nothing: None.
"""

import re
from functools import lru_cache

from streamweir.providers.anthropic.model import traits_of

_ROWS = tuple(
    (re.compile(pattern), tokens)
    for pattern, tokens in (
        # The first that is found in the name counts.
        (r"(^|[/.])gpt-5(?!.*-chat)", 128_000),
        (r"(^|[/.])gpt-5.*-chat", 16_384),
        (r"(^|[/.])gpt-4\.1", 32_768),
        (r"(^|[/.])(chat)?gpt-4o-2024-05-13", 4096),
        (r"(^|[/.])(chat)?gpt-4(o|\.5)", 16_384),
        (r"(^|[/.])gpt-4-(turbo|1106|0125|vision)", 4096),
        (r"(^|[/.])gpt-(4|3\.5)", 4096),
        (r"(^|[/.])o1-preview", 32_768),
        (r"(^|[/.])o1-mini", 65_536),
        (r"(^|[/.])o[134](-|$)", 100_000),
        (r"gemini-.*-(tts|audio|live)(-|$)", 8192),
        (r"gemini-[2-9].*-image(-|$)", 32_767),
        (r"gemini-(1|2\.0)", 8192),
        (r"gemini-(2\.5|[3-9])", 65_535),
        (r"deepseek-reasoner", 32_768),
        (r"deepseek-chat", 8192),
    )
)


@lru_cache(maxsize=1024)
def longest_answer(model: str) -> int | None:
    name = model.lower()
    if "claude" in name:
        return traits_of(name).most_output_tokens
    return next((tokens for pattern, tokens in _ROWS if pattern.search(name)), None)
