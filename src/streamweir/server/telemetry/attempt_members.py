"""What is known of an attempt, as the log line and the row of the request log have it. Unknown values are left out.

Providers and callers choose the texts: they are sanitized and bounded here, once for both.
"""

from typing import Any

from streamweir.core.call_trace import CallTrace
from streamweir.core.errors import MAX_RECORDED_LENGTH
from streamweir.server.telemetry.record import AttemptRecord
from streamweir.server.telemetry.sanitize import clean, clean_id

_REPORTED = ("provider_code", "provider_type", "provider_param", "provider_message", "advice")
_STEPS = ("dns_s", "connect_s", "tls_s")


def known_members(attempt: AttemptRecord) -> dict[str, Any]:
    """All but the target, the error, the times of the attempt itself, and the resends: every attempt has these.
    Of an attempt that is over."""
    if attempt.members is None:
        attempt.members = _members_of(attempt)
    return attempt.members


def _members_of(attempt: AttemptRecord) -> dict[str, Any]:
    members: dict[str, Any] = {}
    if attempt.credential:
        members["credential"] = clean(attempt.credential)
    if attempt.status:
        members["status"] = attempt.status
    if attempt.provider_request_id is not None:
        members["provider_request_id"] = clean_id(attempt.provider_request_id)
    if attempt.first_byte_s is not None:
        members["first_byte_s"] = round(attempt.first_byte_s, 6)
    if attempt.trace is not None:
        _add_trace(members, attempt.trace)
    if attempt.error is not None:
        for name in _REPORTED:
            if (text := getattr(attempt, name)) is not None:
                members[name] = clean(text, MAX_RECORDED_LENGTH)
    return members


def _add_trace(members: dict[str, Any], trace: CallTrace) -> None:
    if trace.address:
        members["address"] = trace.address
    if trace.via_proxy:
        members["via_proxy"] = True
    members["reused"] = trace.is_reused
    if trace.is_reused:  # the steps were those of an earlier call
        return
    for name in _STEPS:
        if (seconds := getattr(trace, name)) is not None:
            members[name] = round(seconds, 6)
