"""The error tree: its codes are API and frozen here; what a provider's text may not carry to a caller."""

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.core.call_trace import CallTrace
from streamweir.core.errors import (
    CALLER_CODES,
    CODES,
    GATEWAY_CODES,
    UPSTREAM_CODES,
    CallerError,
    ErrorReport,
    GatewayFault,
    StreamweirError,
    UpstreamError,
    scrub,
    without_secrets,
)

FROZEN = """
400 invalid_request_error  final  invalid_json
400 invalid_request_error  final  duplicate_key
400 invalid_request_error  final  json_too_deep
400 invalid_request_error  final  invalid_type
400 invalid_request_error  final  invalid_value
400 invalid_request_error  final  missing_required_parameter
400 invalid_request_error  final  unknown_parameter
400 invalid_request_error  final  context_length_exceeded
400 invalid_request_error  final  content_filter
400 invalid_request_error  final  previous_response_not_found
400 invalid_request_error  final  invalid_after
401 invalid_request_error  final  invalid_api_key
401 invalid_request_error  final  missing_api_key
401 invalid_request_error  final  expired_api_key
401 invalid_request_error  final  key_revoked
403 permission_error       final  insufficient_permissions
403 permission_error       final  model_unpriced
404 invalid_request_error  final  model_not_found
404 invalid_request_error  final  unknown_url
404 invalid_request_error  final  not_found
404 invalid_request_error  final  stream_not_found
409 conflict_error         final  conflict
405 invalid_request_error  final  method_not_allowed
426 invalid_request_error  final  upgrade_required
415 invalid_request_error  final  unsupported_media_type
415 invalid_request_error  final  unsupported_content_encoding
408 timeout_error          retry  request_timeout
409 conflict_error         retry  idempotency_in_progress
409 conflict_error         final  idempotency_key_reused
410 invalid_request_error  final  stream_not_resumable
413 invalid_request_error  final  request_too_large
431 invalid_request_error  final  headers_too_large
429 rate_limit_error       retry  rate_limit_exceeded
429 rate_limit_error       retry  concurrency_limit_exceeded
409 conflict_error         final  idempotency_completed
429 insufficient_quota     final  insufficient_quota
429 insufficient_quota     final  budget_exceeded
429 rate_limit_error       retry  upstream_rate_limited
502 upstream_error         retry  upstream_connect_failed
502 upstream_error         retry  upstream_dns_failed
502 upstream_error         retry  upstream_tls_failed
502 upstream_error         final  upstream_auth_failed
502 upstream_error         retry  upstream_bad_response
502 upstream_error         retry  upstream_bad_encoding
502 upstream_error         retry  upstream_empty_response
502 upstream_error         final  upstream_redirect_blocked
502 upstream_error         final  upstream_model_not_found
502 upstream_error         retry  upstream_server_error
502 upstream_error         retry  upstream_stream_truncated
502 upstream_error         retry  upstream_stream_reset
502 upstream_error         retry  upstream_invalid_frame
502 upstream_error         retry  upstream_frame_too_large
502 upstream_error         final  response_too_large
503 upstream_error         retry  no_available_deployment
503 upstream_error         retry  upstream_overloaded
503 upstream_error         final  upstream_quota_exhausted
504 upstream_error         retry  upstream_timeout
504 upstream_error         retry  stream_idle_timeout
504 upstream_error         retry  stream_deadline_exceeded
500 server_error           retry  internal_error
503 overloaded_error       retry  overloaded
503 overloaded_error       retry  server_shutting_down
503 overloaded_error       retry  ledger_unavailable
503 overloaded_error       retry  streams_unavailable
503 server_error           retry  stream_lost
503 server_error           final  stopped_by_operator
"""


def test_codes_are_frozen() -> None:
    """A client may depend on any of these. A new code is a new row; a changed row breaks somebody."""
    rows = [
        f"{spec.status} {spec.type:22} {'retry' if spec.may_retry else 'final'}  {code}" for code, spec in CODES.items()
    ]
    assert rows == FROZEN.split("\n")[1:-1]


def test_a_code_belongs_to_one_class() -> None:
    assert len(CODES) == len(CALLER_CODES) + len(UPSTREAM_CODES) + len(GATEWAY_CODES)
    with pytest.raises(ValueError, match="CallerError has no code 'upstream_timeout'"):
        CallerError("upstream_timeout", "x")
    with pytest.raises(ValueError, match="StreamweirError has no code"):
        StreamweirError("internal_error", "x")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (CallerError("invalid_value", "m", param="n"), 400),
        (UpstreamError("upstream_rate_limited", "m", retry_after_s=7), 429),
        (GatewayFault("internal_error", "m", event_id="e"), 500),
    ],
)
def test_an_error_is_a_value(error: StreamweirError, status: int) -> None:
    same = type(error)(
        error.code, error.message, param=error.param, retry_after_s=error.retry_after_s, event_id=error.event_id
    )
    assert error == same
    assert hash(error) == hash(same)
    assert error.spec.status == status
    assert error != type(error)(error.code, "another")
    assert error != "m"


