"""Requests to Anthropic, from the body that a caller would send."""

import json
from typing import Any

from streamweir.core.request import read_request
from streamweir.providers.anthropic import PROVIDER
from streamweir.providers.base import Target, UpstreamRequest

USER = {"role": "user", "content": "Hi"}
OLD = "claude-sonnet-4-5-20250929"
"""Takes what most models took: a budget, sampling, schemas, forced tools."""


def build(body: dict[str, Any], model: str = OLD) -> UpstreamRequest:
    request = read_request({"model": "any", "messages": [USER], **body})
    return PROVIDER.build_request(request, Target(model=model, api_key="sk-ant-1"))


def sent(body: dict[str, Any], model: str = OLD) -> dict[str, Any]:
    """The body, without the members that every one of them has."""
    members: dict[str, Any] = json.loads(build(body, model).body)
    assert members.pop("model") == model
    assert members.pop("max_tokens") > 0
    if "messages" not in body:
        assert members.pop("messages") == [USER]
    return members
