"""Whose fault a provider's failure is: the table from status, type, code and message to our codes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamweir.core.errors import CallerError, StreamweirError, UpstreamError
from streamweir.providers.failure import (
    ErrorDetails,
    classify,
    error_in_dataless_block,
    read_error,
    retry_after_s,
)

TABLE: list[tuple[int | None, Any, str]] = [
    # status (None: inside a stream), the body, our code
    (400, {"error": {"message": "bad", "type": "invalid_request_error"}}, "invalid_value"),
    (422, {"detail": "bad"}, "invalid_value"),
    (401, {"error": {"message": "no key", "type": "authentication_error"}}, "upstream_auth_failed"),
    (403, {"error": {"message": "no", "type": "permission_error"}}, "upstream_auth_failed"),
    (402, {"error": {"message": "Insufficient Balance"}}, "upstream_quota_exhausted"),
    (404, {"error": {"code": "model_not_found"}}, "upstream_model_not_found"),
    (410, {}, "upstream_model_not_found"),
    (408, {}, "upstream_timeout"),
    (409, {}, "upstream_server_error"),
    (413, {"error": {"type": "request_too_large"}}, "request_too_large"),
    (429, {"error": {"type": "rate_limit_error"}}, "upstream_rate_limited"),
    (500, {"error": {"type": "api_error"}}, "upstream_server_error"),
    (502, None, "upstream_server_error"),
    (503, {"error": {"status": "UNAVAILABLE"}}, "upstream_overloaded"),
    (504, None, "upstream_timeout"),
    (529, {"type": "error", "error": {"type": "overloaded_error"}}, "upstream_overloaded"),
    (307, None, "upstream_redirect_blocked"),
    (418, None, "upstream_server_error"),
    # too long a prompt, in the words of several vendors
    (400, {"error": {"message": "m", "code": "context_length_exceeded"}}, "context_length_exceeded"),
    (400, {"error": {"message": "This model's maximum context length is 8192 tokens"}}, "context_length_exceeded"),
    (400, {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}, "context_length_exceeded"),
    (400, {"error": {"message": "The input token count (9) exceeds the maximum"}}, "context_length_exceeded"),
    (400, {"error": {"message": "exceeds", "type": "exceed_context_size_error"}}, "context_length_exceeded"),
    (400, {"error": "This model's maximum prompt length is 131072"}, "context_length_exceeded"),
    # filtered
    (400, {"error": {"message": "m", "code": "content_filter"}}, "content_filter"),
    (200, {"error": {"message": "m", "code": "content_filter"}}, "content_filter"),
    (403, {"error": {"code": 403, "message": "Your input was flagged for violence"}}, "content_filter"),
    (400, {"error": {"code": "x", "type": "ResponsibleAIPolicyViolation"}}, "content_filter"),
    # an empty account is never the caller's quota
    (429, {"error": {"message": "m", "code": "insufficient_quota"}}, "upstream_quota_exhausted"),
    (403, {"error": {"message": "m", "type": "billing_error"}}, "upstream_quota_exhausted"),
    (400, {"error": {"message": "Your credit balance is too low", "type": "x"}}, "upstream_quota_exhausted"),
    (429, {"error": {"message": "m", "type": "exceeded_current_quota_error"}}, "upstream_quota_exhausted"),
    (
        403,
        {
            "code": "c",
            "error": "Your team has either used all available credits or reached its monthly spending limit.",
        },
        "upstream_quota_exhausted",
    ),
    (429, {"error": {"message": "check your plan and billing details"}}, "upstream_rate_limited"),
    # a wrong key of ours is never the caller's fault, nor is a model that only the operator can name
    (400, {"error": {"message": "API key not valid. Please pass a valid API key."}}, "upstream_auth_failed"),
    (400, {"code": "invalid argument", "error": "Incorrect API key provided"}, "upstream_auth_failed"),
    (400, {"object": "error", "type": "invalid_model", "code": "1500"}, "upstream_model_not_found"),
    (400, {"error": {"message": "a/b is not a valid model ID", "code": 400}}, "upstream_model_not_found"),
    # inside a stream, or in a body with status 200, the object itself has to tell
    (None, {"error": {"code": 503, "message": "m"}}, "upstream_overloaded"),
    (None, {"error": {"code": "429", "message": "m"}}, "upstream_rate_limited"),
    (None, {"error": {"status_code": 504}}, "upstream_timeout"),
    (None, {"error": {"http_code": 401}}, "upstream_auth_failed"),
    (None, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "upstream_overloaded"),
    (None, {"error": {"type": "rate_limit_error"}}, "upstream_rate_limited"),
    (None, {"error": {"type": "rate_limit_reached_error"}}, "upstream_rate_limited"),
    (None, {"error": {"type": "engine_overloaded_error"}}, "upstream_overloaded"),
    (None, {"error": {"type": "invalid_request_error", "code": "invalid_api_key"}}, "upstream_auth_failed"),
    (None, {"error": {"status": "RESOURCE_EXHAUSTED"}}, "upstream_rate_limited"),
    (None, {"error": {"status": "DEADLINE_EXCEEDED"}}, "upstream_timeout"),
    (None, {"error": {"status": "CANCELLED"}}, "upstream_server_error"),
    (None, {"error": {"type": "billing_error"}}, "upstream_quota_exhausted"),
    (None, {"error": {"type": "invalid_request_error", "message": "bad"}}, "invalid_value"),
    (None, {"error": {"code": 200}}, "upstream_server_error"),
    (None, {"error": {"code": True}}, "upstream_server_error"),
    (None, {"error": {"code": 99999, "type": "server_error"}}, "upstream_server_error"),
    (None, {"error": "text"}, "upstream_server_error"),
    (None, {"error": {"message": {"not": "text"}}}, "upstream_server_error"),
    (None, {"error": None}, "upstream_server_error"),
    (None, {"error": []}, "upstream_server_error"),
    (None, {"message": "m", "code": 429}, "upstream_rate_limited"),
    (None, "text", "upstream_server_error"),
    (None, None, "upstream_server_error"),
    (200, {"error": {"code": 429}}, "upstream_rate_limited"),
]


@pytest.mark.parametrize(("status", "body", "code"), TABLE, ids=str)
def test_classify(status: int | None, body: Any, code: str) -> None:
    assert classify(ErrorDetails(body), status).code == code


@pytest.mark.parametrize(
    ("status", "body", "is_of_account"),
    [
        (401, {"error": {"message": "no key", "type": "authentication_error"}}, True),
        (401, None, True),
        (401, {"error": {"message": "You have insufficient permissions. Missing scopes: api.responses.write"}}, False),
        (400, {"error": {"message": "API key not valid. Please pass a valid API key."}}, True),
        (402, {}, True),
        (429, {"error": {"message": "m", "code": "insufficient_quota"}}, True),
        (403, {"error": {"message": "Your credit balance is too low"}}, True),
        # Most of these are about one model, or one endpoint.
        (403, None, False),
        (403, {"error": {"message": "Your API key does not have permission to use the specified resource."}}, False),
        (403, {"error": {"message": "Project proj_x does not have access to model gpt-5"}}, False),
        (403, {"error": {"status": "PERMISSION_DENIED", "message": "The caller does not have permission"}}, False),
        # And some name the key or the account.
        (403, {"error": {"message": "m", "code": "account_deactivated"}}, True),
        (403, {"error": {"message": "Invalid API key"}}, True),
        (403, {"error": {"message": "Your API key was reported as leaked. Please use another API key."}}, True),
        (
            403,
            {"error": {"message": "Consumer 'api_key:AIza' has been suspended.", "status": "PERMISSION_DENIED"}},
            True,
        ),
        (403, {"error": {"message": "This organization has been disabled.", "type": "permission_error"}}, True),
        (429, {"error": {"type": "rate_limit_error"}}, False),
        (404, {"error": {"code": "model_not_found"}}, False),
        (500, {}, False),
    ],
    ids=str,
)
def test_whether_a_refusal_is_about_the_account(status: int, body: Any, is_of_account: bool) -> None:
    assert classify(ErrorDetails(body), status).is_of_account is is_of_account


@pytest.mark.parametrize(
    ("status", "error", "is_only_in_text"),
    [
        (401, {"message": "insufficient_quota"}, False),
        (402, {"message": "no credit"}, False),
        (402, {"message": "This request requires more credits, or fewer max_tokens."}, True),
        (429, {"message": "m", "code": "insufficient_quota"}, False),
        (403, {"message": "m", "code": "account_deactivated"}, False),
        (400, {"message": "Unrecognized request argument supplied: insufficient_quota"}, True),
        (400, {"message": "Unrecognized request argument supplied: invalid_api_key"}, True),
        (403, {"message": "Project does not have access to model invalid_api_key"}, True),
        (403, {"message": "no"}, True),
    ],
    ids=str,
)
def test_a_message_can_quote_the_request(status: int, error: dict[str, str], is_only_in_text: bool) -> None:
    assert classify(ErrorDetails({"error": error}), status).is_only_in_text is is_only_in_text


def test_a_refusal_is_shown_scrubbed_and_keeps_its_param() -> None:
    body = {"error": {"message": "Bad value at https://api.example.com sk-abcdefgh", "param": "temperature\n"}}
    assert classify(ErrorDetails(body), 400) == CallerError(
        "invalid_value", "Bad value at *** ***", param="temperature"
    )
    assert classify(ErrorDetails({"error": {"param": 5}}), 400) == CallerError(
        "invalid_value", "The provider refused the request."
    )


@pytest.mark.parametrize("status", [401, 402, 403, 404, 408, 413, 429, 500, 503, 529])
def test_any_other_text_of_the_provider_is_dropped(status: int) -> None:
    error = read_error(status, {}, json.dumps({"error": {"message": "canary", "param": "canary"}}).encode())
    assert "canary" not in error.message
    assert error.param is None


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "text"}},
        {"error": "text"},
        {"message": "text"},
        {"msg": "text"},
        {"detail": "text"},
        {"error": {"error_description": "text"}},
        {"error": {"message": "", "msg": "text"}},
        "text",
    ],
    ids=str,
)
def test_the_position_of_the_message(body: Any) -> None:
    assert ErrorDetails(body).message == "text"


COMPLAINTS = [
    {"type": "extra_forbidden", "loc": ["body", "messages", 0, "name"], "msg": "Extra inputs are not permitted"},
    {"type": "extra_forbidden", "loc": ["body", "top_k"], "msg": "another"},
]


@pytest.mark.parametrize(
    "body",
    [
        {"detail": COMPLAINTS},
        {"object": "error", "message": {"detail": COMPLAINTS}, "type": "invalid_request_error", "param": None},
        {"object": "Error", "message": COMPLAINTS, "detail": COMPLAINTS, "code": 3001},
        {"error": {"message": COMPLAINTS}},
    ],
    ids=str,
)
def test_the_first_of_pydantics_complaints_is_the_message(body: Any) -> None:
    error = classify(ErrorDetails(body), 422)
    assert error == CallerError("invalid_value", "Extra inputs are not permitted", param="messages[0].name")


@pytest.mark.parametrize(
    ("field_error", "message", "param"),
    [
        ({"msg": "bad", "loc": "body"}, "bad", None),
        ({"msg": "bad", "loc": ["body"]}, "bad", None),
        ({"msg": "bad", "loc": ["bodywork", True]}, "bad", "bodywork[True]"),
        ({"msg": 5}, "", None),
        ("bad", "", None),
    ],
)
def test_an_error_with_few_details(field_error: Any, message: str, param: str | None) -> None:
    details = ErrorDetails({"detail": [field_error]})
    assert (details.message, details.param) == (message, param)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"error":{"code":"content_filter"}}', "content_filter"),
        (b'[{"error":{"code":400,"message":"Request contains an invalid argument."}}]', "invalid_value"),
        (b"[]", "invalid_value"),
        (b"<html>nope</html>", "invalid_value"),
        (b"", "invalid_value"),
        (b"\xff", "invalid_value"),
    ],
)
def test_read_error(body: bytes, code: str) -> None:
    assert read_error(400, {}, body).code == code


@pytest.mark.parametrize("status", [429, 503])
def test_the_time_to_wait_is_passed_on(status: int) -> None:
    assert read_error(status, {"retry-after": "7"}, b"").retry_after_s == 7
    assert read_error(500, {"retry-after": "7"}, b"").retry_after_s is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("7", 7.0),
        (" 7 ", 7.0),
        ("0.5", 0.5),
        ("0", 0.0),
        ("-3", 0.0),
        ("999", 120),
        ("Sun, 15 Nov 2026 10:00:30 GMT", 30.0),
        ("Sun, 15 Nov 2026 09:00:00 GMT", 0.0),
        ("Mon, 16 Nov 2026 10:00:00 GMT", 120),
        ("Sun, 15 Nov 2026 10:00:30 -0000", None),
        ("Sun, 15 Nov 999999999999999999999 10:00:30 GMT", None),
        ("soon", None),
        ("", None),
        ("nan", None),
        ("inf", None),
    ],
)
def test_retry_after(value: str, expected: float | None) -> None:
    headers = {"retry-after": value, "date": "Sun, 15 Nov 2026 10:00:00 GMT"}
    assert retry_after_s(headers) == expected


def test_retry_after_needs_its_header_and_for_a_date_the_date() -> None:
    assert retry_after_s({}) is None
    assert retry_after_s({"retry-after": "Sun, 15 Nov 2026 10:00:30 GMT"}) is None
    assert retry_after_s({"retry-after": "Sun, 15 Nov 2026 10:00:30 GMT", "date": "today"}) is None


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b'error: {"code":500,"message":"boom"}\n\n', "upstream_server_error"),
        (b'error: {"error":{"code":429}}\r\n\r\n', "upstream_rate_limited"),
        (b'error:{"code":503}', "upstream_overloaded"),
        (b'error: [{"code":503}]\n\n', "upstream_overloaded"),
        (b"error: boom\n\n", "upstream_server_error"),
        (b"error:\n\n", "upstream_server_error"),
        (b': ping\nerror: {"code":429}\n\n', "upstream_rate_limited"),
        (b'{\n  "error": {\n    "code": 503\n  }\n}\n\n', "upstream_overloaded"),
        (b'{\r\n  "error": {"code": 503}\r\n}\r\n\r\n', "upstream_overloaded"),
        (b'[{"error":{"status":"NOT_FOUND"}}]\n\n', "upstream_model_not_found"),
    ],
)
def test_an_error_outside_any_data(raw: bytes, code: str) -> None:
    error = error_in_dataless_block(raw)
    assert error is not None
    assert error.code == code


@pytest.mark.parametrize(
    "raw",
    [
        b": keep-alive\n\n",
        b": OPENROUTER PROCESSING\n\n",
        b"event: ping\n\n",
        b"id: 1\nretry: 3\n\n",
        b'{"ok":true}\n\n',
        b'{"error":null}\n\n',
        b'{"error":\n\n',
        b"[]\n\n",
        b"[1]\n\n",
        b"",
    ],
)
def test_no_error_outside_any_data(raw: bytes) -> None:
    assert error_in_dataless_block(raw) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "code", "type", "status", "param", "detail"]) | st.text(), inner
        )
    ),
    max_leaves=10,
)


@given(JSON, st.none() | st.integers(300, 599))
def test_anything_is_some_error(value: Any, status: int | None) -> None:
    error: StreamweirError = classify(ErrorDetails(value), status)
    assert isinstance(error, CallerError | UpstreamError)
    assert error.message


@given(st.binary(), st.dictionaries(st.sampled_from(["retry-after", "date"]), st.text()))
def test_any_response_is_some_error(body: bytes, headers: dict[str, str]) -> None:
    assert read_error(500, headers, body).message
    error_in_dataless_block(body)
