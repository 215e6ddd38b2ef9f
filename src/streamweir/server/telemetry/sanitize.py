"""What may be printed: a text without control characters and without anything that is shaped like a key.

Everything that leaves the process for an operator's eyes (log lines, labels of metrics) passes
`clean`, whoever wrote it: callers choose model names, paths and ids. Unlike `core.errors.scrub`,
which is for a provider's words on their way to a caller, it leaves hosts, addresses and ids alone:
an operator needs them. It must not know what a log line or a metric is.
"""

import re
from collections.abc import Callable

LONGEST = 200
_SHORTEST_SECRET = 7
_MOST_HARMLESS = 4096

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
"""Long and without a beginning that tells whose it is: some vendors' keys are just that. So are ids."""

_PLAIN_ID = re.compile(r"(?:req|chatcmpl|msg|resp|gen|cmpl)[-_][A-Za-z0-9]{1,64}")
"""The usual forms, known without a further look."""

_harmless: set[str] = set()
"""Texts that `clean` leaves as they are: the same models, targets and paths come with nearly every request.
Never one that holds a secret."""


def clean(text: str, longest: int = LONGEST) -> str:
    """One line, no longer than `longest`."""
    if text in _harmless and len(text) <= longest:
        return text
    cleaned = _cut(_without(_INVISIBLE, text[: 4 * longest], mask), longest)
    if cleaned == text:
        if len(_harmless) >= _MOST_HARMLESS:
            _harmless.clear()
        _harmless.add(text)
    return cleaned


def clean_id(text: str, longest: int = LONGEST) -> str:
    """An id may be long and opaque, as long as it does not begin like a key."""
    if _PLAIN_ID.fullmatch(text):
        return text
    return _cut(_without(_INVISIBLE, text[: 4 * longest], _mask_keys), longest)


def clean_lines(text: str, longest: int) -> str:
    """Several lines, a traceback say, each of them cut to `LONGEST`."""
    lines = text[: 4 * longest].split("\n")
    return _cut("\n".join(_cut(_without(_INVISIBLE_BUT_TAB, line, mask), LONGEST) for line in lines), longest)


def _without(invisible: re.Pattern[str], text: str, hide: Callable[[str], str]) -> str:
    """Masked before and after: what is not seen may stand inside of a key, or join one to what is before it."""
    hidden = hide(text)
    visible = invisible.sub("", hidden)
    return hide(visible) if visible != hidden else visible


def mask(text: str) -> str:
    return _OPAQUE.sub("***", _mask_keys(text)) if len(text) >= _SHORTEST_SECRET else text


def _mask_keys(text: str) -> str:
    return _KEYS.sub(_masked, text)


def _masked(found: re.Match[str]) -> str:
    if found["scheme"]:
        return "://***@"
    return (found["name"] or found["query"] or "") + "***"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 3] + "..."
