"""The longest answer that a model gives, by its name, as the vendors document it.

A limit above it is refused by most of them. `most_output` is that maximum: what a caller asks for beyond it is lowered
to it, so it must not be too low, and stands here only where it is the same whoever serves the model. `longest_answer`
is for a limit that the gateway sets where the caller set none: it must not be too high, and is known of more models.
A name that is not here says nothing: None.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from streamweir.providers.anthropic.model import UNKNOWN, traits_of

_Rows = tuple[tuple[re.Pattern[str], int], ...]


def _rows(rows: Iterable[tuple[str, int]]) -> _Rows:
    """The first that is found in the name counts."""
    return tuple((re.compile(pattern), tokens) for pattern, tokens in rows)


_DOCUMENTED = _rows(
    (
        (r"(^|[/.])gpt-5-pro", 272_000),
        (r"(^|[/.])gpt-5(?!.*-chat)", 128_000),
        (r"(^|[/.])gpt-5.*-chat", 16_384),
        (r"(^|[/.])gpt-4\.1", 32_768),
        (r"(^|[/.])(chat)?gpt-4o-2024-05-13", 4096),
        (r"(^|[/.])(chat)?gpt-4(o|\.5)", 16_384),
        (r"(^|[/.])gpt-4-(turbo|1106|0125|vision)", 4096),
        (r"(^|[/.])gpt-4(-0314|-0613)?$", 8192),
        (r"(^|[/.])gpt-3\.5-turbo(-0125|-1106)?$", 4096),
        (r"(^|[/.])o1-preview", 32_768),
        (r"(^|[/.])o1-mini", 65_536),
        (r"(^|[/.])o[134](-|$)", 100_000),
        (r"gemini-.*-(audio|live)(-|$)", 8192),
        (r"gemini-[2-9].*-image(-|$)", 32_767),
        (r"gemini-(1\.|2\.0)(?!.*-thinking)", 8192),
        (r"gemini-(2\.5|[3-9])(?!.*-tts)", 65_535),
    )
)
_CAREFUL = _rows(
    (
        (r"(^|[/.])gpt-(4|3\.5)", 4096),
        (r"gemini-.*-tts(-|$)", 8192),
        (r"gemini-(1|2\.0)", 8192),
        # Names that follow the vendor's newest model, and are served by others too.
        (r"deepseek-reasoner", 32_768),
        (r"deepseek-chat", 8192),
    )
)


@lru_cache(maxsize=1024)
def most_output(model: str) -> int | None:
    name = model.lower()
    if "claude" in name:
        traits = traits_of(name)
        return None if traits is UNKNOWN else traits.most_output_tokens
    return _find(_DOCUMENTED, name)


@lru_cache(maxsize=1024)
def longest_answer(model: str) -> int | None:
    name = model.lower()
    if "claude" in name:
        return traits_of(name).most_output_tokens
    return most_output(model) or _find(_CAREFUL, name)


def _find(rows: _Rows, name: str) -> int | None:
    return next((tokens for pattern, tokens in rows if pattern.search(name)), None)
