"""A failed response: its class, the server's message, and whether and when to retry."""

import json
from email.utils import formatdate

import pytest

from streamweir.client import (
    AuthenticationFailed,
    Conflict,
    NotFound,
    PermissionDenied,
    RateLimited,
    RequestFailed,
    RequestRefused,
    ServerFailed,
)
from streamweir.client.failed_response import find_error, read_failure, retry_after_s

KEY = "sk-secret"
NOW = 1_800_000_000.0
BODY = {"error": {"message": "Slow down.", "type": "rate_limit_error", "param": "model", "code": "rate_limit_exceeded"}}


def failure(status: int, body: object = BODY, **headers: str) -> RequestFailed:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_failure(status, named, data, now=NOW, secret=KEY)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (302, RequestFailed), (400, RequestRefused), (413, RequestRefused), (401, AuthenticationFailed),
        (403, PermissionDenied), (404, NotFound), (409, Conflict), (429, RateLimited), (500, ServerFailed),
        (529, ServerFailed),
    ],
)  # fmt: skip
def test_the_class_goes_by_the_status(status: int, kind: type[RequestFailed]) -> None:
    assert type(failure(status)) is kind
    assert failure(status).status == status


def test_what_the_server_sends_is_kept() -> None:
    error = failure(429, x_request_id="req_1", retry_after="7")
    assert (error.message, error.type, error.code) == ("Slow down.", "rate_limit_error", "rate_limit_exceeded")
    assert (error.param, error.request_id, error.retry_after_s) == ("model", "req_1", 7.0)
    assert str(error) == "429 (rate_limit_error rate_limit_exceeded): Slow down."


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b'"text"', b"{}", b'{"error": {}}', b'{"error": 5}'])
def test_a_body_without_content(body: bytes) -> None:
    error = failure(503, body)
    assert str(error) == "503: the server answered with status 503"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([{"error": {"message": "In a list."}}], "In a list."),
        ({"message": "Bare."}, "Bare."),
        ({"message": {"detail": "Inside."}}, "Inside."),
        ({"error": {"message": ["no text"]}}, "the server gave no reason"),
        ({"error": {"message": "Key sk-secret is wrong."}}, "Key *** is wrong."),
        ({"error": {"message": "x" * 5000}}, "x" * 2000),
    ],
)
def test_the_message_in_other_shapes(body: object, message: str) -> None:
    assert failure(400, body).message == message


def test_a_key_that_is_a_common_word_is_not_masked() -> None:
    assert find_error({"error": "none of it"}, "none") == ("none of it", None, None, None)


def test_a_document_without_an_error() -> None:
    assert find_error({"choices": [{"index": 0}, "no object"], "message": "beside them"}) is None
    assert find_error({"x_groq": {"usage": {}}, "choices": []}) is None


@pytest.mark.parametrize(
    ("status", "headers", "may_retry"),
    [
        (408, {}, True), (429, {}, True), (500, {}, True), (502, {}, True), (503, {}, True), (504, {}, True),
        (400, {}, False), (401, {}, False), (404, {}, False), (501, {}, False), (302, {}, False), (409, {}, False),
        (409, {"retry_after": "1"}, True),
        (503, {"x_should_retry": "false"}, False),
        (400, {"x_should_retry": "true"}, True),
        (429, {"x_should_retry": "perhaps"}, True),
    ],
)  # fmt: skip
def test_whether_to_ask_again(status: int, headers: dict[str, str], may_retry: bool) -> None:
    assert failure(status, **headers).may_retry is may_retry


def test_an_account_without_credit_is_not_asked_again() -> None:
    assert not failure(429, {"error": {"message": "No.", "type": "insufficient_quota"}}).may_retry


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "3600"}, 3600.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "9", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": formatdate(NOW + 30, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(NOW - 30, usegmt=True)}, 0.0),
        ({"retry-after": formatdate(NOW + 90, usegmt=True), "date": formatdate(NOW + 60, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(NOW + 5, usegmt=True), "date": "yesterday"}, 5.0),
    ],
)
def test_when_to_ask_again(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, NOW) == seconds
