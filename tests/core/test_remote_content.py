"""Requests that let a provider read what is not in them."""

from typing import Any

import pytest

from streamweir.core.remote_content import references_remote_content


@pytest.mark.parametrize(
    "members",
    [
        {"cached_content": "cachedContents/abc"},
        {"cachedContent": "cachedContents/abc"},
        {"mcp_servers": [{"type": "url", "url": "https://mcp.example.com", "name": "x"}]},
        {"container": "container_1"},
        {"web_search_options": {}},
        {"previous_response_id": "resp_1"},
        {"plugins": [{"id": "web"}], "mcp_servers": []},
    ],
)
def test_it_names_some(members: dict[str, Any]) -> None:
    assert references_remote_content({"model": "m", "messages": [], **members})


@pytest.mark.parametrize(
    "members", [{}, {"temperature": 1, "metadata": {}}, {"mcp_servers": []}, {"cached_content": None}]
)
def test_it_names_none(members: dict[str, Any]) -> None:
    assert not references_remote_content({"model": "m", "messages": [], **members})
