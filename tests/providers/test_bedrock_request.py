"""Requests to Amazon Bedrock apart from Converse: InvokeModel for Claude, the second host, OpenAI's paths."""

import json
from base64 import b64decode
from typing import Any

import pytest

from streamweir.core.request import ChatRequest, read_request
from streamweir.frontends.messages.request import read_messages_request
from streamweir.frontends.responses.request import read_responses_request
from streamweir.providers.base import Target, UpstreamRequest, count_request
from streamweir.providers.bedrock import claude
from streamweir.providers.bedrock.inference_id import foundation_model, model_path
from streamweir.providers.bedrock.invoke import PROVIDER as INVOKE
from streamweir.providers.bedrock.mantle import PROVIDER as MANTLE
from streamweir.providers.bedrock.openai import CHAT, MANTLE_CHAT, MANTLE_RESPONSES, RESPONSES

CLAUDE = Target(model="eu.anthropic.claude-sonnet-4-5-20250929-v1:0", api_key="k", region="eu-central-1")
ARN = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-opus-4-6-v1"
HI = {"role": "user", "content": "Hi"}


def asked(**members: Any) -> ChatRequest:
    return read_request({"model": "m", "messages": [HI], **members})


def passed(headers: dict[str, str] | None = None, **members: Any) -> ChatRequest:
    """A request of the Messages API."""
    body = {"model": "m", "max_tokens": 100, "messages": [HI], **members}
    return read_messages_request(body, headers or {})


def body_of(request: UpstreamRequest) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(request.body)
    return body


@pytest.mark.parametrize(
    ("model", "path", "foundation"),
    [
        ("anthropic.claude-v2:1", "anthropic.claude-v2%3A1", "anthropic.claude-v2:1"),
        ("global.anthropic.claude-opus-5-5", "global.anthropic.claude-opus-5-5", "anthropic.claude-opus-5-5"),
        ("us-gov.amazon.nova-pro-v1:0", "us-gov.amazon.nova-pro-v1%3A0", "amazon.nova-pro-v1:0"),
        ("openai.gpt-5.4", "openai.gpt-5.4", "openai.gpt-5.4"),
        (
            ARN,
            "arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.anthropic.claude-opus-4-6-v1",
            "anthropic.claude-opus-4-6-v1",
        ),
        (
            "arn:aws:bedrock:eu-west-1::foundation-model/amazon.titan-embed-text-v2:0",
            "arn%3Aaws%3Abedrock%3Aeu-west-1%3A%3Afoundation-model%2Famazon.titan-embed-text-v2%3A0",
            "amazon.titan-embed-text-v2:0",
        ),
        (
            "arn:aws:bedrock:eu-west-1:1:application-inference-profile/x1y2",
            "arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Aapplication-inference-profile%2Fx1y2",
            None,
        ),
        ("a/../b?c#d", "a%2F..%2Fb%3Fc%23d", "a/../b?c#d"),
    ],
)
def test_names_of_models(model: str, path: str, foundation: str | None) -> None:
    assert model_path(model, "invoke") == f"/model/{path}/invoke"
    assert foundation_model(model) == foundation


def test_messages_without_model_and_stream_in_the_body() -> None:
    streamed = INVOKE.build_request(asked(stream=True, max_tokens=5), CLAUDE)
    assert streamed.path == "/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke-with-response-stream"
    assert dict(streamed.headers) == {
        "authorization": "Bearer k",
        "content-type": "application/json",
        "accept": "application/vnd.amazon.eventstream",
    }
    assert body_of(streamed) == {
        "anthropic_version": "bedrock-2023-05-31",
        "max_tokens": 5,
        "messages": [HI],
    }
    whole = INVOKE.build_request(asked(max_tokens=5), Target(model=ARN))
    assert whole.path.endswith("claude-opus-4-6-v1/invoke")
    assert dict(whole.headers) == {"content-type": "application/json", "accept": "application/json"}


def test_the_callers_own_body_is_passed_on() -> None:
    sent: dict[str, Any] = {
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        "thinking": {"type": "enabled", "budget_tokens": 2048},
        "metadata": {"user_id": "u"},
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        "tools": [{"name": "run", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}],
        "stream": True,
    }
    request = INVOKE.build_request(passed(**sent), CLAUDE)
    expected = {
        "max_tokens": 100,
        "messages": [HI],
        **{name: value for name, value in sent.items() if name != "stream"},
    }
    assert body_of(request) == {"anthropic_version": "bedrock-2023-05-31", **expected}
    assert request.dropped == ()


