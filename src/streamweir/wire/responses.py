"""What everybody who speaks OpenAI's Responses wire must agree on: its reasons for an end, and its reasoning's format.

The provider reads this wire and the frontend writes it. Neither knows the other, so what both need stands here.
"""

from streamweir.core.events import FinishReason

REASONING_FORMAT = "openai-responses-v1"
"""The `format` of `reasoning_details` whose encrypted content is OpenAI's own."""

INCOMPLETE_REASONS = {
    "max_output_tokens": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}
"""As they are read: why an answer is `incomplete`."""
