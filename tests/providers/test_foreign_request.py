"""Requests that came in another API's format: what each provider makes of what chat completions cannot say."""

from typing import Any

import pytest
from msgspec import structs

from streamweir.core.request import ChatRequest, NativeRequest, read_request
from streamweir.frontends.carried import carry
from streamweir.frontends.messages.frontend import MESSAGES
from streamweir.frontends.responses.frontend import RESPONSES
from streamweir.pipeline.output_limit import with_limit
from streamweir.providers.base import Target, UpstreamRequest
from streamweir.providers.openai.turns import arrange
from streamweir.providers.registry import provider_named
from streamweir.wire import jsonio

TARGET = Target(model="target", api_key="k")
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
IMAGE = {"type": "image_url", "image_url": {"url": "https://a/b.png"}}


def read(**members: Any) -> ChatRequest:
    return MESSAGES.parse(
        {"model": "m", "max_tokens": 2000, "messages": [{"role": "user", "content": "Hi"}], **members}, {}
    )


def built(name: str, request: ChatRequest) -> tuple[UpstreamRequest, dict[str, Any]]:
    made = provider_named(name).build_request(request, TARGET)
    body: dict[str, Any] = jsonio.decode(made.body)
    return made, body


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def test_pictures_in_results_follow_the_last_result_of_the_turn() -> None:
    results: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": "a", "content": [text("one"), IMAGE]},
        {"role": "tool", "tool_call_id": "b", "content": "two"},
    ]
    seen = [{"role": "tool", "tool_call_id": "a", "content": "one"}, results[1]]
    assert arrange(results, system_first=False) == [*seen, {"role": "user", "content": [IMAGE]}]
    more = {"role": "user", "content": "so?"}
    assert arrange([*results, more], system_first=False) == [*seen, {"role": "user", "content": [IMAGE, text("so?")]}]


def test_a_system_message_that_is_not_the_first_is_folded_into_the_users_turn_where_templates_want_that() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "a"},
        {"role": "system", "content": "b"},
        {"role": "user", "content": "c"},
        {"role": "system", "content": "d"},
        {"role": "assistant", "content": "e"},
        {"role": "system", "content": "f"},
    ]
    assert arrange(messages, system_first=False) == messages
    assert arrange(messages, system_first=True) == [
        {"role": "system", "content": "a\n\nb"},
        {"role": "user", "content": [text("c"), text("d")]},
        messages[4],
        {"role": "user", "content": [text("f")]},
    ]


def test_a_developers_message_is_a_system_message_for_such_templates() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "developer", "content": "a"},
        {"role": "developer", "content": [text("b")]},
        {"role": "user", "content": "c"},
        {"role": "developer", "content": "d"},
    ]
    assert arrange(messages, system_first=True) == [
        {"role": "developer", "content": [text("a"), text("b")]},
        {"role": "user", "content": [text("c"), text("d")]},
    ]


@pytest.mark.parametrize("name", ["vllm", "llamacpp"])
def test_these_have_such_templates(name: str) -> None:
    request = read(messages=[{"role": "user", "content": "Hi"}, {"role": "system", "content": "env"}])
    assert built(name, request)[1]["messages"] == [{"role": "user", "content": "Hi\n\nenv"}]
    assert len(built("openai", request)[1]["messages"]) == 2


def test_texts_are_one_text_where_no_part_has_a_member_of_its_own() -> None:
    """DeepSeek and others refuse a list of parts."""
    block = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}
    picture = {"type": "image", "source": {"type": "url", "url": "https://a/b.png"}}
    request = read(
        system=[{"type": "text", "text": "Be"}, {**block, "text": "kind."}],
        messages=[
            {"role": "user", "content": [text("One"), block]},
            {"role": "assistant", "content": [text("Two"), text("three")]},
            {"role": "user", "content": [text("Four"), picture]},
        ],
    )
    messages = [
        {"role": "system", "content": "Be\n\nkind."},
        {"role": "user", "content": "One\n\nHi"},
        {"role": "assistant", "content": "Two\n\nthree"},
        {"role": "user", "content": [text("Four"), IMAGE]},
    ]
    assert built("openai", request)[1]["messages"] == messages
    marked = built("openrouter", request)[1]["messages"]
    assert marked[1]["content"] == [text("One"), block]
    assert [marked[0]["role"], *marked[2:]] == ["system", *messages[2:]]


