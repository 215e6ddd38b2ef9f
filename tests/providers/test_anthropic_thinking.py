"""How models of each generation are asked to think, and what their sampling allows."""

import json
from typing import Any

import pytest

from streamweir.core.request import read_request
from streamweir.providers.anthropic import PROVIDER
from streamweir.providers.anthropic.model import Thinking, traits_of
from streamweir.providers.base import Target

USER = {"role": "user", "content": "Hi"}
BUDGETED = "claude-sonnet-4-5"
EITHER = "claude-opus-4-6"
ADAPTIVE = "claude-opus-4-8"
UNASKED = "claude-opus-5"
NEVER_OFF = "claude-opus-5-5"
TOOL = {"type": "function", "function": {"name": "f"}}
CALL = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SIGNED = [{"type": "reasoning.text", "text": "Hm.", "signature": "c2ln"}]


def plan(body: dict[str, Any], model: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    request = read_request({"model": "any", "messages": [USER], **body})
    built = PROVIDER.build_request(request, Target(model=model))
    members: dict[str, Any] = json.loads(built.body)
    names = ("max_tokens", "thinking", "output_config", "temperature", "top_p", "top_k")
    return {name: members[name] for name in names if name in members}, built.dropped


def budget(tokens: int) -> dict[str, Any]:
    return {"type": "enabled", "budget_tokens": tokens}


SUMMARIZED = {"type": "adaptive", "display": "summarized"}

PLANS: list[tuple[str, dict[str, Any], dict[str, Any], tuple[str, ...]]] = [
    (BUDGETED, {}, {"max_tokens": 32_000}, ()),
    (BUDGETED, {"reasoning": {"exclude": True}}, {"max_tokens": 32_000}, ()),
    (BUDGETED, {"reasoning_effort": "minimal"}, {"max_tokens": 33_024, "thinking": budget(1024)}, ()),
    (BUDGETED, {"reasoning_effort": "high"}, {"max_tokens": 48_384, "thinking": budget(16_384)}, ()),
    (BUDGETED, {"reasoning_effort": "ultra"}, {"max_tokens": 48_384, "thinking": budget(16_384)}, ()),
    (BUDGETED, {"reasoning": {"enabled": True}}, {"max_tokens": 40_192, "thinking": budget(8192)}, ()),
    (BUDGETED, {"reasoning": {"max_tokens": 100}}, {"max_tokens": 33_024, "thinking": budget(1024)}, ()),
    (BUDGETED, {"reasoning": {"max_tokens": 90_000}}, {"max_tokens": 64_000, "thinking": budget(51_200)}, ()),
    (BUDGETED, {"reasoning_effort": "high", "max_tokens": 5000}, {"max_tokens": 5000, "thinking": budget(4000)}, ()),
    (BUDGETED, {"reasoning_effort": "high", "max_tokens": 1100}, {"max_tokens": 1100, "thinking": budget(1024)}, ()),
    (BUDGETED, {"reasoning_effort": "high", "max_tokens": 1024}, {"max_tokens": 1024}, ("reasoning_effort",)),
    (BUDGETED, {"reasoning_effort": "none"}, {"max_tokens": 32_000}, ()),
    ("claude-3-5-haiku-latest", {"reasoning_effort": "low"}, {"max_tokens": 8192}, ("reasoning_effort",)),
    ("claude-3-5-haiku-latest", {"reasoning": {"effort": "low"}}, {"max_tokens": 8192}, ("reasoning.effort",)),
    (
        "claude-3-5-haiku-latest",
        {"reasoning": {"max_tokens": 9, "exclude": True}, "reasoning_effort": "low"},
        {"max_tokens": 8192},
        ("reasoning_effort", "reasoning.max_tokens"),
    ),
    (
        EITHER,
        {"reasoning_effort": "high"},
        {"max_tokens": 32_000, "thinking": SUMMARIZED, "output_config": {"effort": "high"}},
        (),
    ),
    (
        EITHER,
        {"reasoning_effort": "xhigh"},
        {"max_tokens": 32_000, "thinking": SUMMARIZED, "output_config": {"effort": "high"}},
        (),
    ),
    (
        EITHER,
        {"reasoning": {"max_tokens": 4000, "effort": "low"}},
        {"max_tokens": 36_000, "thinking": budget(4000), "output_config": {"effort": "low"}},
        (),
    ),
    (
        EITHER,
        {"reasoning": {"max_tokens": 4000}, "tools": [TOOL], "tool_choice": "required"},
        {"max_tokens": 32_000, "thinking": SUMMARIZED},
        ("reasoning.max_tokens",),
    ),
    (
        ADAPTIVE,
        {"reasoning_effort": "minimal"},
        {"max_tokens": 32_000, "thinking": SUMMARIZED, "output_config": {"effort": "low"}},
        (),
    ),
    (
        ADAPTIVE,
        {"reasoning": {"effort": "max", "exclude": True}},
        {
            "max_tokens": 64_000,
            "thinking": {"type": "adaptive", "display": "omitted"},
            "output_config": {"effort": "max"},
        },
        (),
    ),
    (
        ADAPTIVE,
        {"reasoning": {"max_tokens": 4000}},
        {"max_tokens": 32_000, "thinking": SUMMARIZED},
        ("reasoning.max_tokens",),
    ),
    (ADAPTIVE, {"reasoning": {"enabled": False}}, {"max_tokens": 32_000}, ()),
    (UNASKED, {"reasoning_effort": "none"}, {"max_tokens": 32_000, "thinking": {"type": "disabled"}}, ()),
    (UNASKED, {"reasoning": {"max_tokens": 0}}, {"max_tokens": 32_000, "thinking": {"type": "disabled"}}, ()),
    (
        "claude-sonnet-5-5",
        {"reasoning_effort": "none"},
        {"max_tokens": 32_000, "thinking": {"type": "between_tools"}},
        (),
    ),
    (
        NEVER_OFF,
        {"reasoning_effort": "none"},
        {"max_tokens": 32_000, "output_config": {"effort": "low"}},
        ("reasoning_effort",),
    ),
    # Anthropic's own members, as the caller wrote them.
    (
        BUDGETED,
        {"thinking": budget(2000), "reasoning_effort": "high"},
        {"max_tokens": 34_000, "thinking": budget(2000)},
        ("reasoning_effort",),
    ),
    (
        BUDGETED,
        {"thinking": budget(2000), "reasoning": {"exclude": True}},
        {"max_tokens": 34_000, "thinking": budget(2000)},
        (),
    ),
    (
        ADAPTIVE,
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        {"max_tokens": 32_000, "thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
        (),
    ),
    (
        ADAPTIVE,
        {"output_config": {"effort": "low"}, "reasoning_effort": "high"},
        {"max_tokens": 32_000, "thinking": SUMMARIZED, "output_config": {"effort": "low"}},
        (),
    ),
    # A budget does not go together with a forced call.
    (
        BUDGETED,
        {"reasoning_effort": "low", "tools": [TOOL], "tool_choice": "required"},
        {"max_tokens": 32_000},
        ("reasoning_effort",),
    ),
    # Sampling.
    (BUDGETED, {"temperature": 0.2, "top_k": 5}, {"max_tokens": 32_000, "temperature": 0.2, "top_k": 5}, ()),
    (
        "claude-sonnet-4-20250514",
        {"temperature": 0.2, "top_p": 0.5},
        {"max_tokens": 32_000, "temperature": 0.2, "top_p": 0.5},
        (),
    ),
    (
        BUDGETED,
        {"reasoning_effort": "low", "temperature": 0.2, "top_p": 0.97, "top_k": 5},
        {"max_tokens": 34_048, "thinking": budget(2048), "top_p": 0.97},
        ("temperature", "top_k"),
    ),
    (
        EITHER,
        {"reasoning_effort": "low", "temperature": 1, "top_p": 0.5},
        {"max_tokens": 32_000, "thinking": SUMMARIZED, "output_config": {"effort": "low"}},
        ("top_p",),
    ),
    (
        ADAPTIVE,
        {"temperature": 0, "top_p": 0.99, "top_k": 1},
        {"max_tokens": 32_000},
        ("temperature", "top_p", "top_k"),
    ),
    (ADAPTIVE, {"temperature": 2, "top_p": 1}, {"max_tokens": 32_000}, ()),
]


@pytest.mark.parametrize(("model", "body", "expected", "dropped"), PLANS)
def test_plan(model: str, body: dict[str, Any], expected: dict[str, Any], dropped: tuple[str, ...]) -> None:
    assert plan(body, model) == (expected, dropped)


def test_a_turn_that_goes_on_without_its_thinking_cannot_think_with_a_budget() -> None:
    asked = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "t1", "content": "1"}
    thought = {**asked, "reasoning_details": SIGNED}
    for messages, may_think in (
        ([USER, asked, result], False),
        ([USER, thought, result], True),
        ([USER, thought, result, asked, result], True),
        ([USER, thought, result, USER], True),
        ([USER, asked, result, {"role": "assistant", "content": "Done."}, USER], True),
        ([USER, thought, result, {"role": "assistant", "content": "Done."}, USER, asked, result], False),
        ([asked, result], False),
    ):
        members, dropped = plan({"messages": messages, "reasoning_effort": "low"}, BUDGETED)
        assert ("thinking" in members, dropped) == ((True, ()) if may_think else (False, ("reasoning_effort",)))


NAMES: list[tuple[str, Thinking, int]] = [
    ("claude-3-haiku-20240307", Thinking.NONE, 4096),
    ("anthropic.claude-3-5-sonnet-20241022-v2:0", Thinking.NONE, 8192),
    ("claude-3-7-sonnet-latest", Thinking.BUDGET, 64_000),
    ("claude-opus-4-20250514", Thinking.BUDGET, 32_000),
    ("claude-sonnet-4@20250514", Thinking.BUDGET, 64_000),
    ("claude-haiku-4-5-20251001", Thinking.BUDGET, 64_000),
    ("anthropic/claude-opus-4.6", Thinking.EITHER, 128_000),
    ("claude-opus-4-8[1m]", Thinking.ADAPTIVE, 128_000),
    ("claude-mythos-preview", Thinking.ADAPTIVE, 128_000),
    ("claude-opus-7-1", Thinking.ADAPTIVE, 128_000),
    ("claude-sonnet-latest", Thinking.BUDGET, 8192),
    ("claude-haiku-0", Thinking.BUDGET, 8192),
    ("claude-epic-9", Thinking.BUDGET, 8192),
    ("glm-5", Thinking.BUDGET, 8192),
]


@pytest.mark.parametrize(("name", "thinking", "max_output_tokens"), NAMES)
def test_names_of_models(name: str, thinking: Thinking, max_output_tokens: int) -> None:
    traits = traits_of(name)
    assert (traits.thinking, traits.max_output_tokens) == (thinking, max_output_tokens)
