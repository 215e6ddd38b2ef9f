"""The thinking of a request, its `max_tokens`, and its sampling parameters.

The three depend on each other: a thinking budget is part of `max_tokens`, and a model that thinks accepts no
temperature. What a model does not support is left out and named in `dropped`.

Clamping is not dropping: a temperature above 1, a budget below 1024 or too large for `max_tokens`, and an effort that
the model does not support become the nearest supported value.
"""

from typing import Any

from msgspec import Struct

from streamweir.core.request import ChatRequest, Reasoning
from streamweir.providers.anthropic.model import Thinking, Traits

DEFAULT_MAX_TOKENS = 32_000
"""Anthropic requires a number. Not the model's maximum: older models count it against the context window."""
DEFAULT_MAX_TOKENS_FOR_MUCH_EFFORT = 64_000
MIN_BUDGET = 1024
_MIN_TOP_P_WHILE_THINKING = 0.95

_REQUEST_MEMBERS = ("effort", "max_tokens", "enabled")
"""The members of `reasoning` that request thinking: `exclude` and `summary` alone do not."""
_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384, "xhigh": 32_000, "max": 32_000}
_NEAREST_EFFORT = {"minimal": "low", "xhigh": "high", "max": "high"}


class ThinkingPlan(Struct, frozen=True, kw_only=True):
    max_tokens: int
    thinking: dict[str, Any] | None = None
    effort: str | None = None

    @property
    def thinks(self) -> bool:
        return self.thinking is not None and self.thinking.get("type") in ("enabled", "adaptive")


def plan_thinking(request: ChatRequest, traits: Traits, may_use_budget: bool, dropped: list[str]) -> ThinkingPlan:
    """`may_use_budget`: False if the rest of the request cannot be combined with a budget."""
    requested = request.max_output_tokens
    native = request.body.get("thinking")
    reasoning = request.reasoning
    if isinstance(native, dict):  # Anthropic's own member, as the caller wrote it
        if reasoning is not None and not _requests_nothing(reasoning):
            dropped += _requested_paths(request)
        budget = native.get("budget_tokens")
        return ThinkingPlan(max_tokens=_max_tokens(requested, traits, budget=budget), thinking=native)
    plain = ThinkingPlan(max_tokens=_max_tokens(requested, traits))
    if reasoning is None or _requests_nothing(reasoning):
        return plain
    if reasoning.effort == "none" or reasoning.enabled is False or reasoning.max_tokens == 0:
        return _turned_off(request, traits, plain, dropped)
    if traits.thinking is Thinking.NONE:
        dropped += _requested_paths(request)
        return plain
    wants_budget = traits.thinking is Thinking.EITHER and reasoning.max_tokens is not None and may_use_budget
    if traits.thinking is not Thinking.BUDGET and not wants_budget:
        if reasoning.max_tokens is not None:
            dropped.append("reasoning.max_tokens")
        effort = _effort_of(reasoning.effort, traits)
        return ThinkingPlan(
            max_tokens=_max_tokens(requested, traits, effort=effort),
            # Newer models leave out the text of the thinking unless it is requested.
            thinking={"type": "adaptive", "display": "omitted" if reasoning.exclude else "summarized"},
            effort=effort,
        )
    budget = _budget_of(reasoning, requested, traits) if may_use_budget else None
    if budget is None:
        dropped += _requested_paths(request)
        return plain
    return ThinkingPlan(
        max_tokens=_max_tokens(requested, traits, budget=budget),
        thinking={"type": "enabled", "budget_tokens": budget},
        effort=_effort_of(reasoning.effort, traits),
    )


def plan_sampling(request: ChatRequest, traits: Traits, plan: ThinkingPlan, dropped: list[str]) -> dict[str, Any]:
    """temperature, top_p and top_k. One that has its default value is not sent."""
    sampling: dict[str, Any] = {}
    if request.temperature is not None and request.temperature < 1:
        sampling["temperature"] = request.temperature
    if request.top_p is not None and request.top_p < 1:
        sampling["top_p"] = request.top_p
    if request.top_k:
        sampling["top_k"] = request.top_k
    refused: list[str] = []
    if not traits.takes_sampling:
        refused = list(sampling)
    elif plan.thinks:
        refused = [name for name in sampling if name != "top_p" or sampling[name] < _MIN_TOP_P_WHILE_THINKING]
    elif not traits.takes_both_samplings and "temperature" in sampling and "top_p" in sampling:
        refused = ["top_p"]
    dropped += refused
    return {name: value for name, value in sampling.items() if name not in refused}


def _turned_off(request: ChatRequest, traits: Traits, plain: ThinkingPlan, dropped: list[str]) -> ThinkingPlan:
    if not traits.thinks_by_default:
        return plain
    if traits.off is None:
        # The lowest effort of this model. It thinks nevertheless, so the request for none is reported as dropped.
        dropped += _requested_paths(request)
        return ThinkingPlan(max_tokens=plain.max_tokens, effort="low")
    return ThinkingPlan(max_tokens=plain.max_tokens, thinking={"type": traits.off})


def _requests_nothing(reasoning: Reasoning) -> bool:
    return all(getattr(reasoning, name) is None for name in _REQUEST_MEMBERS)


def _effort_of(effort: str | None, traits: Traits) -> str | None:
    if effort is None or effort in traits.efforts:
        return effort
    nearest = _NEAREST_EFFORT.get(effort, "high")
    return nearest if nearest in traits.efforts else None


def _budget_of(reasoning: Reasoning, requested: int | None, traits: Traits) -> int | None:
    """A budget within max_tokens that leaves tokens for an answer, or None if there is none."""
    budget = reasoning.max_tokens or _BUDGETS.get(reasoning.effort or "medium", _BUDGETS["high"])
    available = traits.max_output_tokens if requested is None else requested
    if available <= MIN_BUDGET:
        return None
    return max(MIN_BUDGET, min(budget, available * 4 // 5))


def _max_tokens(requested: int | None, traits: Traits, *, budget: object = None, effort: str | None = None) -> int:
    if requested is not None:
        return requested
    wanted = DEFAULT_MAX_TOKENS_FOR_MUCH_EFFORT if effort in ("xhigh", "max") else DEFAULT_MAX_TOKENS
    if isinstance(budget, int):
        wanted += budget
    return min(wanted, traits.max_output_tokens)


def _requested_paths(request: ChatRequest) -> list[str]:
    """The members in which the caller requested thinking, or none."""
    requested = request.reasoning or Reasoning()
    return [request.reasoning_path(name) for name in _REQUEST_MEMBERS if getattr(requested, name) is not None]
