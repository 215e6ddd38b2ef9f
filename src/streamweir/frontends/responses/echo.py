"""The response object: members of the request, and the state of the answer.

The values of the request are repeated, or their defaults. Members of what the gateway does not do are not repeated:
nothing is stored or truncated, and calls are not counted. In a stream neither the instructions nor the tools are
repeated: they would be in it three times, and no client reads them there. A member that makes it very large is not
repeated either: a request can have megabytes of it, and the answer is encoded on the event loop.
"""

from collections.abc import Mapping
from typing import Any

from streamweir.core.usage import Usage
from streamweir.frontends.base import Reply, with_cost
from streamweir.frontends.responses.usage import usage_object
from streamweir.wire import jsonio

Document = dict[str, Any]

_DEFAULTS: Document = {
    "instructions": None,
    "max_output_tokens": None,
    "parallel_tool_calls": True,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "auto",
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "user": None,
    "metadata": {},
}
_ONLY_WHOLE = ("instructions", "tools")
MAX_ECHOED = 256 * 1024
"""Bytes of all members that are repeated, as JSON."""


def echo_of(document: Mapping[str, Any]) -> Document:
    """Of a valid request."""
    names = [name for name in _DEFAULTS if not (document.get("stream") and name in _ONLY_WHOLE)]
    echo: Document = {}
    left = MAX_ECHOED
    for name in names:
        value = document.get(name)
        if value is not None and (size := len(jsonio.encode(value))) <= left:
            echo[name] = value
            left -= size
    reasoning = echo.get("reasoning")
    if reasoning is not None:
        echo["reasoning"] = {name: reasoning.get(name) for name in ("effort", "summary")}
    if "text" in echo and not isinstance(echo["text"].get("format"), dict):
        echo["text"] = {**echo["text"], "format": {"type": "text"}}
    return echo


class ResponseState:
    """What changes in the course of an answer."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._created = reply.created if reply.created is not None else reply.now()
        self.service_tier: str | None = None
        """As the upstream reported it."""

    def document(
        self,
        status: str,
        output: list[Document],
        usage: Usage | None = None,
        *,
        error: Document | None = None,
        reason: str | None = None,
    ) -> Document:
        """`reason`: why it is incomplete."""
        reply = self._reply
        values = {**_DEFAULTS, **(reply.echoed or {})}
        if self.service_tier is not None:
            values["service_tier"] = self.service_tier
        return {
            "id": reply.id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "background": False,
            "completed_at": reply.now() if status == "completed" else None,
            "error": error,
            "incomplete_details": {"reason": reason} if reason is not None else None,
            "instructions": values["instructions"],
            "max_output_tokens": values["max_output_tokens"],
            "max_tool_calls": None,
            "model": reply.model or reply.target_model,
            "output": output,
            "parallel_tool_calls": values["parallel_tool_calls"],
            "previous_response_id": None,
            "prompt_cache_key": values["prompt_cache_key"],
            "reasoning": values["reasoning"],
            "safety_identifier": values["safety_identifier"],
            "service_tier": values["service_tier"],
            "store": False,
            "temperature": values["temperature"],
            "text": values["text"],
            "tool_choice": values["tool_choice"],
            "tools": values["tools"],
            "top_logprobs": values["top_logprobs"],
            "top_p": values["top_p"],
            "truncation": "disabled",
            "usage": self._usage(usage, error) if usage is not None else None,
            "user": values["user"],
            "metadata": values["metadata"],
        }

    def _usage(self, usage: Usage, error: Document | None) -> Document:
        """What is settled for an answer that failed is not known yet."""
        shown = usage_object(usage)
        return with_cost(shown, usage, self._reply) if error is None else shown
