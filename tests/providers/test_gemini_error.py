"""Failed responses of Gemini: whose fault they are, and how long to wait."""

import json
from typing import Any

import pytest

from streamweir.providers.gemini import PROVIDER

RETRY = [
    {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "RequestsPerMinute"}]},
    {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "26.5s"},
]
QUOTA = "You exceeded your current quota, please check your plan and billing details."
WRONG_KEY = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]


@pytest.mark.parametrize(
    ("status", "error", "code", "retry_after_s"),
    [
        (400, {"message": "API key not valid. Please pass a valid API key."}, "upstream_auth_failed", None),
        (400, {"message": "Bad.", "details": WRONG_KEY}, "upstream_auth_failed", None),
        (401, {"status": "UNAUTHENTICATED"}, "upstream_auth_failed", None),
        (403, {"status": "PERMISSION_DENIED", "message": "API has not been used"}, "upstream_auth_failed", None),
        (400, {"status": "INVALID_ARGUMENT", "message": "Please use a valid role."}, "invalid_value", None),
        (400, {"message": "The input token count (9) exceeds the maximum"}, "context_length_exceeded", None),
        (404, {"status": "NOT_FOUND", "message": "models/x is not found"}, "upstream_model_not_found", None),
        (429, {"message": QUOTA, "details": RETRY}, "upstream_rate_limited", 26.5),
        (
            429,
            {"message": QUOTA, "details": [{"retryDelay": 5}, {"retryDelay": "soon"}]},
            "upstream_rate_limited",
            None,
        ),
        (429, {"message": "Resource has been exhausted (e.g. check quota)."}, "upstream_rate_limited", None),
        (429, {"message": "Slow down.", "details": RETRY}, "upstream_rate_limited", 26.5),
        (503, {"status": "UNAVAILABLE", "details": RETRY}, "upstream_overloaded", 26.5),
        (504, {"status": "DEADLINE_EXCEEDED"}, "upstream_timeout", None),
        (500, {"status": "INTERNAL", "details": "none"}, "upstream_server_error", None),
        (500, "text", "upstream_server_error", None),
    ],
)
def test_failed_responses(status: int, error: Any, code: str, retry_after_s: float | None) -> None:
    for body in ({"error": error}, [{"error": error}]):
        read = PROVIDER.read_error(status, {}, json.dumps(body).encode())
        assert (read.code, read.retry_after_s) == (code, retry_after_s)


@pytest.mark.parametrize("reason", ["API_KEY_INVALID", "CONSUMER_SUSPENDED"])
def test_a_refusal_of_the_key_itself(reason: str) -> None:
    body = json.dumps({"error": {"status": "PERMISSION_DENIED", "details": [{"reason": reason}]}}).encode()
    assert PROVIDER.read_error(403, {}, body).is_of_account


def test_the_header_comes_before_the_details() -> None:
    body = json.dumps({"error": {"message": QUOTA, "details": RETRY}}).encode()
    assert PROVIDER.read_error(429, {"retry-after": "7"}, body).retry_after_s == 7


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b"{}"])
def test_a_body_without_content(body: bytes) -> None:
    assert PROVIDER.read_error(502, {}, body).code == "upstream_server_error"
