"""Formats an attempt of a request: which target was tried, what it answered, and over which connection.

The row is JSON that an older version may have written, so nothing of it is relied on. All of it is sanitized.
"""

from typing import Any

from streamweir.cli.view.table import duration
from streamweir.core.errors import MAX_RECORDED_LENGTH
from streamweir.server.telemetry.sanitize import clean, clean_id

_STEPS = (("dns_s", "dns"), ("connect_s", "connect"), ("tls_s", "tls"))


def attempt_facts(attempt: Any) -> list[tuple[str, str | None]]:
    """The attempt, and below it what is known of it."""
    if not isinstance(attempt, dict):
        return [("attempt", clean(str(attempt)))]
    request_id, advice = attempt.get("provider_request_id"), attempt.get("advice")
    return [
        ("attempt", _summary(attempt)),
        ("  answer", _answer(attempt)),
        ("  advice", clean(advice, MAX_RECORDED_LENGTH) if isinstance(advice, str) else None),
        ("  provider's id", clean_id(request_id) if isinstance(request_id, str) else None),
        ("  connection", _connection(attempt)),
    ]


def _summary(attempt: dict[str, Any]) -> str:
    error, resends, credential = attempt.get("error"), attempt.get("resends"), attempt.get("credential")
    parts = [str(attempt.get("target"))]
    if credential:
        parts.append(f"credential {credential}")
    parts.append(str(error) if error else "answered")
    if (length := _milliseconds(attempt, "duration_s")) is not None:
        parts.append(length)
    if resends:
        parts.append(f"resent {resends} times" if resends != 1 else "resent once")
    return clean(", ".join(parts))


def _answer(attempt: dict[str, Any]) -> str | None:
    """`429 rate_limit_exceeded (requests): Rate limit reached for ...`."""
    status, message = attempt.get("status"), attempt.get("provider_message")
    code, kind, param = (attempt.get(f"provider_{name}") for name in ("code", "type", "param"))
    words = [str(word) for word in (status, code or kind) if word]
    about = ", ".join(str(word) for word in (kind if code else None, f"param {param}" if param else None) if word)
    if about:
        words.append(f"({about})")
    text = clean(" ".join(words))
    if isinstance(message, str):
        said = clean(message, MAX_RECORDED_LENGTH)
        return f"{text}: {said}" if text else said
    return text or None


def _connection(attempt: dict[str, Any]) -> str | None:
    """`proxy 192.0.2.1:3128, new (dns 2ms, connect 11ms, tls 24ms), first byte after 310ms`."""
    parts = []
    if address := attempt.get("address"):
        parts.append(clean(f"proxy {address}" if attempt.get("via_proxy") else str(address)))
    steps = [f"{name} {length}" for member, name in _STEPS if (length := _milliseconds(attempt, member)) is not None]
    if attempt.get("reused"):
        parts.append("reused")
    elif steps:
        parts.append(f"new ({', '.join(steps)})")
    if (length := _milliseconds(attempt, "first_byte_s")) is not None:
        parts.append(f"first byte after {length}")
    return ", ".join(parts) or None


def _milliseconds(attempt: dict[str, Any], name: str) -> str | None:
    seconds = attempt.get(name)
    return duration(round(seconds * 1000)) if isinstance(seconds, int | float) else None
