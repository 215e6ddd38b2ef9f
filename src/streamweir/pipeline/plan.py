"""How the bytes of one answer go, chosen once per request, by allow-list.

- PASS: the upstream's frames are what the caller was promised: they go out as they came, and
  the tap reads them.
- FILTER: PASS, less the usage that the caller did not ask for.
- TRANSLATE: decode, encode. Always right; the other two are cheaper.

The choice only says what may be tried: the first frame that deviates from the promise switches
the stream to TRANSLATE (`pipeline.exchange`).
"""

from enum import StrEnum

from streamweir.frontends.chat.dialect import Dialect, Reply


class Mode(StrEnum):
    PASS = "pass"  # noqa: S105 (not a password)
    FILTER = "filter"
    TRANSLATE = "translate"


def plan(canonical_for: frozenset[str], dialect: Dialect, reply: Reply) -> Mode:
    """`canonical_for`: the dialects whose frames this upstream is known to write itself."""
    if dialect.name not in canonical_for or reply.pinned or reply.created is not None:
        return Mode.TRANSLATE
    return Mode.PASS if reply.include_usage else Mode.FILTER
