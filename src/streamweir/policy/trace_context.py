"""Trace contexts by the rules of W3C: what a caller's `traceparent` says, what is sent on, and what is sampled.

A caller can join a request to a trace of its own. Whether the request is recorded is decided by the operator's ratio:
of a new trace by its id, as everywhere, so that all who take part decide alike; of a caller's by chance, or a caller
could choose ids that are always recorded. A header that breaks a rule is as good as none. Pure: chance is an argument.
"""

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

Callers = Literal["join", "follow", "ignore"]
"""What a caller's context is used for: its ids, also its decision what to record, or nothing."""

ENTROPY_BYTES = 32
_RANDOM_BITS = 56
"""Of an id that decide whether its trace is recorded."""
_NO_TRACE = bytes(16)
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[\x20-\x7e]{0,256})?")
_MAX_STATE_LENGTH = 512
_MAX_STATE_MEMBERS = 32
_STATE_MEMBER = re.compile(
    r"(?P<key>[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})"
    r"=(?:[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e])?"
)


class TraceContext(Struct, frozen=True):
    """A caller's."""

    trace_id: bytes
    span_id: bytes
    is_sampled: bool
    state: str = ""


class TracePolicy(Struct, frozen=True, kw_only=True):
    """What the operator has configured."""

    callers: Callers = "join"
    threshold: int = 0
    """Traces whose random number is below it are not recorded: see `threshold_of`."""
    sends_traceparent: bool = True


class RequestTrace(Struct, gc=False):
    """The trace of one request. Its span has `span_id`, its attempts have the ids that follow."""

    trace_id: bytes
    span_id: int
    """The highest bit is 0, so that no following id is 0."""
    is_sampled: bool
    parent_id: bytes = b""
    """The caller's span. Empty: the trace begins here."""
    state: str = ""
    options: tuple[float | int | None, ...] = ()
    """The parameters of the last attempt: see `server.telemetry.otel.span`."""

    def headers(self, attempt: int) -> bytes:
        """The header lines of a request to a provider: the attempts of a request are numbered from 1."""
        flags = "01" if self.is_sampled else "00"
        lines = f"traceparent: 00-{self.trace_id.hex()}-{self.span_id + attempt:016x}-{flags}\r\n"
        return (f"{lines}tracestate: {self.state}\r\n" if self.state else lines).encode("ascii")


def read_trace_context(headers: Mapping[str, str]) -> TraceContext | None:
    """`headers`: a header that was sent twice is joined by a comma, which no `traceparent` has."""
    sent = headers.get("traceparent")
    found = _TRACEPARENT.fullmatch(sent) if sent is not None else None
    if found is None:
        return None
    version, trace, span, flags, rest = found.groups()
    if version == "ff" or (version == "00" and rest is not None):
        return None
    trace_id, span_id = bytes.fromhex(trace), bytes.fromhex(span)
    if not any(trace_id) or not any(span_id):
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & 1), read_state(headers.get("tracestate", "")))


def read_state(sent: str) -> str:
    """`tracestate` as it is sent on: without white space and empty members. Empty if it breaks a rule."""
    if len(sent) > _MAX_STATE_LENGTH:
        return ""
    members = [member for each in sent.split(",") if (member := each.strip(" \t"))]
    found = [_STATE_MEMBER.fullmatch(member) for member in members]
    keys = {each["key"] for each in found if each is not None}
    return ",".join(members) if len(keys) == len(members) <= _MAX_STATE_MEMBERS else ""


def threshold_of(ratio: float) -> int:
    return round((1 - ratio) * (1 << _RANDOM_BITS))


def begin_trace(policy: TracePolicy, headers: Mapping[str, str], entropy: bytes) -> RequestTrace:
    """`headers`: of a caller with a valid key. `entropy`: `ENTROPY_BYTES` random bytes."""
    span_id = (int.from_bytes(entropy[16:24], "big") >> 2) + 1
    caller = read_trace_context(headers) if "traceparent" in headers and policy.callers != "ignore" else None
    if caller is None:
        trace_id = entropy[:16] if entropy[:16] != _NO_TRACE else b"\x01" * 16
        is_sampled = not policy.threshold or int.from_bytes(trace_id[9:], "big") >= policy.threshold
        return RequestTrace(trace_id, span_id, is_sampled)
    is_sampled = caller.is_sampled
    if policy.callers == "join":
        is_sampled = int.from_bytes(entropy[25:], "big") >= policy.threshold
    return RequestTrace(caller.trace_id, span_id, is_sampled, caller.span_id, caller.state)
