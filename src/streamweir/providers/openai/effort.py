"""The value of `reasoning_effort` for a request that came in another API's format.

A caller of chat completions uses a value from the model's documentation, and it is sent unchanged. A caller of another
API does not know the target's model, and requests an effort in nearly every request. A value that the model does not
support, or any value for a model without reasoning, would be answered with an error.
"""

import re

_ORDER = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_USUAL = frozenset({"none", "low", "medium", "high"})
_OPENAI = tuple(
    (re.compile(rf"(?:^|[/.]){pattern}"), frozenset(words.split()))
    for pattern, words in (
        (r"(?:gpt-[34]|chatgpt-)", ""),
        (r"gpt-5(?:\.\d+)?-chat", ""),
        (r"gpt-5-pro", "high"),
        (r"gpt-5(?:-|$)", "minimal low medium high"),
        (r"gpt-5\.1-codex-max", "low medium high xhigh"),
        (r"gpt-5\.1(?:-|$)", "none low medium high"),
        (r"gpt-5\.\d", "none low medium high xhigh"),
        (r"o[134](?:-|$)", "low medium high"),
    )
)
"""The efforts of OpenAI's models, at any host: the first pattern that matches counts."""


def efforts_of(model: str) -> frozenset[str]:
    return next((words for pattern, words in _OPENAI if pattern.search(model)), _USUAL)


def nearest_effort(effort: str, words: frozenset[str]) -> str | None:
    """The value itself, else the next lower one; for `none`, the lowest. None: there is none, or it is not known."""
    if effort in words:
        return effort
    if effort not in _ORDER:
        return None
    lower = _ORDER[1 : _ORDER.index(effort)] if effort != "none" else _ORDER[:0:-1]
    return next((word for word in reversed(lower) if word in words), None)