def test_what_bedrock_refuses_is_left_out_and_named() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    tool = {"name": "run", "input_schema": {"type": "object"}}
    request = INVOKE.build_request(
        passed(
            cache_control={"type": "ephemeral"},
            mcp_servers=[{"type": "url", "name": "x", "url": "https://x.test"}],
            service_tier="auto",
            anthropic_version="vertex-2023-10-16",
            tools=[search, tool],
        ),
        CLAUDE,
    )
    body = body_of(request)
    assert body["tools"] == [tool]
    assert body["anthropic_version"] == "bedrock-2023-05-31"
    assert not {"cache_control", "mcp_servers", "service_tier"} & body.keys()
    assert request.dropped == ("cache_control", "mcp_servers", "tools[0]")
    chat = INVOKE.build_request(asked(tools=[search], tool_choice="required", service_tier="priority"), CLAUDE)
    assert not {"tools", "tool_choice", "service_tier"} & body_of(chat).keys()
    assert set(chat.dropped) == {"tools[0]", "tool_choice", "service_tier"}


def test_betas_are_in_the_body_and_only_those_that_are_known_there() -> None:
    sent = "claude-code-20250219, interleaved-thinking-2025-05-14,advanced-tool-use-2025-11-20,fast-mode-2026-02-01"
    request = INVOKE.build_request(
        passed({"anthropic-beta": sent}, anthropic_beta=["context-1m-2025-08-07", 7]), CLAUDE
    )
    assert body_of(request)["anthropic_beta"] == [
        "interleaved-thinking-2025-05-14",
        "tool-search-tool-2025-10-19",
        "tool-examples-2025-10-29",
        "context-1m-2025-08-07",
    ]
    assert request.dropped == ("anthropic-beta.fast-mode-2026-02-01",)
    assert not any(name.startswith("anthropic-") for name, _ in request.headers)
    search = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
    body = body_of(INVOKE.build_request(passed(tools=[search]), CLAUDE))
    assert body["anthropic_beta"] == ["tool-search-tool-2025-10-19"], "it is not needed at Anthropic's own address"
    assert body["tools"] == [search]


def test_the_scope_of_a_cache_goes_with_its_beta() -> None:
    block = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "scope": "global"}}
    plain = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    asked_for = passed(
        {"anthropic-beta": "prompt-caching-scope-2026-01-05"},
        system=[block],
        messages=[{"role": "user", "content": [block]}, {"role": "assistant", "content": "y"}],
    )
    for provider in (INVOKE, MANTLE):
        request = provider.build_request(asked_for, CLAUDE)
        body = body_of(request)
        assert body["system"] == [plain]
        assert body["messages"] == [{"role": "user", "content": [plain]}, {"role": "assistant", "content": "y"}]
        assert request.dropped == ("anthropic-beta.prompt-caching-scope-2026-01-05",)
    assert asked_for.native is not None
    assert asked_for.native.body["system"] == [block], "another provider may be tried with it"


def test_an_older_place_of_the_format() -> None:
    wanted = {"type": "json_schema", "schema": {"type": "object"}}
    request = passed(output_format=wanted, output_config={"effort": "low"})
    body = body_of(INVOKE.build_request(request, CLAUDE))
    assert body["output_config"] == {"format": wanted, "effort": "low"}
    assert "output_format" not in body


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
        {"type": "file", "file": {"file_id": "file_1"}},
        {"type": "file", "file": {"file_data": "HTTPS://x.test/a.pdf"}},
    ],
)
def test_content_that_is_elsewhere_is_refused(part: dict[str, Any]) -> None:
    refusal = INVOKE.refusal_of(asked(messages=[HI, {"role": "user", "content": [part]}]), CLAUDE.model)
    assert refusal is not None
    assert (refusal.code, refusal.param) == ("invalid_value", "messages[1].content[0]")


