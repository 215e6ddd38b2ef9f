"""Requests to Vertex AI for Claude and open models: paths, bodies, and what Vertex does not take."""

from typing import Any

import pytest

from streamweir.core.request import ChatRequest, read_request
from streamweir.frontends.messages.request import read_messages_request
from streamweir.providers.base import Target, UpstreamRequest, Wire, count_request
from streamweir.providers.registry import native_wire, provider_named, wire_for, wires_of
from streamweir.wire import jsonio
from streamweir.wire.native import NativeWire

CLAUDE = Target(model="claude-sonnet-4-5@20250929", project="acme", location="us-east5")
FOLDER = "/projects/acme/locations/us-east5"
HELLO = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "Hi"}]}


def messages(headers: dict[str, str] | None = None, **members: Any) -> ChatRequest:
    return read_messages_request({**HELLO, **members}, headers or {})


def built(request: ChatRequest, target: Target = CLAUDE, name: str = "vertex-messages") -> UpstreamRequest:
    return provider_named(name).build_request(request, target)


def body_of(request: UpstreamRequest) -> Any:
    return jsonio.decode(request.body)


@pytest.mark.parametrize(
    ("model", "wire"),
    [
        ("gemini-2.5-pro", Wire.GEMINI),
        ("publishers/google/models/gemini-2.5-pro", Wire.GEMINI),
        ("models/gemini-2.5-pro", Wire.GEMINI),
        ("claude-opus-4-6", Wire.MESSAGES),
        ("claude-sonnet-4-5@20250929", Wire.MESSAGES),
        ("anthropic/claude-opus-4-6", Wire.MESSAGES),
        ("publishers/anthropic/models/claude-opus-4-6", Wire.MESSAGES),
        ("meta/llama-4-maverick-maas", Wire.CHAT),
        ("google/gemini-2.5-pro", Wire.CHAT),
        ("someone/claude-like", Wire.CHAT),
    ],
)
def test_the_wire_of_a_model(model: str, wire: Wire) -> None:
    assert wire_for("vertex", model) is wire
    assert wires_of("vertex") == (Wire.GEMINI, Wire.MESSAGES, Wire.CHAT)
    assert native_wire("vertex-messages") is NativeWire.ANTHROPIC_MESSAGES
    assert native_wire("vertex-chat") is None


@pytest.mark.parametrize("prefix", ["", "anthropic/", "publishers/anthropic/models/"])
def test_the_path_of_claude(prefix: str) -> None:
    target = Target(model=f"{prefix}claude-opus-4-6", project="a:b", location=None)
    path = "/projects/a%3Ab/locations/global/publishers/anthropic/models/claude-opus-4-6"
    assert built(messages(), target).path == f"{path}:rawPredict"
    assert built(messages(stream=True), target).path == f"{path}:streamRawPredict"
    hostile = Target(model="claude-x/../../y?a#b", project="p")
    assert built(messages(), hostile).path.endswith("/models/claude-x%2F..%2F..%2Fy%3Fa%23b:rawPredict")


def test_the_callers_body_has_the_version_instead_of_the_model() -> None:
    request = built(
        messages({"anthropic-version": "2026-10-21"}, stream=True, unheard_of=1, speed="fast", anthropic_version="x")
    )
    assert list(body_of(request)) == ["anthropic_version", "max_tokens", "messages", "stream", "unheard_of"]
    assert body_of(request)["anthropic_version"] == "vertex-2023-10-16"
    assert request.headers == (("content-type", "application/json"), ("accept", "text/event-stream"))
    assert request.dropped == ("speed",)


def test_a_chat_request_becomes_messages() -> None:
    request = read_request({"model": "m", "messages": HELLO["messages"], "service_tier": "priority", "max_tokens": 9})
    made = built(request, Target(model="claude-sonnet-4-5@20250929", project="p", api_key="ya29.k"))
    assert body_of(made) == {
        "anthropic_version": "vertex-2023-10-16",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "Hi"}],
    }
    assert made.headers[0] == ("authorization", "Bearer ya29.k")
    assert made.dropped == ("service_tier",)


