"""Which models bill no reasoning unless a request asks for it, by name, as the vendors document them.

What such a model costs is seen while its answer is streamed, so its reservation may grow with the answer. A model that
reasons by itself bills tokens that are never shown. A name is listed here only if that is certain for every host of the
model; an unknown name gives False.
"""

import re
from functools import lru_cache

from streamweir.providers.anthropic.model import UNKNOWN, traits_of

_WITHOUT_REASONING = re.compile(
    r"(^|[/.])(gpt-3\.5-|gpt-4(-|o|\.1|\.5|$)|chatgpt-4o)"
    r"|gemini-(1\.|2\.0-(flash|pro)(?!.*-thinking))"
)
_SEARCHES_OR_SPEAKS = re.compile(r"search|audio|realtime|research|image")
"""These bill more than text."""


@lru_cache(maxsize=1024)
def never_hides(model: str) -> bool:
    name = model.lower()
    if _SEARCHES_OR_SPEAKS.search(name):
        return False
    if "claude" in name:
        traits = traits_of(name)
        return traits is not UNKNOWN and not traits.thinks_by_default
    return _WITHOUT_REASONING.search(name) is not None