def test_repr() -> None:
    assert repr(CallerError("invalid_value", "m", param="n")) == "CallerError('invalid_value', 'm', param='n')"
    assert repr(GatewayFault("overloaded", "m")) == "GatewayFault('overloaded', 'm')"


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcdefghijklmnop",
        "sk-ant-api03-AbCdEf",
        "sk-canary",
        "sk-...wxyz",
        "sk-or-v1-0123456789abcdef",
        "gsk_abcdefgh",
        "xai-abcdefgh",
        "hf_abcdefgh",
        "nvapi-abcdefgh",
        "AIzaSyA1234567890abcdefg",
        "ya29.a0AfH6SMabcdef",
        "AKIAIOSFODNN7EXAMPLE",
        "arn:aws:iam::123456789012:user/ops",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
        "org-a1b2c3d4",
        "proj_a1b2c3d4",
        "0123456789abcdef0123456789abcdef",
        "123e4567-e89b-12d3-a456-426614174000",
        "Bearer abc",
        "Basic dXNlcjpwYXNzd29yZA==",
        "https://api.example.com/v1?key=1",
        "postgresql://user:password@db/name",
        "api.internal.example.com",
        "api.example.com:8443/v1",
        "api.together.xyz",
        "router.huggingface.co",
        "model-7.ns.svc",
        "localhost:8080",
        "10.0.0.7:8000",
        "[fe80::1]:8000",
        "someone@example.com",
    ],
)
@pytest.mark.parametrize("around", ["{}", "Bad key: {}", "'{}' is wrong.", "x ({}) y", "line\n{}\nline"])
def test_a_secret_is_scrubbed(secret: str, around: str) -> None:
    scrubbed = scrub(around.format(secret))
    assert "***" in scrubbed
    assert secret not in scrubbed
    assert secret.split()[-1] not in scrubbed


@pytest.mark.parametrize(
    "text",
    [
        "Invalid 'messages[2].content[0].image_url.url': expected a string.",
        "This model's maximum context length is 8192 tokens, however you requested 10000 tokens.",
        "tools.0.custom.input_schema.type: Field required",
        "The organization must be verified to use the model `o3`.",
        "meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8 does not support tools",
        "a basic understanding of the key-value store, at 12:30:45, version 2.0.1",
        "temperature must be <= 2.0; użyj mniejszej wartości",
        "claude-sonnet-4-5-20250929 does not support user_id",
    ],
)
def test_what_a_caller_needs_stays(text: str) -> None:
    assert scrub(text) == text


def test_controls_are_blanked() -> None:
    assert scrub(" a\r\n\0b\x1b[31m\u2028c\x85d\ud800 ") == "a b [31m c d"


def test_a_traceback_is_cut_off() -> None:
    assert scrub('boom Traceback (most recent call last):\n  File "x.py"') == "boom"


def test_a_long_text_is_cut() -> None:
    assert len(scrub("word " * 10_000)) == 400
    assert scrub("word " * 10_000).endswith("...")


def test_a_secret_at_the_cut_is_not_halved() -> None:
    for size in range(1580, 1610):
        text = "https://example.com/ " * 74
        assert "sk-" not in scrub(text + " " * (size - len(text)) + "sk-abcdefghijkl and more")


@given(st.text(max_size=60), st.integers(1, 60))
def test_scrubbed_text_is_one_short_printable_line(text: str, times: int) -> None:
    scrubbed = scrub(text * times)
    assert len(scrubbed) <= 400
    assert scrubbed == scrubbed.strip()
    assert not any(ord(character) < 32 for character in scrubbed)
    scrubbed.encode()


def test_a_report_shows_its_text_only_scrubbed() -> None:
    text = "The key plain.secret.value of 10.1.2.3 is used up.\n" + "word " * 100
    report = ErrorReport(code="quota", text=text)
    assert "plain" not in repr(report)
    shown = report.message(["plain.secret.value"])
    assert shown.startswith("The key *** of *** is used up. word")
    assert len(shown) == 300
    assert shown.endswith("...")


def test_a_known_secret_is_masked_before_a_report_is_cut() -> None:
    report = ErrorReport(text="x " * 145 + "plain-secret-without-digits")
    assert "plain" in report.message()
    assert "plain" not in report.message(["plain-secret-without-digits"])


def test_what_is_for_the_operator_is_in_no_text_of_an_error() -> None:
    error = UpstreamError("upstream_server_error", "The provider failed to answer.")
    error.report = ErrorReport(code="c0de", text="hidden words")
    error.trace = CallTrace(address="192.0.2.1:443")
    shown = f"{error} {error!r} {error.args} {''.join(traceback.format_exception(error))}"
    assert "hidden" not in shown
    assert "c0de" not in shown
    assert "192.0.2.1" not in shown


def test_an_empty_secret_masks_nothing() -> None:
    assert without_secrets("the key abcdefgh is wrong", ["", "abcdefgh"]) == "the key *** is wrong"
