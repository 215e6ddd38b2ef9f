"""The wire formats that can be passed on byte for byte, by name.

A provider declares which of them it writes exactly, a frontend which of them is its own. Neither depends on the other:
if both name the same format, frames may be passed on unchanged (`pipeline.native`).
"""

from enum import StrEnum


class NativeWire(StrEnum):
    OPENAI_CHAT = "openai_chat"
    """Chat completions as OpenAI itself streams them."""
    ANTHROPIC_MESSAGES = "anthropic_messages"
    """Anthropic's Messages, at any host."""
    OPENAI_RESPONSES = "openai_responses"
    """OpenAI's Responses, at any host."""
