"""A failed response as the operator needs it: the provider's words, its status and its id, whatever the body is."""

import pytest

from streamweir.core.errors import ErrorReport, StreamweirError
from streamweir.providers.anthropic.error import read_error as read_anthropic
from streamweir.providers.failure import ErrorDetails, classify, read_error
from streamweir.providers.gemini.error import read_error as read_gemini
from streamweir.providers.refusal import MAX_ID_LENGTH, read_refusal, request_id_in
from streamweir.providers.responses.error import error_in as responses_error_in


def reported(error: StreamweirError) -> ErrorReport:
    assert error.report is not None
    return error.report


@pytest.mark.parametrize(
    ("headers", "id"),
    [
        ({}, None),
        ({"x-request-id": "req_1", "cf-ray": "8a-FRA"}, "req_1"),
        ({"request-id": "req_011C"}, "req_011C"),
        ({"apim-request-id": "0c6a7f0e-3d2b-4a51-9f3e-7f2a8d1c6b90"}, "0c6a7f0e-3d2b-4a51-9f3e-7f2a8d1c6b90"),
        ({"x-amzn-requestid": "r"}, "r"),
        ({"cf-ray": "8a-FRA"}, "8a-FRA"),
        ({"x-request-id": "a\x1b[31m b\x00\xe9"}, "a[31mb"),
        ({"x-request-id": "\x01"}, None),
        ({"x-request-id": "x" * 1000}, "x" * MAX_ID_LENGTH),
    ],
)
def test_the_providers_id_is_found_in_any_header(headers: dict[str, str], id: str | None) -> None:
    assert request_id_in(headers) == id


def test_all_of_a_refusal_is_reported() -> None:
    body = b'{"error":{"message":"Slow down.","type":"requests","code":"rate_limit_exceeded","param":"model"}}'
    report = reported(read_refusal(read_error, 429, {"x-request-id": "req_1"}, body))
    assert report == ErrorReport(
        status=429, request_id="req_1", code="rate_limit_exceeded", type="requests", param="model", text="Slow down."
    )


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"upstream connect error or disconnect/reset before headers", "upstream connect error or disconnect/reset"),
        (b"<html><head><title>502 Bad\n Gateway</title></head><body>nginx</body></html>", "502 Bad Gateway"),
        (b"<html><body><h1>504</h1> Gateway  Time-out</body></html>", "504 Gateway Time-out"),
        (b"<html><script>hidden()</script><style>p {}</style>shown", "shown"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"{}", ""),
        (b'{"error":', ""),
        (b"", ""),
        (b'"only a text"', "only a text"),
        (b"<" * 8192, "<<<<"),
    ],
)
def test_a_page_instead_of_an_error_object(body: bytes, text: str) -> None:
    report = reported(read_refusal(read_error, 502, {}, body))
    assert report.text.startswith(text)
    assert bool(report.text) == bool(text)
    assert len(report.text) <= 8192


@pytest.mark.parametrize(
    ("error", "code", "kind", "text"),
    [
        (classify(ErrorDetails({"error": {"code": 503, "message": "busy"}})), "503", None, "busy"),
        (classify(ErrorDetails({"error": {"code": None, "type": "server_error"}})), None, "server_error", ""),
        (classify(ErrorDetails({"error": "out of memory"})), None, None, "out of memory"),
        (classify(ErrorDetails({"error": {"code": True, "type": 7}})), None, None, ""),
        (classify(ErrorDetails(None)), None, None, ""),
        (
            read_gemini(400, {}, b'{"error":{"status":"INVALID_ARGUMENT","code":400,"message":"no"}}'),
            "INVALID_ARGUMENT",
            None,
            "no",
        ),
        (
            read_gemini(
                400,
                {},
                b'[{"error":{"status":"INVALID_ARGUMENT","message":"API key not valid.",'
                b'"details":[{"reason":"API_KEY_INVALID"}]}}]',
            ),
            "INVALID_ARGUMENT",
            None,
            "API key not valid.",
        ),
        (
            read_anthropic(529, {}, b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'),
            None,
            "overloaded_error",
            "Overloaded",
        ),
        (
            responses_error_in(b'{"type":"error","code":"server_error","message":"boom"}'),
            "server_error",
            None,
            "boom",
        ),
    ],
)
def test_the_provider_s_own_words(error: StreamweirError, code: str | None, kind: str | None, text: str) -> None:
    report = reported(error)
    assert (report.code, report.type, report.text) == (code, kind, text)


def test_codes_are_bounded_and_scrubbed() -> None:
    report = reported(classify(ErrorDetails({"error": {"code": "a\nb" * 100, "type": "key sk-abcdefgh1234"}})))
    assert report.code is not None
    assert len(report.code) == 80
    assert "\n" not in report.code
    assert report.type == "key ***"
