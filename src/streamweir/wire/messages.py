"""Constants of Anthropic's Messages wire: its version, its stop reasons, its signatures.

The provider reads this wire and the frontend writes it. They do not depend on each other, so what both need is here.
"""

from typing import Any, NamedTuple

from streamweir.core.events import FinishReason
from streamweir.wire import jsonio

VERSION = "2023-06-01"
"""Sent if the caller names none."""

REASONING_FORMAT = "anthropic-claude-v1"
"""The `format` of `reasoning_details` whose signatures and data are Anthropic's own."""


class Delta(NamedTuple):
    """A kind of `content_block_delta`: the kind of block that it belongs to, and its member."""

    block: str
    member: str


DELTAS = {
    "text_delta": Delta("text", "text"),
    "citations_delta": Delta("text", "citation"),
    "thinking_delta": Delta("thinking", "thinking"),
    "signature_delta": Delta("thinking", "signature"),
    "input_json_delta": Delta("tool_use", "partial_json"),
}
"""The deltas of an answer. Those of the provider's server tools are not listed."""

STOP_REASONS = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
    "refusal": FinishReason.CONTENT_FILTER,
}
"""For reading them."""

UNFINISHED = ("pause_turn", "compaction")
"""Further stop reasons, of turns that are not finished: neither a stop nor a length."""


def read_input(text: str) -> dict[str, Any]:
    """The arguments of a call as an object. Invalid ones (cut by a length limit) are kept as text."""
    if not text.strip():
        return {}
    try:
        value = jsonio.decode(text.encode("utf-8", "surrogatepass"))
    except jsonio.InvalidJson:
        value = None
    return value if isinstance(value, dict) else {"INVALID_JSON": text}