def test_what_is_not_refused() -> None:
    data = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    assert INVOKE.refusal_of(asked(messages=[{"role": "user", "content": [data]}]), CLAUDE.model) is None
    bash = {"type": "bash_20250124", "name": "bash"}
    assert INVOKE.refusal_of(passed(tools=[bash]), CLAUDE.model) is None, "the caller runs it"
    assert INVOKE.refusal_of(asked(n=2), CLAUDE.model) is not None
    search = {"type": "web_search_20250305", "name": "web_search"}
    refusal = INVOKE.refusal_of(passed(tools=[search]), CLAUDE.model)
    assert refusal is not None
    assert refusal.param == "tools[0]", "its answer would be taken for what the search has found"


def test_tokens_are_counted_by_the_model_itself() -> None:
    chat = read_messages_request({"model": "m", "messages": [HI]}, {}, needs_limit=False)
    request = INVOKE.build_request(chat, CLAUDE)
    count = count_request(INVOKE, request, CLAUDE)
    assert count is not None
    assert count.path == "/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/count-tokens"
    assert count.headers == request.headers
    inner = json.loads(b64decode(body_of(count)["input"]["invokeModel"]["body"]))
    assert inner == {"anthropic_version": "bedrock-2023-05-31", "messages": [HI], "max_tokens": 64_000}


@pytest.mark.parametrize(
    ("status", "name", "text", "code", "quoted"),
    [
        (
            400,
            "ValidationException",
            "The model returned the following errors: messages.1.content.0: Invalid `signature` in `thinking` block",
            "invalid_value",
            "messages.1.content.0: Invalid `signature` in `thinking` block",
        ),
        (400, "ValidationException", "Input is too long for requested model.", "context_length_exceeded", None),
        (429, "ThrottlingException", "Too many requests", "upstream_rate_limited", None),
        (403, "AccessDeniedException", "User: arn:aws:iam::1:user/x is not authorized", "upstream_auth_failed", None),
    ],
)
def test_what_claude_refuses_is_quoted(status: int, name: str, text: str, code: str, quoted: str | None) -> None:
    body = json.dumps({"message": text}).encode()
    error = INVOKE.read_error(status, {"x-amzn-errortype": f"{name}:http://internal.amazon.com/"}, body)
    assert error.code == code
    if quoted is None:
        assert error.native is None
    else:
        assert error.native is not None
        assert (error.native.status, error.native.type, error.native.message) == (
            status,
            "invalid_request_error",
            quoted,
        )


@pytest.mark.parametrize(
    "model", ["google.gemma-4-31b", "Invalid API Key", "The security token included in the request is expired"]
)
@pytest.mark.parametrize("code", ["access_denied", None])
def test_a_model_without_access_is_not_a_wrong_key(model: str, code: str | None) -> None:
    """Callers choose names of models: none of them may make the gateway give a credential up."""
    body = {
        "error": {"message": f"{model} is not enabled for this account.", "type": "invalid_request_error", "code": code}
    }
    for provider in (MANTLE, MANTLE_CHAT, MANTLE_RESPONSES):
        error = provider.read_error(401, {}, json.dumps(body).encode())
        assert (error.code, error.is_of_account) == ("upstream_auth_failed", False)
    wrong = {"error": {"message": "Invalid bearer token", "type": "authentication_error"}}
    assert MANTLE_CHAT.read_error(401, {}, json.dumps(wrong).encode()).is_of_account


@pytest.mark.parametrize(
    "text",
    ["model `openai.gpt-5.5` isn't supported on this route", "The model 'x' does not support the '/v1/responses' API"],
)
def test_a_model_on_another_path_is_not_the_callers_fault(text: str) -> None:
    body = json.dumps({"error": {"message": text, "type": "invalid_request_error"}}).encode()
    error = MANTLE_RESPONSES.read_error(400, {}, body)
    assert error.code == "upstream_model_not_found"
    assert "Set another wire" in error.message


def test_claude_at_the_second_host() -> None:
    sent = "claude-code-20250219,skills-2025-10-02,effort-2025-11-24"
    target = Target(model="anthropic.claude-opus-4-8", api_key="k")
    request = MANTLE.build_request(
        passed({"anthropic-beta": sent, "anthropic-version": "2026-10-21"}, stream=True), target
    )
    assert request.path == "/anthropic/v1/messages"
    assert dict(request.headers) == {
        "authorization": "Bearer k",
        "anthropic-version": "2026-10-21",
        "content-type": "application/json",
        "accept": "text/event-stream",
        "anthropic-beta": "claude-code-20250219,effort-2025-11-24",
    }
    assert request.dropped == ("anthropic-beta.skills-2025-10-02",)
    assert body_of(request)["model"] == target.model
    count = count_request(MANTLE, request, target)
    assert count is not None
    assert count.path == "/anthropic/v1/messages/count_tokens"


