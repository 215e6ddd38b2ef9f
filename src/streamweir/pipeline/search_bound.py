"""How many searches of the web a reservation covers: those that a request allows its provider.

Providers charge for each search beside the tokens. Anthropic's tool has a limit (`max_uses`), and the Responses API has
one for all tools (`max_tool_calls`). Without one, and for models that search without being asked to, `SEARCHES` are
covered. A request that does not ask for searches covers none.
"""

import re
from collections.abc import Iterable
from typing import Any

from streamweir.core.request import ChatRequest
from streamweir.pipeline.plausibility import MAX_SEARCHES

SEARCHES = 10
"""If nothing limits them. More are billed as well, but were not reserved."""

_MEMBERS = frozenset({"enable_search", "plugins", "search_parameters", "web_search_options"})
"""Of chat completions, by which vendors are asked to search."""
_TOOL = re.compile(r"web_?search|google_?search|live_search", re.IGNORECASE)
_SEARCHING_MODEL = re.compile(r"sonar|search|deep-research|:online\b", re.IGNORECASE)


def searches_of(request: ChatRequest) -> int:
    if request.native is not None:
        tools = request.native.body.get("tools")
        return _searches_of_tools(tools, request.native.body) if isinstance(tools, list) else 0
    body = request.body
    if not _MEMBERS.isdisjoint(body) and any(body.get(name) not in (None, False, []) for name in _MEMBERS):
        return SEARCHES  # an empty object asks for them, too
    for tool in request.tools:
        if tool.function is None and tool.custom is None and _TOOL.search(tool.type):
            return SEARCHES
    return 0


def searches_unasked(targets: Iterable[str]) -> int:
    """For the targets of a route (`{provider}/{model}`), whatever a request asks for."""
    return SEARCHES if _SEARCHING_MODEL.search("\n".join(targets)) is not None else 0


def _searches_of_tools(tools: list[Any], body: dict[str, Any]) -> int:
    searches = 0
    for tool in tools:
        kind = tool.get("type") if isinstance(tool, dict) else None
        if isinstance(kind, str) and _TOOL.match(kind):
            limits = [*_limit(tool, "max_uses"), *_limit(body, "max_tool_calls")]
            searches += min([*limits, MAX_SEARCHES]) if limits else SEARCHES
    return searches


def _limit(members: dict[str, Any], name: str) -> list[int]:
    value = members.get(name)
    return [value] if isinstance(value, int) and not isinstance(value, bool) and value > 0 else []
