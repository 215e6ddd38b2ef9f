"""What everybody who speaks Anthropic's Messages wire must agree on: its version, its stop reasons, its signatures.

The provider reads this wire and the frontend writes it. Neither knows the other, so what both need stands here.
"""

from streamweir.core.events import FinishReason

VERSION = "2023-06-01"
"""Sent where the caller names none."""

REASONING_FORMAT = "anthropic-claude-v1"
"""The `format` of `reasoning_details` whose signatures and data are Anthropic's own."""

STOP_REASONS = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
    "refusal": FinishReason.CONTENT_FILTER,
}
"""As they are read."""

UNFINISHED = ("pause_turn", "compaction")
"""Further stop reasons, of turns that are not at their end: neither a stop nor a length."""
