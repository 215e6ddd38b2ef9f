"""What the official SDK for Python makes of each refusal: class, status, type, code, param, and whether it tries again.

The rows are those of the error taxonomy (docs/spec/failures.md, Codes) that a request can bring
about. `x-should-retry` is obeyed by the SDK, so the number of its attempts shows what was sent.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import openai
import pytest
from openai import APIStatusError, AsyncOpenAI, DefaultAsyncHttpxClient, Omit

from support.certificate import make_certificate
from support.gateway import KEY, Gate, gateway
from support.script import whole
from support.scripted_upstream import ScriptedUpstream
from support.soak import part_of

READER = "sk-a-key-that-may-list-models"
EXPIRED = "sk-a-key-of-the-last-century"
SELDOM = "sk-a-key-for-one-request-a-minute"
CONFIG = f"""
[server.timeouts]
first_event_s = 0.2

[server.limits]
body_bytes = 20000

[[providers]]
name = "sim"
kind = "sim"

[[providers]]
name = "closed"
kind = "openai"
base_url = "http://127.0.0.1:1/v1"

[[providers]]
name = "nowhere"
kind = "openai"
base_url = "http://nowhere.invalid/v1"

[[providers]]
name = "packed"
kind = "openai"
base_url = "PACKED"

[[providers]]
name = "stranger"
kind = "openai"
base_url = "STRANGER"

[[keys]]
name = "tests"
key = "{KEY}"

[[keys]]
name = "reader"
key = "{READER}"
scopes = ["models"]

[[keys]]
name = "expired"
key = "{EXPIRED}"
expires = 1999-12-31T00:00:00Z

