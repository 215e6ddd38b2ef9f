"""Members of a request by which the provider reads what is not in the request: caches, files, searches, its own tools.

How much that is nobody can tell by the request. Where a name is missing here a report that is more than
the request can have used is flagged and billed all the same, but a budget has reserved too little for it.
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
    """`body`: the members of the request, as they were sent. An empty object may ask for something too."""
    if REMOTE_MEMBERS.isdisjoint(body):
        return False  # nearly always
    return any(body.get(name) not in (None, False, []) for name in REMOTE_MEMBERS)
