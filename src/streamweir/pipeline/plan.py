"""The mode of one answer, chosen once per request, by allow-list.

- PASS: provider and frontend have the same native wire format, so the upstream's frames are sent unchanged, and the
  tap reads them.
- FILTER: PASS, without usage that the caller did not request.
- TRANSLATE: decode and encode. Always correct; the other two are cheaper.

PASS and FILTER end with the first frame that deviates from the format: from there on the stream is translated
(`pipeline.exchange`).
"""

from enum import StrEnum

from streamweir.frontends.base import Frontend, Reply
from streamweir.wire.native import NativeWire


class Mode(StrEnum):
    PASS = "pass"  # noqa: S105 (not a password)
    FILTER = "filter"
    TRANSLATE = "translate"


def plan(wire: NativeWire | None, frontend: Frontend, reply: Reply) -> Mode:
    """`wire`: the format that this upstream writes exactly."""
    if wire is None or wire is not frontend.native_wire or reply.pinned or reply.created is not None:
        return Mode.TRANSLATE
    return Mode.PASS if reply.include_usage or frontend.always_includes_usage else Mode.FILTER
