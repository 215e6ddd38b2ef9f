"""Finish reasons: the vendors' values to `FinishReason`.

An unknown value is `OTHER` and is kept as it was sent. Some values mean that the answer was broken off: those are
failures, because a broken answer must never look complete.
"""

from streamweir.core.errors import StreamweirError
from streamweir.core.events import FinishReason
from streamweir.providers.failure import ErrorDetails, classify

_REASONS = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "eos_token": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "stop_token": FinishReason.STOP,
    "complete": FinishReason.STOP,
    "completed": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "max_length": FinishReason.LENGTH,
    "max_output_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "tool_call": FinishReason.TOOL_CALLS,
    "tool_use": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.FUNCTION_CALL,
    "content_filter": FinishReason.CONTENT_FILTER,
    "content_filtered": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "sensitive": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.CONTENT_FILTER,
    "recitation": FinishReason.CONTENT_FILTER,
}

_FAILURES = {
    # The HTTP status that corresponds to the interruption.
    "error": 500,
    "abort": 500,
    "network_error": 500,
    "insufficient_system_resource": 503,
}


def read_finish(finish_reason: str) -> FinishReason:
    return _REASONS.get(finish_reason.lower(), FinishReason.OTHER)


def failure_of(finish_reason: str) -> StreamweirError | None:
    """The failure that this finish reason stands for, if any."""
    status = _FAILURES.get(finish_reason.lower())
    return None if status is None else classify(ErrorDetails(None), status)