def test_betas_that_vertex_does_not_know_are_left_out_and_named() -> None:
    betas = (
        "claude-code-20250219, interleaved-thinking-2025-05-14,advanced-tool-use-2025-11-20,"
        "tool-search-tool-2025-10-19,files-api-2025-04-14,,prompt-caching-scope-2026-01-05,new-2027-01-01,\xe9 x"
    )
    marked = {"type": "ephemeral", "scope": "global", "ttl": "1h"}
    request = messages(
        {"anthropic-beta": betas, "anthropic-new": "1"},
        system=[{"type": "text", "text": "s", "cache_control": marked}],
        messages=[{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": marked}]}],
        cache_control=marked,
        diagnostics={"previous_message_id": None},
        service_tier="auto",
    )
    made = built(request)
    assert dict(made.headers)["anthropic-beta"] == "interleaved-thinking-2025-05-14,tool-search-tool-2025-10-19"
    assert "anthropic-new" not in dict(made.headers)
    kept = {"type": "ephemeral", "ttl": "1h"}
    body = body_of(made)
    assert body["system"][0]["cache_control"] == body["cache_control"] == kept
    assert body["messages"][0]["content"][0]["cache_control"] == kept
    assert made.dropped == (
        "anthropic-beta.files-api-2025-04-14",
        "anthropic-beta.new-2027-01-01",
        "anthropic-beta",
        "diagnostics",
    )
    assert marked["scope"] == "global", "the caller's body is never touched"


def test_betas_in_the_body_are_betas_as_well() -> None:
    sent = ["context-1m-2025-08-07", "fast-mode-2026-02-01", "claude-code-20250219", 5]
    made = built(messages({"anthropic-beta": "interleaved-thinking-2025-05-14"}, anthropic_beta=sent))
    assert dict(made.headers)["anthropic-beta"] == "interleaved-thinking-2025-05-14,context-1m-2025-08-07"
    assert made.dropped == ("anthropic-beta.fast-mode-2026-02-01",)
    assert "anthropic_beta" not in body_of(made)
    assert "anthropic_beta" not in body_of(built(messages(anthropic_beta="context-1m-2025-08-07")))


@pytest.mark.parametrize(
    ("beta", "member", "dropped"),
    [
        ("context-management-2025-06-27", {"context_management": {"edits": []}}, ()),
        ("", {"context_management": {"edits": []}}, ("context_management",)),
        ("mcp-client-2025-11-20", {"mcp_servers": [{}]}, ("anthropic-beta.mcp-client-2025-11-20", "mcp_servers")),
        ("", {"container": {"skills": []}}, ("container",)),
        ("", {"output_config": {"effort": "low", "task_budget": {}}}, ("output_config.task_budget",)),
        ("", {"output_config": {"task_budget": {}}}, ("output_config.task_budget",)),
        ("thinking-binding-controls-2026-08-01", {"thinking": {"type": "adaptive", "block_binding": 1}}, ()),
        ("", {"output_config": {"effort": "low"}}, ()),
    ],
)
def test_members_of_betas_that_are_not_sent(beta: str, member: dict[str, Any], dropped: tuple[str, ...]) -> None:
    made = built(messages({"anthropic-beta": beta}, **member))
    assert made.dropped == dropped
    ((name, value),) = member.items()
    left = body_of(made).get(name)
    inner = {path.partition(".")[2] for path in dropped if path.startswith(f"{name}.")}
    expected = None if name in dropped else {each: it for each, it in value.items() if each not in inner} or None
    assert left == expected


WEB = {"type": "web_search_20250305", "name": "web_search"}
FETCH = {"type": "web_fetch_20250910", "name": "web_fetch"}
OWN = {"name": "f", "input_schema": {"type": "object"}}


def test_tools_that_vertex_does_not_run() -> None:
    made = built(messages(tools=[OWN, FETCH, WEB]))
    assert (body_of(made)["tools"], made.dropped) == ([OWN, WEB], ("tools[1]",))
    alone = messages(tools=[FETCH], tool_choice={"type": "any"})
    refusal = provider_named("vertex-messages").refusal_of(alone, "m")
    assert refusal is not None
    assert (refusal.code, refusal.param) == ("invalid_value", "tools[0]")
    made = built(alone)
    assert not {"tools", "tool_choice"} & body_of(made).keys()
    assert made.dropped == ("tools[0]", "tool_choice")
    assert provider_named("vertex-messages").refusal_of(messages(tools=[WEB]), "m") is None
    several = read_request({"model": "m", "messages": HELLO["messages"], "n": 2})
    assert provider_named("vertex-messages").refusal_of(several, "m") is not None


@pytest.mark.parametrize(
    ("tool", "beta"),
    [
        (WEB, "web-search-2025-03-05"),
        ({"type": "tool_search_tool_regex_20251119", "name": "search"}, "tool-search-tool-2025-10-19"),
        (OWN, None),
        ({"type": "bash_20250124", "name": "bash"}, None),
    ],
)
def test_tools_for_which_vertex_wants_a_beta_that_anthropic_does_not(tool: dict[str, Any], beta: str | None) -> None:
    for sent in ({}, {"anthropic-beta": beta or ""}):
        assert dict(built(messages(sent, tools=[tool])).headers).get("anthropic-beta") == beta


def test_the_count_of_a_prompt() -> None:
    betas = "web-search-2025-03-05,context-1m-2025-08-07,interleaved-thinking-2025-05-14,advanced-tool-use-2025-11-20"
    request = messages({"anthropic-beta": betas})
    count = count_request(provider_named("vertex-messages"), built(request), CLAUDE)
    assert count is not None
    assert count.path == f"{FOLDER}/publishers/anthropic/models/count-tokens:rawPredict"
    assert body_of(count) == {**HELLO, "anthropic_version": "vertex-2023-10-16", "model": CLAUDE.model}
    assert dict(count.headers)["anthropic-beta"] == "interleaved-thinking-2025-05-14", "the others are refused there"
    only = count_request(
        provider_named("vertex-messages"), built(messages({"anthropic-beta": "web-search-2025-03-05"})), CLAUDE
    )
    assert only is not None
    assert "anthropic-beta" not in dict(only.headers)


def test_open_models() -> None:
    target = Target(model="meta/llama-4-maverick-maas", project="acme", location="us-east5", api_key="ya29.k")
    body = {"model": "m", "messages": HELLO["messages"], "max_completion_tokens": 9, "store": True, "seed": 1}
    made = built(read_request(body), target, "vertex-chat")
    assert made.path == f"{FOLDER}/endpoints/openapi/chat/completions"
    assert body_of(made) == {"model": target.model, "messages": HELLO["messages"], "max_tokens": 9, "seed": 1}
    assert (made.dropped, made.headers[0]) == (("store",), ("authorization", "Bearer ya29.k"))
    without = Target(model=target.model, project="acme")
    assert "authorization" not in dict(built(read_request(body), without, "vertex-chat").headers)


@pytest.mark.parametrize("name", ["vertex", "vertex-messages", "vertex-chat"])
def test_errors_are_googles_on_every_wire(name: str) -> None:
    body = b'{"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "Permission \'a.b\' denied on x"}}'
    error = provider_named(name).read_error(403, {}, body)
    assert error.code == "upstream_auth_failed"
    assert "roles/aiplatform.user" in error.message
