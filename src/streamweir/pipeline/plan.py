"""How the bytes of one answer go, chosen once per request, by allow-list.

- PASS: provider and frontend have the same native wire, so the upstream's frames are what the caller was
  promised: they go out as they came, and the tap reads them.
- FILTER: PASS, less the usage that the caller did not ask for.
- TRANSLATE: decode, encode. Always right; the other two are cheaper.

The choice only says what may be tried: the first frame that deviates from the promise switches
the stream to TRANSLATE (`pipeline.exchange`).
"""

from enum import StrEnum

from streamweir.frontends.base import Frontend, Reply
from streamweir.wire.native import NativeWire


class Mode(StrEnum):
    PASS = "pass"  # noqa: S105 (not a password)
    FILTER = "filter"
    TRANSLATE = "translate"


def plan(wire: NativeWire | None, frontend: Frontend, reply: Reply) -> Mode:
    """`wire`: the one that this upstream is known to write to the byte."""
    if wire is None or wire is not frontend.native_wire or reply.pinned or reply.created is not None:
        return Mode.TRANSLATE
    return Mode.PASS if reply.include_usage or frontend.always_includes_usage else Mode.FILTER
