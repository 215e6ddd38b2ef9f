"""A request with another limit than its caller's, as each kind of provider is asked."""

from typing import Any

import pytest

from streamweir.core.request import read_request
from streamweir.pipeline.output_limit import thinking_budget, with_limit
from streamweir.providers.base import Target
from streamweir.providers.registry import provider_named
from streamweir.wire import jsonio


def sent(kind: str, limit: int, *, model: str = "some-model", **members: Any) -> dict[str, Any]:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **members}
    before = jsonio.encode(body)
    request = provider_named(kind).build_request(
        with_limit(read_request(body), limit), Target(model=model, api_key="k")
    )
    assert jsonio.encode(body) == before, "the caller's own body is not touched"
    found: dict[str, Any] = jsonio.decode(request.body)
    return found


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("openai", "max_completion_tokens"),
        ("azure", "max_completion_tokens"),
        ("xai", "max_completion_tokens"),
        ("mistral", "max_tokens"),
        ("openai-compatible", "max_tokens"),
        ("anthropic", "max_tokens"),
    ],
)
@pytest.mark.parametrize("asked", [{}, {"max_tokens": 5000}, {"max_completion_tokens": 5000, "max_tokens": 7000}])
def test_a_limit_goes_out_under_the_providers_own_name(kind: str, name: str, asked: dict[str, Any]) -> None:
    body = sent(kind, 100, **asked)
    limits = {each: body[each] for each in ("max_tokens", "max_completion_tokens") if each in body}
    assert set(limits.values()) == {100}
    assert len(limits) == 1
    assert asked or name in limits


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("o3-mini", "max_completion_tokens"),
        ("openai/gpt-5-mini", "max_completion_tokens"),
        ("gpt-4o", "max_tokens"),
        ("llama-3", "max_tokens"),
    ],
)
@pytest.mark.parametrize("kind", ["openai-compatible", "litellm-proxy"])
def test_a_limit_that_is_added_has_the_name_that_the_model_takes(kind: str, model: str, name: str) -> None:
    request = with_limit(read_request({"model": "m", "messages": [{"role": "user", "content": "hi"}]}), 100)
    body = jsonio.decode(provider_named(kind).build_request(request, Target(model=model, api_key="k")).body)
    assert {each: body[each] for each in body if each.startswith("max_")} == {name: 100}


def test_gemini_has_a_name_of_its_own() -> None:
    assert sent("gemini", 100)["generationConfig"]["maxOutputTokens"] == 100


def test_other_names_of_the_limit_do_not_raise_it() -> None:
    body = sent("llamacpp", 100, n_predict=9000, max_new_tokens=9000)
    assert (body["max_tokens"], "n_predict" in body, "max_new_tokens" in body) == (100, False, False)


@pytest.mark.parametrize(("limit", "budget"), [(5000, 4000), (1200, 1024), (1024, None), (64, None)])
def test_a_thinking_budget_stays_within_the_limit(limit: int, budget: int | None) -> None:
    body = sent("anthropic", limit, max_tokens=20_000, thinking={"type": "enabled", "budget_tokens": 10_000})
    assert body["max_tokens"] == limit
    assert body.get("thinking", {}).get("budget_tokens") == budget


@pytest.mark.parametrize(("limit", "budget"), [(5000, 4000), (1200, 1024), (1024, None)])
def test_a_reasoning_budget_in_the_providers_own_member_stays_within_it_too(limit: int, budget: int | None) -> None:
    body = sent("openrouter", limit, reasoning={"max_tokens": 10_000, "exclude": True})
    assert body["max_tokens"] == limit
    assert body.get("reasoning", {}).get("max_tokens") == budget


@pytest.mark.parametrize(("limit", "budget"), [(5000, 4000), (1200, 1024), (20_000, 10_000)])
def test_a_reasoning_budget_in_another_format_stays_within_the_limit_too(limit: int, budget: int) -> None:
    body = sent("gemini", limit, model="gemini-2.5-pro", reasoning={"max_tokens": 10_000})
    assert body["generationConfig"]["thinkingConfig"]["thinkingBudget"] == budget


def test_the_members_keep_their_order() -> None:
    members: dict[str, Any] = {
        "seed": 1,
        "max_tokens": 9000,
        "thinking": {"budget_tokens": 8000, "type": "enabled"},
        "top_p": 0.5,
    }
    body = sent("openai-compatible", 2000, **members)
    assert list(body) == ["model", "messages", *members]
    assert list(body["thinking"].items()) == [("budget_tokens", 1600), ("type", "enabled")]


@pytest.mark.parametrize(
    ("members", "tokens"),
    [
        ({}, 0),
        ({"thinking": {"type": "enabled", "budget_tokens": 3000}}, 3000),
        ({"reasoning": {"max_tokens": 2000}}, 2000),
        ({"reasoning": {"effort": "high"}, "thinking": {"type": "adaptive"}}, 0),
        ({"thinking": {"budget_tokens": "many"}}, 0),
    ],
)
def test_a_thinking_budget_is_known_by_each_of_its_names(members: dict[str, Any], tokens: int) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **members}
    assert thinking_budget(read_request(body)) == tokens