@pytest.mark.parametrize("name", ["openai", "alibaba", "deepseek", "anthropic", "gemini"])
def test_a_summary_is_shown_by_the_frontend_and_asks_no_model_to_reason(name: str) -> None:
    document = {"model": "m", "input": "Hi", "reasoning": {"summary": "auto"}}
    made, body = built(name, RESPONSES.parse(document, {}))
    assert made.dropped == ()
    assert not {"reasoning", "reasoning_effort", "enable_thinking", "thinking"} & body.keys()
    assert "thinkingConfig" not in body.get("generationConfig", {})


def test_a_web_search_is_only_googles_own() -> None:
    request = read(tools=[SEARCH])
    assert provider_named("gemini").refusal_of(request, "m") is None
    assert built("gemini", request)[1]["tools"] == [{"googleSearch": {}}]
    refusal = provider_named("openai").refusal_of(request, "m")
    assert refusal is not None
    assert (refusal.code, refusal.param) == ("invalid_value", "tools[0]")


@pytest.mark.parametrize("name", ["openai", "gemini"])
def test_a_tool_that_anthropic_alone_has_is_refused_by_the_others_where_it_is_the_only_one(name: str) -> None:
    tool = {"type": "code_execution_20250825", "name": "code_execution"}
    request = read(tools=[tool])
    refusal = provider_named(name).refusal_of(request, "m")
    assert refusal is not None
    assert (refusal.code, refusal.param) == ("invalid_value", "tools[0]")
    assert provider_named("anthropic").refusal_of(request, "m") is None
    assert built("anthropic", request)[1]["tools"] == [tool]
    assert provider_named(name).refusal_of(read(), "m") is None


@pytest.mark.parametrize("name", ["openai", "gemini"])
def test_beside_other_tools_it_is_left_out_and_named(name: str) -> None:
    request = read(tools=[{"name": "f"}, SEARCH])
    assert provider_named(name).refusal_of(request, "m") is None
    made, body = built(name, request)
    assert "tools[1]" in made.dropped
    assert len(body["tools"]) == 1


