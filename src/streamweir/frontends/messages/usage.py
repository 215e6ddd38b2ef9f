"""The usage object of the Messages API: `input_tokens` has no input that was read from or written to a cache."""

from typing import Any

from streamweir.core.usage import Usage


def usage_object(usage: Usage, *, with_buckets: bool) -> dict[str, Any]:
    """`with_buckets`: with cache writes by their time to live, which a `message_delta` does not contain."""
    shown: dict[str, Any] = {
        "input_tokens": usage.input_uncached + (usage.audio_input or 0) + (usage.image_input or 0),
        "cache_creation_input_tokens": usage.cache_write or 0,
        "cache_read_input_tokens": usage.cache_read or 0,
    }
    if with_buckets and usage.cache_write is not None:
        shown["cache_creation"] = {
            "ephemeral_5m_input_tokens": usage.cache_write_5m or 0,
            "ephemeral_1h_input_tokens": usage.cache_write_1h or 0,
        }
    shown["output_tokens"] = usage.completion_tokens
    if usage.reasoning is not None:
        shown["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return shown
