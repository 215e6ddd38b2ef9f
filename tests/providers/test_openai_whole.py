"""Answers that were not streamed, and failed ones, of OpenAI-style vendors (shapes: `fixtures/*/whole_*`)."""

import pytest

from streamweir.core.errors import CallerError
from streamweir.core.events import ChoiceFinished, FinishReason, StreamCompleted, StreamFailed
from streamweir.providers.compatible import OPENAI, VENDORS, provider_of

PROVIDER = provider_of(OPENAI)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "upstream_empty_response"),
        (b" \r\n", "upstream_empty_response"),
        (b"<html>", "upstream_bad_response"),
        (b"[]", "upstream_bad_response"),
        (b"{}", "upstream_bad_response"),
        (b'{"choices": []}', "upstream_bad_response"),
        (b'{"choices": 7}', "upstream_bad_response"),
        (b'{"error": {"message": "slow down", "code": 429}}', "upstream_rate_limited"),
        (b'{"type": "error", "message": "busy", "code": 503}', "upstream_overloaded"),
    ],
)
def test_no_answer_in_it(body: bytes, code: str) -> None:
    events = PROVIDER.decode_whole(body)
    assert [event.error.code for event in events if isinstance(event, StreamFailed)] == [code]
    assert len(events) == 1


def test_a_missing_finish_reason_of_a_vendor_that_sends_none() -> None:
    call = b'{"function": {"name": "f", "arguments": {}}}'
    body = b'{"choices": [{"message": {"tool_calls": [%b]}, "finish_reason": null}]}' % call
    assert provider_of(VENDORS["snowflake"]).decode_whole(body)[-2:] == [
        ChoiceFinished(0, FinishReason.TOOL_CALLS),
        StreamCompleted(),
    ]


def test_a_refused_request_names_what_was_wrong() -> None:
    body = b'{"error": {"message": "Invalid temperature", "type": "invalid_request_error", "param": "temperature"}}'
    assert PROVIDER.read_error(400, {}, body) == CallerError(
        "invalid_value", "Invalid temperature", param="temperature"
    )


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (401, b'{"error": {"message": "Incorrect API key provided: sk-abc"}}', "upstream_auth_failed"),
        (404, b'{"error": {"code": "model_not_found"}}', "upstream_model_not_found"),
        (429, b'{"error": {"code": "insufficient_quota"}}', "upstream_quota_exhausted"),
        (429, b"", "upstream_rate_limited"),
        (422, b'{"object": "error", "message": {"detail": []}, "type": "invalid_request_error"}', "invalid_value"),
        (500, b"<html>oops</html>", "upstream_server_error"),
        (503, b"null", "upstream_overloaded"),
    ],
)
def test_failed_responses(status: int, body: bytes, code: str) -> None:
    assert PROVIDER.read_error(status, {}, body).code == code


def test_when_to_come_back() -> None:
    assert PROVIDER.read_error(429, {"retry-after": "7"}, b"").retry_after_s == 7
