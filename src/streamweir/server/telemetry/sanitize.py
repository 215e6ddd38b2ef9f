"""Sanitizes text for output: no control characters, and nothing that looks like a key.

Everything that operators see (log lines, labels of metrics) goes through `clean`, because callers choose model names,
paths and ids. Unlike `core.errors.scrub`, which is for a provider's text that is sent to a caller, it keeps hosts,
addresses and ids: an operator needs them. It does not depend on the log or the metrics.
"""

import re
from collections.abc import Callable

from streamweir.core.text import cut

MAX_LENGTH = 200
_MIN_SECRET_LENGTH = 7
_MAX_HARMLESS = 4096

_INVISIBLE = re.compile(
    r"""
      (?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]        # a terminal's control sequence, whole, so that no '[31m' is left of it
    | (?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?
    | \x1b.?
    | [\x00-\x1f\x7f-\x9f]
    | [\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]  # no width, or another direction
    | [\ud800-\udfff\U000e0000-\U000e007f]
    """,
    re.VERBOSE | re.DOTALL,
)
_INVISIBLE_BUT_TAB = re.compile(r"(?!\t)(?:" + _INVISIBLE.pattern + ")", _INVISIBLE.flags)

_KEYS = re.compile(
    r"""
      (?P<name>\b(?:authorization|(?:x-)?api[-_ ]?key|access[-_]?token|secret|password|(?:set-)?cookie)["']?\s*[:=]\s*)
      (?:["']?(?:bearer|basic)\s+)?\S+
    | (?P<scheme>://)[^\s/@]+@                               # a password in an address
    | (?P<query>[?&](?:key|token|sig|signature|code)=)[^\s&"']+
    | \bbearer\s+\S+
    | \bbasic\s+(?=\S{0,200}[\d=])[\w+/=]{8,}
    | \b(?:sk|sw-(?:admin|session|csrf))[-_][\w*.-]{4,}      # our own (policy.secret), and of many others
    | \b(?:pk|rk|gsk|xai|hf|nvapi|pplx|csk|fw)[-_](?=[\w*.-]{0,200}\d)[\w*.-]{8,}
    | \b(?:AIza|eyJ|ya29\.|gh[pousr]_)[\w*.-]{8,}
    | \b(?:AKIA|ASIA)[A-Z\d]{12,}
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_OPAQUE = re.compile(r"\b(?=\w{0,200}\d)(?=\w{0,200}[a-z])\w{32,}", re.IGNORECASE | re.ASCII)
"""Long, without a known prefix: the keys of some vendors look like that. So do ids."""

_PLAIN_ID = re.compile(r"(?:req|chatcmpl|msg|resp|gen|cmpl)[-_][A-Za-z0-9]{1,64}")
"""The common formats of ids, which need no further check."""

_harmless: set[str] = set()
"""Texts that `clean` does not change: nearly every request has the same models, targets and paths. Never one with a
secret."""


def clean(text: str, max_length: int = MAX_LENGTH) -> str:
    """One line, at most `max_length` characters."""
    if text in _harmless and len(text) <= max_length:
        return text
    cleaned = cut(_without(_INVISIBLE, text[: 4 * max_length], mask), max_length)
    if cleaned == text:
        if len(_harmless) >= _MAX_HARMLESS:
            _harmless.clear()
        _harmless.add(text)
    return cleaned


def clean_id(text: str, max_length: int = MAX_LENGTH) -> str:
    """An id may be long and opaque, unless it begins like a key."""
    if _PLAIN_ID.fullmatch(text):
        return text
    return cut(_without(_INVISIBLE, text[: 4 * max_length], _mask_keys), max_length)


def clean_lines(text: str, max_length: int) -> str:
    """Several lines, such as a traceback, each of them cut to `MAX_LENGTH`."""
    lines = text[: 4 * max_length].split("\n")
    return cut("\n".join(cut(_without(_INVISIBLE_BUT_TAB, line, mask), MAX_LENGTH) for line in lines), max_length)


def _without(invisible: re.Pattern[str], text: str, hide: Callable[[str], str]) -> str:
    """Masks before and after removing invisible characters: they may be inside of a key, or before it."""
    hidden = hide(text)
    visible = invisible.sub("", hidden)
    return hide(visible) if visible != hidden else visible


def mask(text: str) -> str:
    return _OPAQUE.sub("***", _mask_keys(text)) if len(text) >= _MIN_SECRET_LENGTH else text


def _mask_keys(text: str) -> str:
    return _KEYS.sub(_masked, text)


def _masked(found: re.Match[str]) -> str:
    if found["scheme"]:
        return "://***@"
    return (found["name"] or found["query"] or "") + "***"
