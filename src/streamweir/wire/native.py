"""The wires that can be passed on byte for byte, by name.

A provider declares which of them it writes exactly, a frontend which of them is its own. Neither knows the other:
where both name the same one, frames may go out as they came (`pipeline.native`).
"""

from enum import StrEnum


class NativeWire(StrEnum):
    OPENAI_CHAT = "openai_chat"
    """Chat completions as OpenAI itself streams them."""
