"""The maximum output tokens of models, by name, as the vendors document them.

Most vendors refuse a limit above the maximum. `documented_output_limit` is that maximum. A caller's limit is lowered
to it, so it must not be too low: it is listed only if it is the same for every host of the model. `output_limit` is
used for a limit that the gateway sets because the caller set none. It must not be too high, and is known for more
models. An unknown name gives None.
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
def documented_output_limit(model: str) -> int | None:
    name = model.lower()
    if "claude" in name:
        traits = traits_of(name)
        return None if traits is UNKNOWN else traits.max_output_tokens
    return _find(_DOCUMENTED, name)


@lru_cache(maxsize=1024)
def output_limit(model: str) -> int | None:
    name = model.lower()
    if "claude" in name:
        return traits_of(name).max_output_tokens
    return documented_output_limit(model) or _find(_CAREFUL, name)


def _find(rows: _Rows, name: str) -> int | None:
    return next((tokens for pattern, tokens in rows if pattern.search(name)), None)
