"""How a request ended, in one word: the same in the log line, the metrics and the request log."""

from enum import StrEnum

from streamweir.core.errors import CallerError, GatewayFault, StreamweirError
from streamweir.core.events import FinishReason


class Verdict(StrEnum):
    COMPLETED = "completed"
    LENGTH = "length"
    FILTERED = "filtered"
    TRUNCATED = "truncated"
    IDLE_TIMEOUT = "idle_timeout"
    FIRST_TOKEN_TIMEOUT = "first_token_timeout"  # noqa: S105 (not a password)
    CLIENT_GONE = "client_gone"
    UPSTREAM_ERROR = "upstream_error"
    REJECTED = "rejected"
    DEADLINE = "deadline"
    STOPPED = "stopped"
    SHUTDOWN = "shutdown"
    GATEWAY_FAULT = "gateway_fault"
    ORPHANED = "orphaned"


_OF_CODE = {
    "upstream_stream_truncated": Verdict.TRUNCATED,
    "upstream_stream_reset": Verdict.TRUNCATED,
    "upstream_empty_response": Verdict.TRUNCATED,
    "stream_idle_timeout": Verdict.IDLE_TIMEOUT,
    "upstream_timeout": Verdict.FIRST_TOKEN_TIMEOUT,
    "stream_deadline_exceeded": Verdict.DEADLINE,
    "no_available_deployment": Verdict.REJECTED,  # no upstream was called: docs/spec/failures.md U39
    "key_revoked": Verdict.STOPPED,
    "budget_exceeded": Verdict.STOPPED,
    "stopped_by_operator": Verdict.STOPPED,
    "ledger_unavailable": Verdict.REJECTED,
    "overloaded": Verdict.REJECTED,
    "server_shutting_down": Verdict.SHUTDOWN,
}


def verdict_of_error(error: StreamweirError) -> Verdict:
    verdict = _OF_CODE.get(error.code)
    if verdict is not None:
        return verdict
    if isinstance(error, CallerError):
        return Verdict.REJECTED
    return Verdict.GATEWAY_FAULT if isinstance(error, GatewayFault) else Verdict.UPSTREAM_ERROR


def verdict_of_finish(reasons: set[FinishReason]) -> Verdict:
    """The verdict of a complete answer: stopped by its length limit, by a filter, or by the model."""
    if FinishReason.LENGTH in reasons:
        return Verdict.LENGTH
    if FinishReason.CONTENT_FILTER in reasons:
        return Verdict.FILTERED
    return Verdict.COMPLETED