[[keys]]
name = "seldom"
key = "{SELDOM}"
rpm = 1
"""


class Caller:
    """An SDK client that counts what it sends."""

    def __init__(self, at: Gate, max_retries: int, key: str = KEY) -> None:
        self.attempts = 0
        web = DefaultAsyncHttpxClient(event_hooks={"request": [self._count]})
        self.sdk = AsyncOpenAI(base_url=at.base_url + "/v1", api_key=key, max_retries=max_retries, http_client=web)

    async def _count(self, _: object) -> None:
        self.attempts += 1


Act = Callable[[AsyncOpenAI], Awaitable[object]]


def chat(model: str = "sim/hello", key: str | None = None, headers: dict[str, Any] | None = None, **body: Any) -> Act:
    """A question, with whatever else stands in its body."""

    def act(sdk: AsyncOpenAI) -> Awaitable[object]:
        sdk = sdk if key is None else sdk.with_options(api_key=key)
        messages: Any = [{"role": "user", "content": "Say something."}]
        return sdk.chat.completions.create(model=model, messages=messages, extra_body=body, extra_headers=headers)

    return act


def raw(content: bytes) -> Act:
    return lambda sdk: sdk.post("/chat/completions", cast_to=object, content=content)


def twice(act: Act) -> Act:
    async def both(sdk: AsyncOpenAI) -> None:
        await act(sdk)
        await act(sdk)

    return both


class Case(NamedTuple):
    code: str
    act: Act
    param: str | None = None


class Row(NamedTuple):
    status: int
    word: str
    sdk_class: type[APIStatusError]
    is_final: bool
    """The answer says that another attempt cannot help."""
    cases: list[Case]


TOO_DEEP = b'{"a":' * 70 + b"1" + b"}" * 70
SIMULATED = "sim/error?status="
ROWS = [
    Row(
        400,
        "invalid_request_error",
        openai.BadRequestError,
        True,
        [
            Case("invalid_json", raw(b'{"model":')),
            Case("duplicate_key", raw(b'{"model":"sim/hello","model":"sim/echo","messages":[]}'), "model"),
            Case("json_too_deep", raw(TOO_DEEP)),
            Case("invalid_type", chat(temperature="hot"), "temperature"),
            Case("invalid_value", chat(temperature=9), "temperature"),
            Case("missing_required_parameter", raw(b'{"model":"sim/hello"}'), "messages"),
            Case("unknown_parameter", chat(api_base="http://elsewhere.example/v1"), "api_base"),
            Case("context_length_exceeded", chat(f"{SIMULATED}400&code=context_length_exceeded")),
            Case("content_filter", chat(f"{SIMULATED}400&code=content_filter")),
        ],
    ),
    Row(
        401,
        "invalid_request_error",
        openai.AuthenticationError,
        True,
        [
            Case("invalid_api_key", chat(key="sk-this-is-not-a-key")),
            Case("missing_api_key", chat(headers={"Authorization": Omit()})),
            Case("expired_api_key", chat(key=EXPIRED)),
        ],
    ),
    Row(
        403,
        "permission_error",
        openai.PermissionDeniedError,
        True,
        [Case("insufficient_permissions", chat(key=READER))],
    ),
    Row(
        404,
        "invalid_request_error",
        openai.NotFoundError,
        True,
        [
            Case("model_not_found", chat("nobody/knows-it"), "model"),
            Case("unknown_url", lambda sdk: sdk.post("/moderations", cast_to=object, body={})),
        ],
    ),
    Row(
        405,
        "invalid_request_error",
        APIStatusError,
        True,
        [Case("method_not_allowed", lambda sdk: sdk.get("/chat/completions", cast_to=object))],
    ),
    Row(
        415,
        "invalid_request_error",
        APIStatusError,
        True,
        [
            Case("unsupported_media_type", chat(headers={"content-type": "text/plain"})),
            Case("unsupported_content_encoding", chat(headers={"content-encoding": "gzip"})),
        ],
    ),
    Row(413, "invalid_request_error", APIStatusError, True, [Case("request_too_large", chat(user="x" * 30000))]),
    Row(
        431,
        "invalid_request_error",
        APIStatusError,
        True,
        [Case("headers_too_large", chat(headers={"x-long": "x" * 40000}))],
    ),
    Row(
        429,
        "rate_limit_error",
        openai.RateLimitError,
        False,
        [
            Case("rate_limit_exceeded", twice(chat(key=SELDOM))),
            Case("upstream_rate_limited", chat(f"{SIMULATED}429&retry_after=30")),
        ],
    ),
    Row(
        502,
        "upstream_error",
        openai.InternalServerError,
        True,
        [
            Case("upstream_auth_failed", chat(f"{SIMULATED}401")),
            Case("upstream_redirect_blocked", chat("sim/redirect")),
            Case("upstream_model_not_found", chat(f"{SIMULATED}404")),
        ],
    ),
    Row(
        502,
        "upstream_error",
        openai.InternalServerError,
        False,
        [
            Case("upstream_connect_failed", chat("closed/model")),
            Case("upstream_dns_failed", chat("nowhere/model")),
            Case("upstream_tls_failed", chat("stranger/model")),
            Case("upstream_bad_response", chat("sim/html")),
            Case("upstream_bad_encoding", chat("packed/model")),
            Case("upstream_empty_response", chat("sim/empty")),
            Case("upstream_server_error", chat(f"{SIMULATED}500")),
            Case("upstream_stream_truncated", chat("sim/cut?how=fin")),
            Case("upstream_stream_reset", chat("sim/cut?how=rst")),
        ],
    ),
    Row(
        503,
        "upstream_error",
        openai.InternalServerError,
        True,
        [Case("upstream_quota_exhausted", chat(f"{SIMULATED}402"))],
    ),
    Row(
        503,
        "upstream_error",
        openai.InternalServerError,
        False,
        [Case("upstream_overloaded", chat(f"{SIMULATED}529"))],
    ),
    Row(
        504,
        "upstream_error",
        openai.InternalServerError,
        False,
        [Case("upstream_timeout", chat("sim/stall?at=0", stream=True))],
    ),
]


@asynccontextmanager
async def everything(folder: Path) -> AsyncIterator[Gate]:
    """The gateway, with a provider that compresses and one whose certificate nobody has signed."""
    answer = whole(b"not really compressed", headers=[("content-encoding", "gzip")])
    stranger = make_certificate(folder).server_context()
    async with ScriptedUpstream(answer) as packed, ScriptedUpstream(answer, tls=stranger) as unknown:
        config = CONFIG.replace("PACKED", packed.base_url).replace("STRANGER", unknown.base_url)
        async with gateway(config) as at:
            yield at


@pytest.mark.parametrize(
    ("row", "case"),
    part_of([pytest.param(row, case, id=f"{row.status}-{case.code}") for row in ROWS for case in row.cases], 3),
)
async def test_each_refusal_reaches_the_caller(tmp_path: Path, row: Row, case: Case) -> None:
    async with everything(tmp_path) as at:
        caller = Caller(at, max_retries=2 if row.is_final else 0)
        async with caller.sdk:
            with pytest.raises(APIStatusError) as caught:
                await case.act(caller.sdk)
    error = caught.value
    assert type(error) is row.sdk_class
    assert (error.status_code, error.type, error.code) == (row.status, row.word, case.code)
    assert error.param == case.param
    assert error.message
    assert error.request_id
    advice = error.response.headers.get("x-should-retry")
    assert (advice == "false") is row.is_final
    if row.is_final:
        assert caller.attempts == 1


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Gate]:
    async with everything(tmp_path) as at:
        yield at


async def refused(at: Gate, act: Act, max_retries: int = 0) -> tuple[APIStatusError, int]:
    """The error that ends it, and after how many attempts."""
    caller = Caller(at, max_retries)
    async with caller.sdk:
        with pytest.raises(APIStatusError) as caught:
            await act(caller.sdk)
    return caught.value, caller.attempts


async def test_a_failure_that_may_pass_is_tried_again(gate: Gate) -> None:
    error, attempts = await refused(gate, chat("closed/model"), max_retries=1)
    assert error.status_code in (502, 503)
    assert attempts == 2


async def test_the_wait_that_a_provider_asks_for_is_passed_on(gate: Gate) -> None:
    error, _ = await refused(gate, chat(f"{SIMULATED}429&retry_after=30"))
    assert error.response.headers["retry-after"] == "30"


async def test_a_wait_is_never_longer_than_the_sdk_would_wait(gate: Gate) -> None:
    error, _ = await refused(gate, chat(f"{SIMULATED}429&retry_after=3000"))
    assert error.response.headers["retry-after"] == "120"


async def test_a_rate_limit_says_how_much_is_left(gate: Gate) -> None:
    async with AsyncOpenAI(base_url=gate.base_url + "/v1", api_key=SELDOM) as sdk:
        messages: Any = [{"role": "user", "content": "Say something."}]
        response = await sdk.chat.completions.with_raw_response.create(model="sim/hello", messages=messages)
    assert response.headers["x-ratelimit-limit-requests"] == "1"
    assert response.headers["x-ratelimit-remaining-requests"] == "0"
    error, _ = await refused(gate, chat(key=SELDOM))
    assert error.code == "rate_limit_exceeded"
    assert 0 < int(error.response.headers["retry-after"]) <= 120


async def test_a_target_that_keeps_failing_is_not_asked_any_more(gate: Gate) -> None:
    for _ in range(5):
        error, _ = await refused(gate, chat("closed/model"))
    error, _ = await refused(gate, chat("closed/model"))
    assert (error.status_code, error.type, error.code) == (503, "upstream_error", "no_available_deployment")
    assert 0 < int(error.response.headers["retry-after"]) <= 30


async def test_a_gateway_that_shuts_down_says_so(gate: Gate) -> None:
    gate.gateway.stop_admitting()
    error, _ = await refused(gate, chat())
    assert type(error) is openai.InternalServerError
    assert (error.status_code, error.type, error.code) == (503, "overloaded_error", "server_shutting_down")
    assert int(error.response.headers["retry-after"]) > 0


def test_every_row_is_listed_once() -> None:
    codes = [case.code for row in ROWS for case in row.cases]
    assert len(codes) == len(set(codes))
