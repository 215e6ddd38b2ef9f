"""Names of OpenAI's Responses wire: reasons for an end, the format of reasoning, events of texts.

The provider reads this wire and the frontend writes it; the client and the checker read what the frontend writes.
They do not import each other, so the common names are here.
"""

from collections.abc import Mapping

from msgspec import Struct

from streamweir.core.events import FinishReason

REASONING_FORMAT = "openai-responses-v1"
"""The `format` of `reasoning_details` whose encrypted content is OpenAI's own."""

INCOMPLETE_REASONS = {
    "max_output_tokens": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}
"""As they are read: why an answer is `incomplete`."""


class Text(Struct, frozen=True):
    """Events of a text: `KIND.delta` for each piece, then `KIND.done` with all of it."""

    index: str
    """The member with the index of its part."""
    member: str
    """Of `.done`, which has the whole text."""
    part: str
    item: str


class Input(Struct, frozen=True):
    """Events of the input of a tool call."""

    member: str
    """Of `.done` and of the item."""
    item: str


TEXTS: Mapping[str, Text] = {
    "response.output_text": Text("content_index", "text", "output_text", "message"),
    "response.refusal": Text("content_index", "refusal", "refusal", "message"),
    "response.reasoning_text": Text("content_index", "text", "reasoning_text", "reasoning"),
    "response.reasoning_summary_text": Text("summary_index", "text", "summary_text", "reasoning"),
}
INPUTS: Mapping[str, Input] = {
    "response.function_call_arguments": Input("arguments", "function_call"),
    "response.custom_tool_call_input": Input("input", "custom_tool_call"),
}
PARTS: Mapping[str, str] = {
    "response.content_part": "content_index",
    "response.reasoning_summary_part": "summary_index",
}
"""Events of a part, and the member with its index."""
