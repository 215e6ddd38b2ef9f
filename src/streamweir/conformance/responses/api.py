"""The requirements for a Responses endpoint: members of the response and its items, events, reasons and error codes.

Ids, reasons of an incomplete answer and codes of errors are those of the gateway's own frontend, so the writer and
the checker agree. Members are those that the typed clients of the API cannot do without.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from streamweir.frontends.responses.errors import STREAM_ERRORS
from streamweir.frontends.responses.output import ITEM_PREFIXES
from streamweir.wire.responses import INCOMPLETE_REASONS, INPUTS, PARTS, TEXTS

PART_TEXTS = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text", "summary_text": "text"}
"""Kinds of parts, and the member that has the text."""
BEGINNING = ("response.created", "response.queued", "response.in_progress")
END_STATUSES = {"completed": "response.completed", "incomplete": "response.incomplete", "failed": "response.failed"}
TERMINAL = tuple(END_STATUSES.values())
OTHER = ("response.output_item.added", "response.output_item.done", "response.output_text.annotation.added")
KNOWN = frozenset(
    [*BEGINNING, *TERMINAL, *OTHER, "error", "keepalive"]
    + [f"{kind}.{change}" for kind in (*TEXTS, *INPUTS) for change in ("delta", "done")]
    + [f"{kind}.{change}" for kind in PARTS for change in ("added", "done")]
)
OF_TOOLS = re.compile(r"response\.([a-z]+_)*(call|list|audio)(_[a-z]+)*\.[a-z_.]+")
"""Events of the tools that the provider itself runs, and of audio."""


class ResponsesApi(Struct, frozen=True, kw_only=True):
    name: str = "responses"
    response: Mapping[str, Any]
    """The members of a response, with values of the right types."""
    items: Mapping[str, Mapping[str, Any]]
    """By kind: the members of an item, with values of the right types."""
    prefixes: Mapping[str, str]
    """By kind: how the id of an item begins."""
    response_prefix: str = "resp_"
    incomplete_reasons: frozenset[str]
    usage_counts: tuple[str, ...] = ("input_tokens", "output_tokens", "total_tokens")
    usage_details: Mapping[str, str]
    """Details of usage, and the count in each."""
    stream_codes: frozenset[str]
    """Of an error inside a stream."""


RESPONSES_API = ResponsesApi(
    response={
        "id": "",
        "object": "",
        "created_at": None,
        "status": "",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": "",
        "output": [],
        "parallel_tool_calls": None,
        "temperature": None,
        "tool_choice": None,
        "tools": [],
        "top_p": None,
        "metadata": None,
    },
    items={
        "message": {"id": "", "status": "", "role": "", "content": []},
        "reasoning": {"id": "", "summary": []},
        "function_call": {"id": "", "call_id": "", "name": "", "arguments": ""},
        "custom_tool_call": {"id": "", "call_id": "", "name": "", "input": ""},
    },
    prefixes=ITEM_PREFIXES,
    incomplete_reasons=frozenset(INCOMPLETE_REASONS),
    usage_details={"input_tokens_details": "cached_tokens", "output_tokens_details": "reasoning_tokens"},
    stream_codes=frozenset({"server_error", "invalid_prompt", *(names.code for names in STREAM_ERRORS.values())}),
)