@pytest.mark.parametrize(
    ("name", "model", "effort", "sent", "is_named"),
    [
        ("openai", "gpt-4o", "high", None, True),
        ("openai", "gpt-4.1-mini", "none", None, True),
        ("azure", "gpt-4o", "xhigh", None, True),
        ("openai-compatible", "openai/gpt-4o", "low", None, True),
        ("openai", "gpt-5-chat-latest", "low", None, True),
        ("openai", "o3", "max", "high", False),
        ("openai", "o4-mini", "none", "low", True),
        ("openai", "gpt-5", "none", "minimal", True),
        ("openai", "gpt-5-mini", "xhigh", "high", False),
        ("openai", "gpt-5-pro", "medium", None, True),
        ("openai", "gpt-5.1", "none", "none", False),
        ("openai", "gpt-5.1", "xhigh", "high", False),
        ("openai", "gpt-5.1-codex-max", "max", "xhigh", False),
        ("openai", "gpt-5.4", "xhigh", "xhigh", False),
        ("openai", "gpt-5.4", "max", "xhigh", False),
        ("openai", "gpt-5.4", "new", None, True),
        ("vllm", "qwen", "max", "high", False),
        ("vllm", "qwen", "none", "none", False),
        ("mistral", "mistral-large", "xhigh", "high", False),
        ("mistral", "mistral-large", "low", None, True),
    ],
)
def test_an_effort_is_the_nearest_that_the_model_takes(
    name: str, model: str, effort: str, sent: str | None, is_named: bool
) -> None:
    off = {"thinking": {"type": "disabled"}} if effort == "none" else {"output_config": {"effort": effort}}
    made = provider_named(name).build_request(read(**off), Target(model=model, api_key="k"))
    assert jsonio.decode(made.body).get("reasoning_effort") == sent
    assert ("reasoning.effort" in made.dropped) is is_named
    asked = read_request({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": effort})
    if name == "openai":
        made = provider_named(name).build_request(asked, Target(model=model, api_key="k"))
        assert jsonio.decode(made.body)["reasoning_effort"] == effort, "a caller of chat completions knows the model"


def test_the_limit_has_the_providers_own_name() -> None:
    assert built("openai", read())[1]["max_completion_tokens"] == 2000
    assert built("mistral", read())[1]["max_tokens"] == 2000
    assert built("gemini", read())[1]["generationConfig"]["maxOutputTokens"] == 2000


def test_a_lower_limit_holds_in_the_callers_own_body_too() -> None:
    request = read(thinking={"type": "enabled", "budget_tokens": 1999})
    limited = with_limit(request, 1500)
    made, body = built("anthropic", limited)
    assert (body["max_tokens"], body["thinking"]["budget_tokens"]) == (1500, 1200)
    assert (body["model"], made.path) == ("target", "/messages")
    assert request.native is not None
    assert request.native.body["max_tokens"] == 2000, "another attempt is made of the same request"


def test_a_version_is_always_named() -> None:
    headers = dict(built("anthropic", read())[0].headers)
    assert (headers["anthropic-version"], headers["x-api-key"]) == ("2023-06-01", "k")


GEMINI_ENTRY = {"type": "reasoning.encrypted", "data": "ZA", "format": "google-gemini-v1", "id": "a", "index": 0}


@pytest.mark.parametrize(
    ("wrote", "model", "signature", "dropped"),
    [
        ("gemini-3-pro", "gemini-3-pro", "ZA", False),
        ("google/gemini-3-pro", "gemini-3-pro", "ZA", False),
        (None, "gemini-3-pro", "ZA", False),
        ("gemini-3-flash", "gemini-3-pro", "skip_thought_signature_validator", True),
        ("gemini-3-pro", "gemini-2.5-flash", None, True),
    ],
)
def test_gemini_gets_the_signatures_of_the_same_model_alone(
    wrote: str | None, model: str, signature: str | None, dropped: bool
) -> None:
    call = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    answer = [{"type": "redacted_thinking", "data": carry(wrote, [GEMINI_ENTRY])}, call]
    result = [{"type": "tool_result", "tool_use_id": "a", "content": "done"}]
    request = read(
        system="Be brief.",
        messages=[
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": answer},
            {"role": "user", "content": result},
        ],
    )
    made = provider_named("gemini").build_request(request, Target(model=model, api_key="k"))
    (part,) = jsonio.decode(made.body)["contents"][1]["parts"]
    assert part.get("thoughtSignature") == signature
    assert ("messages[2].reasoning_details[0]" in made.dropped) is dropped
    assert built("openrouter", request)[1]["messages"][2]["reasoning_details"] == [GEMINI_ENTRY], (
        "it is not ours to say"
    )


@pytest.mark.parametrize("wrote", ["claude-opus", "claude-haiku"])
def test_anthropic_gets_the_thinking_of_the_same_model_alone(wrote: str) -> None:
    entry = {"type": "reasoning.text", "text": "hm", "signature": "c2ln", "format": "anthropic-claude-v1", "index": 0}
    said = {"role": "assistant", "content": "Yes.", "reasoning_content": "hm", "reasoning_details": [entry]}
    messages = [{"role": "user", "content": "Hi"}, said, {"role": "user", "content": "So?"}]
    models = {"messages[1].reasoning_details[0]": wrote}
    native = NativeRequest(wire="another-api", body={}, reasoning_models=models)
    request = structs.replace(read_request({"model": "m", "messages": messages}), native=native)
    made = provider_named("anthropic").build_request(request, Target(model="claude-opus", api_key="k"))
    thinking = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    is_own = wrote == "claude-opus"
    assert jsonio.decode(made.body)["messages"][1]["content"] == ([thinking, text("Yes.")] if is_own else "Yes.")
    assert ("messages[1].reasoning_details[0]" in made.dropped) is not is_own
