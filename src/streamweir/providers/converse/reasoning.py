"""The reasoning of a request, for models that are not Anthropic's: the effort, under the vendor's name for it.

None of them takes a budget in tokens. An effort that the model does not have becomes the nearest one; a request for no
reasoning is named as dropped where the model cannot do without.
"""

from typing import Any

from streamweir.core.request import ChatRequest, Reasoning
from streamweir.providers.converse.model import Effort, Traits

_REQUEST_MEMBERS = ("effort", "max_tokens", "enabled")
"""The members of `reasoning` that request it: `exclude` and `summary` alone do not."""
_ABOVE_HIGH = ("xhigh", "max")


def plan_reasoning(request: ChatRequest, traits: Traits, dropped: list[str]) -> dict[str, Any]:
    """Members of `additionalModelRequestFields`."""
    reasoning = request.reasoning or Reasoning()
    given = [name for name in _REQUEST_MEMBERS if getattr(reasoning, name) is not None]
    if not given:
        return {}
    paths = [request.reasoning_path(name) for name in given]
    if traits.effort is Effort.NONE:
        dropped += paths
        return {}
    if reasoning.effort == "none" or reasoning.enabled is False or reasoning.max_tokens == 0:
        return _turned_off(traits, paths, dropped)
    if reasoning.max_tokens is not None:
        dropped.append("reasoning.max_tokens")
    effort = _nearest(reasoning.effort or "medium", traits)
    if traits.effort is Effort.NOVA and effort == "high" and request.max_output_tokens is not None:
        effort = "medium"  # with the highest effort, a limit of the answer is refused
    return _written(effort, traits)


def refuses_sampling(fields: dict[str, Any]) -> bool:
    """Whether temperature and the like are refused beside these members."""
    config = fields.get(Effort.NOVA)
    return config is not None and config.get("maxReasoningEffort") == "high"


def _turned_off(traits: Traits, paths: list[str], dropped: list[str]) -> dict[str, Any]:
    if traits.effort is Effort.NOVA:  # it reasons only if it is asked to
        return {}
    if "none" in traits.efforts:
        return _written("none", traits)
    dropped += paths
    return _written("low", traits) if traits.effort is Effort.FLAT else {}


def _nearest(effort: str, traits: Traits) -> str:
    if effort in traits.efforts:
        return effort
    if effort == "minimal":
        return "low"
    return traits.efforts[-1] if effort in _ABOVE_HIGH else "high"


def _written(effort: str, traits: Traits) -> dict[str, Any]:
    match traits.effort:
        case Effort.NOVA:
            return {Effort.NOVA: {"type": "enabled", "maxReasoningEffort": effort}}
        case Effort.NESTED:
            return {Effort.NESTED: {"effort": effort}}
        case _:
            return {traits.effort: effort}
