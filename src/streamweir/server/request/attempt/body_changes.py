"""Applies the operator's `defaults`, `override` and `drop` to the bodies of a request that is ready to be sent.

This is the last step before sending, for every API: nothing else writes into a body after it. A member that was dropped
is named to the caller as others are that the provider does not support, but only if the caller had sent it.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from streamweir.pipeline.body_members import Path
from streamweir.pipeline.body_rules import BodyRules, apply_rules
from streamweir.providers.base import UpstreamRequest

_CAPITAL = re.compile(r"(?<=[a-z0-9])[A-Z]")
_REASONING = ("reasoning", "reasoning_effort")
_OTHER_NAMES: dict[str, tuple[str, ...]] = {
    "effort": _REASONING,
    "enable_thinking": _REASONING,
    "max_reasoning_effort": _REASONING,
    "output_config": (*_REASONING, "response_format"),
    "reasoning": _REASONING,
    "reasoning_config": _REASONING,
    "reasoning_effort": _REASONING,
    "stop_sequences": ("stop",),
    "thinking": _REASONING,
    "thinking_budget": _REASONING,
    "thinking_config": _REASONING,
    "thinking_level": _REASONING,
    "text": ("response_format", "verbosity"),
    "response_mime_type": ("response_format",),
    "response_json_schema": ("response_format",),
    "text_format": ("response_format",),
    "tool_config": ("tools", "functions"),
    "metadata": ("metadata", "user", "safety_identifier"),
    "request_metadata": ("metadata",),
}
"""Members that providers have, and those of chat completions from which they come, where the names differ."""


def with_rules(request: UpstreamRequest, rules: BodyRules, sent: Mapping[str, Any]) -> UpstreamRequest:
    """`sent`: the caller's own body."""
    body, dropped = apply_rules(request.body, rules)
    more = tuple([apply_rules(each, rules)[0] for each in request.more])
    named = [name for path in dropped if (name := _callers_name(path, sent)) is not None]
    return structs.replace(request, body=body, more=more, dropped=tuple(dict.fromkeys((*request.dropped, *named))))


def _callers_name(path: Path, sent: Mapping[str, Any]) -> str | None:
    """The path by which the caller has sent this member. None: it did not."""
    inside: Any = sent
    for name in path:
        inside = inside.get(name) if isinstance(inside, Mapping) else None
    if inside is not None:
        return ".".join(path)
    own = _CAPITAL.sub(lambda found: f"_{found[0].lower()}", path[-1])
    return next((name for name in _OTHER_NAMES.get(own, (own,)) if sent.get(name) is not None), None)