@pytest.mark.parametrize(
    ("model", "prefix"),
    [
        ("openai.gpt-oss-120b", "/v1"),
        ("qwen.qwen3-coder-480b-a35b", "/v1"),
        ("google.gemma-3-27b-it", "/v1"),
        ("google.gemma-4-31b", "/openai/v1"),
        ("openai.gpt-5.5", "/openai/v1"),
        ("global.openai.gpt-6-sol", "/openai/v1"),
        ("xai.grok-4.3", "/openai/v1"),
    ],
)
def test_openais_paths(model: str, prefix: str) -> None:
    target = Target(model=model, api_key="k")
    for provider, path in ((MANTLE_CHAT, "/chat/completions"), (MANTLE_RESPONSES, "/responses")):
        request = provider.build_request(asked(stream=True), target)
        assert request.path == f"{prefix}{path}"
        assert ("authorization", "Bearer k") in request.headers
        assert body_of(request)["model"] == model
    assert CHAT.build_request(asked(), target).path == "/openai/v1/chat/completions"
    assert RESPONSES.build_request(asked(), target).path == "/openai/v1/responses"
    assert CHAT.build_request(asked(service_tier="priority"), target).dropped == ("service_tier",)


def test_betas_in_the_body_are_in_the_header_at_the_second_host() -> None:
    sent = ["context-1m-2025-08-07", "skills-2025-10-02", 5, "a\r\nb: c", "a,b"]
    request = passed({"anthropic-beta": "effort-2025-11-24"}, anthropic_beta=sent)
    made = MANTLE.build_request(request, Target(model="anthropic.claude-opus-4-8"))
    assert dict(made.headers)["anthropic-beta"] == "effort-2025-11-24,context-1m-2025-08-07"
    left_out = ("skills-2025-10-02", "a\r\nb: c", "a,b")
    assert made.dropped == tuple(f"anthropic-beta.{beta}" for beta in left_out)
    assert "anthropic_beta" not in body_of(made)


@pytest.mark.parametrize(
    ("model", "version"),
    [
        ("anthropic.claude-opus-4-7", "2026-10-21"),
        ("anthropic.claude-mythos-preview", "2026-10-21"),
        ("anthropic.claude-haiku-4-5", "2023-06-01"),
        ("anthropic.claude-sonnet-4-6", "2023-06-01"),
    ],
)
def test_older_models_at_the_second_host_get_the_version_that_they_take(model: str, version: str) -> None:
    request = MANTLE.build_request(passed({"anthropic-version": "2026-10-21"}), Target(model=model))
    assert dict(request.headers)["anthropic-version"] == version


@pytest.mark.parametrize(("tier", "is_named"), [("priority", True), ("flex", True), ("auto", False), (None, False)])
def test_no_caller_chooses_a_service_tier(tier: str | None, is_named: bool) -> None:
    """The price of another one is not in the price list."""
    target, dropped = Target(model="openai.gpt-5.5", api_key="k"), ("service_tier",) if is_named else ()
    native = read_responses_request({"model": "m", "input": "Hi", "service_tier": tier})
    for provider in (RESPONSES, MANTLE_RESPONSES):
        for request in (native, asked(service_tier=tier)):
            made = provider.build_request(request, target)
            assert body_of(made).get("service_tier") in (None, "auto")
            assert made.dropped == dropped
        assert body_of(provider.build_request(native, target))["input"] == "Hi"
    made = MANTLE.build_request(passed(service_tier=tier), CLAUDE)
    assert body_of(made).get("service_tier") in (None, "auto")
    assert made.dropped == dropped


def test_betas_of_members_are_named_by_their_members() -> None:
    request = asked(mcp_servers=[{"type": "url", "name": "x", "url": "https://x.test"}])
    assert INVOKE.build_request(request, CLAUDE).dropped == ("mcp_servers",)
    made = MANTLE.build_request(request, Target(model="anthropic.claude-opus-4-8"))
    assert made.dropped == ("mcp_servers",)
    assert "mcp_servers" not in body_of(made)
    assert claude.split_betas(["unknown-2099-01-01"]) == ([], ["unknown-2099-01-01"])
