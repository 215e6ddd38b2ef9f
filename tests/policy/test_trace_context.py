"""Trace contexts are read and written by W3C's rules, as the official library does it; callers decide no more than the
operator lets them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from streamweir.policy.trace_context import (
    ENTROPY_BYTES,
    RequestTrace,
    TracePolicy,
    begin_trace,
    read_state,
    read_trace_context,
    threshold_of,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = f"00-{TRACE}-{SPAN}-01"
ENTROPY = bytes(range(1, ENTROPY_BYTES + 1))
entropies = st.binary(min_size=ENTROPY_BYTES, max_size=ENTROPY_BYTES)
hexadecimal = st.text("0123456789abcdef", min_size=16, max_size=16)


def test_a_callers_context_is_read() -> None:
    context = read_trace_context({"traceparent": VALID, "tracestate": "a=1, b@c=2"})
    assert context is not None
    assert (context.trace_id.hex(), context.span_id.hex(), context.is_sampled) == (TRACE, SPAN, True)
    assert context.state == "a=1,b@c=2"


@pytest.mark.parametrize(("flags", "is_sampled"), [("00", False), ("01", True), ("02", False), ("ff", True)])
def test_only_one_of_the_flags_counts(flags: str, is_sampled: bool) -> None:
    context = read_trace_context({"traceparent": f"00-{TRACE}-{SPAN}-{flags}"})
    assert context is not None
    assert context.is_sampled is is_sampled


@pytest.mark.parametrize("sent", [f"01-{TRACE}-{SPAN}-01", f"cc-{TRACE}-{SPAN}-01-what-comes-later"])
def test_later_versions_are_read_as_far_as_they_are_known(sent: str) -> None:
    assert read_trace_context({"traceparent": sent}) is not None


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "00",
        VALID[:-1],
        f"{VALID}-",
        f"{VALID}-more",
        f"{VALID} ",
        f"{VALID}\n",
        f"{VALID}, {VALID}",
        VALID.upper(),
        f"ff-{TRACE}-{SPAN}-01",
        f"01-{TRACE}-{SPAN}-01more",
        f"01-{TRACE}-{SPAN}-01-{'x' * 300}",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0g",
        f"00_{TRACE}_{SPAN}_01",
        VALID.replace("4", "٤"),
    ],
)
def test_a_header_that_breaks_a_rule_is_as_good_as_none(sent: str) -> None:
    assert read_trace_context({"traceparent": sent}) is None
    begun = begin_trace(TracePolicy(callers="follow"), {"traceparent": sent}, ENTROPY)
    assert (begun.parent_id, begun.state) == (b"", "")


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("", ""),
        ("a=", "a="),
        (" a=1 ,, b=2\t", "a=1,b=2"),
        ("fw529a3039@dt=FfAAAABB", "fw529a3039@dt=FfAAAABB"),
        ("a=x y", "a=x y"),
        ("a=1,a=2", ""),
        ("A=1", ""),
        ("a", ""),
        ("a=b=c", ""),
        ("a=\x7f", ""),
        ("a=ü", ""),
        ("a=1\r\nx: y", ""),
        (f"a={'x' * 257}", ""),
        (",".join(f"k{number}=1" for number in range(32)), ",".join(f"k{number}=1" for number in range(32))),
        (",".join(f"k{number}=1" for number in range(33)), ""),
        ("a=1," * 200, ""),
    ],
)
def test_the_state_is_sent_on_or_left_out_as_a_whole(sent: str, kept: str) -> None:
    assert read_state(sent) == kept


@given(st.text(max_size=80) | st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", fullmatch=True))
def test_what_the_official_library_refuses_is_refused(sent: str) -> None:
    theirs = trace.get_current_span(TraceContextTextMapPropagator().extract({"traceparent": sent})).get_span_context()
    ours = read_trace_context({"traceparent": sent})
    if ours is not None:
        assert (ours.trace_id.hex(), ours.span_id.hex()) == (f"{theirs.trace_id:032x}", f"{theirs.span_id:016x}")
        assert ours.is_sampled is bool(theirs.trace_flags & 1)
    elif theirs.is_valid:  # it strips white space, and does not look at what follows in later versions
        assert re.fullmatch(r"\s*00-[0-9a-f-]+\s*", sent) is None or sent != sent.strip()


@given(entropies, st.sampled_from(["", VALID]), st.booleans())
def test_what_is_sent_on_is_what_the_official_library_reads(entropy: bytes, sent: str, is_sampled: bool) -> None:
    policy = TracePolicy(threshold=threshold_of(1.0 if is_sampled else 0.0))
    begun = begin_trace(policy, {"traceparent": sent, "tracestate": "a=1"} if sent else {}, entropy)
    assert begun.is_sampled is is_sampled
    headers = dict(line.split(": ", 1) for line in begun.headers(2).decode().splitlines())
    theirs = trace.get_current_span(TraceContextTextMapPropagator().extract(headers)).get_span_context()
    assert theirs.is_valid
    assert theirs.trace_id == int.from_bytes(begun.trace_id, "big")
    assert theirs.span_id == begun.span_id + 2
    assert bool(theirs.trace_flags & 1) is is_sampled
    assert theirs.trace_state.to_header() == ("a=1" if sent else "")


@given(entropies)
def test_no_id_of_a_request_or_an_attempt_is_zero_or_too_long(entropy: bytes) -> None:
    begun = begin_trace(TracePolicy(), {}, entropy)
    assert any(begun.trace_id)
    assert len(begun.trace_id) == 16
    assert all(0 < begun.span_id + attempt < 2**64 for attempt in (0, 1, 10_000))


def test_a_caller_joins_its_trace_but_does_not_decide_what_is_recorded() -> None:
    never = TracePolicy(callers="join", threshold=threshold_of(0.0))
    begun = begin_trace(never, {"traceparent": VALID}, ENTROPY)
    assert (begun.trace_id.hex(), begun.parent_id.hex(), begun.is_sampled) == (TRACE, SPAN, False)
    always = TracePolicy(callers="join")
    assert begin_trace(always, {"traceparent": VALID.replace("-01", "-00")}, ENTROPY).is_sampled


@pytest.mark.parametrize(("flags", "is_sampled"), [("01", True), ("00", False)])
def test_a_caller_that_is_followed_decides(flags: str, is_sampled: bool) -> None:
    policy = TracePolicy(callers="follow", threshold=threshold_of(0.0 if is_sampled else 1.0))
    assert begin_trace(policy, {"traceparent": VALID[:-2] + flags}, ENTROPY).is_sampled is is_sampled


def test_a_caller_that_is_ignored_begins_a_new_trace() -> None:
    begun = begin_trace(TracePolicy(callers="ignore"), {"traceparent": VALID, "tracestate": "a=1"}, ENTROPY)
    assert (begun.trace_id, begun.parent_id, begun.state) == (ENTROPY[:16], b"", "")


def test_an_id_that_a_caller_chooses_does_not_change_the_share_that_is_recorded() -> None:
    """Of its own traces a process decides by the id, which a caller could choose so that all of its requests count."""
    policy = TracePolicy(threshold=threshold_of(0.25))
    highest = f"00-{'f' * 32}-{SPAN}-01"
    recorded = 0
    for number in range(256):
        entropy = bytes(25) + bytes([number]) + bytes(6)
        recorded += begin_trace(policy, {"traceparent": highest}, entropy).is_sampled
    assert recorded == 64


@given(entropies, st.floats(0, 1))
def test_of_a_new_trace_the_id_decides(entropy: bytes, ratio: float) -> None:
    """So that everybody who sees it with the same ratio decides alike."""
    begun = begin_trace(TracePolicy(threshold=threshold_of(ratio)), {}, entropy)
    assert begun.is_sampled is (int.from_bytes(begun.trace_id[9:], "big") >= round((1 - ratio) * 2**56))


@given(hexadecimal)
def test_the_ids_of_attempts_follow_that_of_the_request(text: str) -> None:
    begun = RequestTrace(bytes.fromhex(TRACE), int(text, 16) >> 2, True)
    lines = begun.headers(3).decode()
    assert lines == f"traceparent: 00-{TRACE}-{begun.span_id + 3:016x}-01\r\n"
