"""Members of a request that make the provider read content outside the request: caches, files, searches, its own tools.

The size of that content cannot be derived from the request. If a name is missing here, a usage report that exceeds
the request is flagged and billed all the same, but the budget has reserved too little for it.
"""

from collections.abc import Mapping
from typing import Any

REMOTE_MEMBERS = frozenset(
    {
        "attachments",
        "cachedContent",
        "cached_content",
        "connectors",
        "container",
        "context_id",
        "conversation",
        "data_sources",
        "documents",
        "enable_search",
        "file_ids",
        "mcp_servers",
        "plugins",
        "previous_response_id",
        "prompt",
        "search_parameters",
        "web_search_options",
    }
)


def references_remote_content(body: Mapping[str, Any]) -> bool:
    """`body`: the members of the request, unchanged. An empty object counts as a value."""
    if REMOTE_MEMBERS.isdisjoint(body):
        return False  # nearly always
    return any(body.get(name) not in (None, False, []) for name in REMOTE_MEMBERS)
