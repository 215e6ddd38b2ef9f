"""Errors in each dialect's format: docs/spec/dialects.md E1 to E17, row by row."""

from typing import Any

import pytest

from streamweir.core.errors import (
    CALLER_CODES,
    CODES,
    GATEWAY_CODES,
    CallerError,
    GatewayFault,
    StreamweirError,
    UpstreamError,
)
from streamweir.frontends.chat.errors import envelope, error_fields, stream_envelope
from streamweir.frontends.chat.table import DIALECTS
from streamweir.frontends.error import STREAM_CODES
from support.dialect_rules import DIALECTS as RULES


def error(code: str, **more: Any) -> StreamweirError:
    kind = CallerError if code in CALLER_CODES else GatewayFault if code in GATEWAY_CODES else UpstreamError
    return kind(code, "message", **more)


TABLE = """\
invalid_json | 400 invalid_request_error | 400 invalid_request_error - | 400 invalid_request_error
invalid_type | 400 invalid_request_error | 400 invalid_request_error - | 400 invalid_request_error
missing_api_key | 401 invalid_request_error | 401 authentication_error missing_auth | 401 authentication_error
invalid_api_key | 401 invalid_request_error | 401 authentication_error invalid_key | 401 authentication_error
expired_api_key | 401 invalid_request_error | 401 authentication_error expired_key | 401 authentication_error
key_revoked | 401 invalid_request_error | 401 authentication_error invalid_key | 401 authentication_error
insufficient_quota | 429 insufficient_quota | 402 invalid_request_error insufficient_credit | 402 insufficient_balance
insufficient_permissions | 403 permission_error | 403 permission_error insufficient_scope | 403 permission_error
model_not_found | 404 invalid_request_error | 400 invalid_request_error model_not_found | 404 invalid_request_error
unknown_url | 404 invalid_request_error | 404 invalid_request_error not_found | 404 invalid_request_error
request_too_large | 413 invalid_request_error | 413 invalid_request_error request_too_large | 413 invalid_request_error
rate_limit_exceeded | 429 rate_limit_error | 429 rate_limit_error rate_limit_exceeded | 429 rate_limit_error
upstream_rate_limited | 429 rate_limit_error | 429 upstream_error upstream_error | 429 rate_limit_error
budget_exceeded | 429 insufficient_quota | 429 invalid_request_error spend_limit_exceeded | 402 billing_error
internal_error | 500 server_error | 500 api_error - | 500 api_error
upstream_connect_failed | 502 upstream_error | 502 upstream_error upstream_error | 502 upstream_error
upstream_server_error | 502 upstream_error | 502 upstream_error upstream_error | 502 upstream_error
no_available_deployment | 503 upstream_error | 503 upstream_error no_supplier | 503 upstream_error
upstream_timeout | 504 upstream_error | 504 upstream_error upstream_timeout | 504 upstream_error
"""
"""Our code, then status and type (the code is ours) of openai, status, type and code of opentoken, status and type
of aivene."""

Words = tuple[int, str, str | None]


def words(cell: str, code: str | None) -> Words:
    status, kind, *own = cell.split()
    return int(status), kind, (None if own[0] == "-" else own[0]) if own else code


ROWS = [[cell.strip() for cell in line.split("|")] for line in TABLE.splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_words_before_the_stream(row: list[str]) -> None:
    code, openai, opentoken, aivene = row
    assert tuple(error_fields(error(code), DIALECTS["openai"])) == words(openai, code)
    assert tuple(error_fields(error(code), DIALECTS["bitseek"])) == words(openai, code)
    assert tuple(error_fields(error(code), DIALECTS["opentoken"])) == words(opentoken, code)
    assert tuple(error_fields(error(code), DIALECTS["aivene"]))[:2] == words(aivene, code)[:2]


def test_members_and_their_order() -> None:
    failed = error("internal_error", event_id="ev_1")
    members = {name: list(envelope(failed, dialect)["error"]) for name, dialect in DIALECTS.items()}
    assert members == {rules.name: [*rules.error_members, "event_id"] for rules in RULES}


def test_param_is_named_before_the_stream() -> None:
    assert envelope(error("invalid_type", param="messages[0]"), DIALECTS["openai"])["error"]["param"] == "messages[0]"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("invalid_api_key", "invalid api key"),
        ("expired_api_key", "api key has expired"),
        ("insufficient_quota", "insufficient credit balance"),
        ("budget_exceeded", "api key spend limit exceeded"),
    ],
)
def test_the_services_exact_texts(code: str, text: str) -> None:
    for dialect in ("opentoken", "aivene"):
        assert envelope(error(code), DIALECTS[dialect])["error"]["message"] == text


@pytest.mark.parametrize("code", sorted(CODES))
def test_words_inside_a_stream(code: str) -> None:
    ours = {"key_revoked", "budget_exceeded", *GATEWAY_CODES}
    shown = {name: stream_envelope(error(code, param="p"), dialect)["error"] for name, dialect in DIALECTS.items()}
    assert shown["aivene"] == {"message": shown["aivene"]["message"], "type": "stream_error"}
    if code in ours:
        assert (shown["openai"]["type"], shown["openai"]["code"]) == (CODES[code].type, code)
        words = error_fields(error(code), DIALECTS["opentoken"])
        assert (shown["opentoken"]["type"], shown["opentoken"]["code"]) == (words.type, words.code)
    else:
        expected = code if code in STREAM_CODES else "upstream_server_error"
        assert (shown["openai"]["type"], shown["openai"]["code"]) == ("stream_error", expected)
        assert (shown["opentoken"]["type"], shown["opentoken"]["code"]) == ("upstream_error", "stream_error")
    assert shown["openai"]["param"] is None
    assert shown["bitseek"] == {name: shown["openai"][name] for name in ("message", "type", "code")}
