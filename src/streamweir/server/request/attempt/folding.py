"""Whether a whole answer is asked for as a stream, whose events are folded (docs/decisions/0033).

Only from a stream is it known when an answer begins, and whether it goes on. That is needed where another candidate
could answer instead, and where the operator has set `first_event_s` for the provider or the target; `stream_whole`
decides otherwise. The answer must have the content that it would have had as a whole. Where that is not certain, it is
not folded, and only `total_s` bounds it: a body that is passed on as it came, other APIs than chat, sound and images,
and, unless the operator says so, providers whose streams may lack something.
"""

from functools import cache

from streamweir.core.request import ChatRequest
from streamweir.policy.routing.health import TargetId
from streamweir.providers.base import Wire
from streamweir.providers.compatible import VENDORS
from streamweir.providers.registry import FAMILIES
from streamweir.server.request.runtime.config import RuntimeConfig

_STREAMS_LESS = frozenset({"azure"})
"""Azure: the results of its content filters are those of the pieces, not of the answer."""


def is_folded(runtime: RuntimeConfig, chat: ChatRequest, target: TargetId, *, is_last: bool) -> bool:
    """Of a request that is not streamed. `is_last`: no other candidate can be tried after this one."""
    if chat.api != "chat":
        return False
    provider = runtime.provider_for(target).config
    chosen = provider.stream_whole
    if chosen is False or (chosen is None and is_last and provider.timeouts.first_event_s is None):
        return False
    wire = runtime.wires.wire_of(target)
    native = runtime.chat_wire(target, wire).native_wire
    is_passed = chat.native is not None and chat.native.wire == native
    if is_passed or chat.audio is not None or not {"text"}.issuperset(chat.modalities) or target in runtime.unstreamed:
        return False
    if chosen or wire is Wire.RESPONSES:
        return True
    if provider.kind in FAMILIES:
        return provider.kind not in _STREAMS_LESS
    # Usage must be in the stream, and a member that only this vendor has may change what a stream contains.
    return _reports_usage(provider.kind) and target not in runtime.refusals and not chat.unknown_members


@cache
def _reports_usage(kind: str) -> bool:
    return kind not in VENDORS or VENDORS[kind].takes_stream_options  # the built-in kinds have no row
