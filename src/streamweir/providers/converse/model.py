"""What the models behind Converse support, found by the model's name.

Converse has one format for all vendors, but refuses a member that the model does not support. What is a vendor's own
(reasoning, `top_k`) is sent in `additionalModelRequestFields`, under the vendor's names. A name that does not say whose
model it is (the ARN of an application inference profile) gets what all have in common, and the service decides.

Sources: the user guides of Amazon Bedrock and Amazon Nova (supported models and features, prompt caching, structured
outputs), and recorded requests.
"""

import re
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct

from streamweir.providers.anthropic.model import Traits as ClaudeTraits
from streamweir.providers.anthropic.model import traits_of as claude_traits_of
from streamweir.wire.messages import REASONING_FORMAT as CLAUDE_FORMAT

CONVERSE_FORMAT = "bedrock-converse-v1"
"""The `format` of `reasoning_details` whose data is what Converse sent, of any vendor but Anthropic."""


class Effort(StrEnum):
    """Under which name a model takes the effort of its reasoning."""

    NONE = "none"
    NOVA = "reasoningConfig"
    FLAT = "reasoning_effort"
    NESTED = "reasoning"
    CONFIG = "reasoning_config"


class Forced(StrEnum):
    """Which calls can be forced."""

    NONE = "none"
    ANY = "any"
    NAMED = "named"
    """Also one of several tools."""


class Traits(Struct, frozen=True, kw_only=True):
    claude: ClaudeTraits | None = None
    """Of Anthropic's models alone."""
    effort: Effort = Effort.NONE
    efforts: tuple[str, ...] = ("low", "medium", "high")
    reasoning_formats: tuple[str, ...] = (CONVERSE_FORMAT,)
    """The formats of `reasoning_details` that can be sent back."""
    takes_sampling: bool = True
    has_top_k: bool = False
    """Under Nova's name for it; Anthropic's models have their own rules."""
    takes_schema: bool = True
    """`outputConfig.textFormat`, and `strict` tools."""
    forced: Forced = Forced.ANY
    takes_cache_points: bool = False
    caches_tools: bool = False
    takes_long_cache: bool = False
    """Cache points of one hour."""
    takes_audio: bool = False
    has_short_ids: bool = False
    """The ids of calls are nine letters and digits."""


UNKNOWN = Traits(
    reasoning_formats=(CONVERSE_FORMAT, CLAUDE_FORMAT),
    takes_cache_points=True,
    caches_tools=True,
    takes_long_cache=True,
    takes_audio=True,
)
_PLAIN = Traits(takes_schema=False, forced=Forced.NONE)
_NOVA = Traits(has_top_k=True, takes_schema=False, forced=Forced.NAMED, takes_cache_points=True)

_ROWS: tuple[tuple[re.Pattern[str], Traits], ...] = tuple(
    (re.compile(pattern), traits)
    for pattern, traits in (
        (
            r"nova-2",
            Traits(
                effort=Effort.NOVA,
                has_top_k=True,
                takes_schema=False,
                forced=Forced.NAMED,
                takes_cache_points=True,
                takes_audio=True,
            ),
        ),
        (r"(^|[./])amazon\.nova|(^|/)nova-", _NOVA),
        (r"gpt-oss", Traits(effort=Effort.FLAT)),
        (
            r"(^|[./])openai\.",
            Traits(
                effort=Effort.NESTED,
                efforts=("none", "low", "medium", "high", "xhigh", "max"),
                takes_sampling=False,
            ),
        ),
        (r"(^|[./])(moonshot|moonshotai)\.", Traits(effort=Effort.FLAT)),
        (r"(^|[./])qwen\.", Traits(effort=Effort.CONFIG)),
        (r"(^|[./])mistral\.", Traits(has_short_ids=True, takes_audio=True)),
        (r"(^|[./])(deepseek|google|nvidia|minimax|zai)\.", Traits()),
        (r"(^|[./])(meta|cohere|ai21|writer)\.|amazon\.titan", _PLAIN),
        (r"[a-z0-9]\.[a-z][^/]*$", Traits()),  # another vendor: it has no cache points
    )
)


@lru_cache(maxsize=1024)
def traits_of(model: str) -> Traits:
    """`model`: the id of a model or of an inference profile, or an ARN."""
    name = model.lower()
    if "claude" in name:
        return _claude(claude_traits_of(name))
    return next((traits for pattern, traits in _ROWS if pattern.search(name)), UNKNOWN)


def _claude(traits: ClaudeTraits) -> Traits:
    return Traits(
        claude=traits,
        reasoning_formats=(CLAUDE_FORMAT,),
        takes_schema=traits.takes_schema,
        forced=Forced.NAMED if traits.takes_forced_tool else Forced.NONE,
        takes_cache_points=True,
        caches_tools=True,
        takes_long_cache=traits.takes_schema,  # both came with version 4.5
    )
