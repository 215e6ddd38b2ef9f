"""The amount of thinking that a Gemini model is asked for: `thinkingConfig`.

Gemini 3 takes a level, 2.5 a number of tokens, older models and other families neither. The levels and the minimum
number of tokens differ by model. If a request cannot be met, the nearest setting is used and the request is named as
dropped. If a caller requests nothing about reasoning, the model's default applies.
"""

import re
from typing import Any

from streamweir.core.request import Reasoning

_LATEST = re.compile(r"gemini-(?:pro|flash|flash-lite)-latest")
"""Names that follow the newest generation and contain no version."""
_NAME = re.compile(r"gemini-(\d{1,3})(?:\.(\d{1,3}))?(?:-|$)")

# Google's own table for `reasoning_effort` on its OpenAI-compatible address.
_BUDGETS = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24_576, "xhigh": 32_768, "max": 32_768}
_LEVELS = {"minimal": "minimal", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}


class Model:
    """What the name of a model shows about its thinking."""

    def __init__(self, name: str) -> None:
        self._name = name.rpartition("/")[2]
        found = _NAME.match(self._name)
        self.version = (int(found[1]), int(found[2] or 0)) if found else None

    @property
    def has_levels(self) -> bool:
        return bool(_LATEST.match(self._name)) or (self.version is not None and self.version >= (3, 0))

    @property
    def thinks(self) -> bool:
        """True also for a name without a version: those are recent models."""
        return self._name.startswith("gemini") and (self.version is None or self.version >= (2, 5))

    @property
    def is_pro(self) -> bool:
        return "-pro" in self._name

    @property
    def lowest_level(self) -> str:
        is_flash_with_minimal = "-flash" in self._name and self.version is not None and self.version < (3, 7)
        return "minimal" if is_flash_with_minimal or "-flash-lite" in self._name else "low"

    @property
    def budget_range(self) -> tuple[int, int]:
        if self.is_pro:
            return 128, 32_768
        return 512 if "-flash-lite" in self._name else 1, 24_576

    @property
    def can_stop_thinking(self) -> bool:
        return not self.has_levels and not self.is_pro


def thinking_config(reasoning: Reasoning | None, model: Model) -> tuple[dict[str, Any], list[str]]:
    """The config, empty if there is nothing to set, and the members of `reasoning` that could not be met."""
    if reasoning is None:
        return {}, []
    effort, budget = reasoning.effort, reasoning.max_tokens
    is_off = reasoning.enabled is False or effort == "none" or (effort is None and budget == 0)
    if not model.thinks:
        unsupported = {"effort": effort, "max_tokens": budget}
        return {}, [] if is_off else [name for name, value in unsupported.items() if value]
    if is_off and model.can_stop_thinking:
        return {"thinkingBudget": 0}, []
    dropped: list[str] = []
    config: dict[str, Any] = {}
    least, most = model.budget_range
    if is_off:
        dropped.append("enabled" if reasoning.enabled is False else "effort" if effort else "max_tokens")
        config = {"thinkingLevel": model.lowest_level} if model.has_levels else {"thinkingBudget": least}
    elif budget:
        config = {"thinkingBudget": min(max(budget, least), most)}
    elif effort in _LEVELS:
        config = (
            {"thinkingLevel": _level(_LEVELS[effort], model)}
            if model.has_levels
            else {"thinkingBudget": min(_BUDGETS[effort], most)}
        )
    elif effort is not None:
        dropped.append("effort")
    if not reasoning.exclude:
        config["includeThoughts"] = True
    return config, dropped


def _level(level: str, model: Model) -> str:
    if level == "minimal":
        return model.lowest_level
    if level == "medium" and model.version == (3, 0) and model.is_pro:
        return "high"  # 3 Pro has only low and high
    return level
