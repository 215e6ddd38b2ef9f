"""Finish reasons to the stop reasons of the Messages API."""

from typing import NamedTuple

from streamweir.core.events import FinishReason
from streamweir.wire.messages import STOP_REASONS, UNFINISHED

OWN_WORDS = frozenset({*STOP_REASONS, *UNFINISHED})
_WORDS = {
    FinishReason.STOP: "end_turn",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.FUNCTION_CALL: "tool_use",
    FinishReason.CONTENT_FILTER: "refusal",
}


class Stop(NamedTuple):
    reason: str
    sequence: str | None = None


def stop_of(
    reason: FinishReason, raw: str, sequence: str | None, *, has_calls: bool = False, has_refusal: bool = False
) -> Stop:
    """`raw` is the upstream's own value: it is used if it is a stop reason of this API.

    An answer with a call never has a plain stop: some vendors send one, and an agent would stop there.
    """
    if has_refusal:
        return Stop("refusal")
    if has_calls and reason in (FinishReason.STOP, FinishReason.OTHER) and raw not in UNFINISHED:
        return Stop("tool_use")
    if raw in OWN_WORDS:
        return Stop(raw, sequence)
    if reason is FinishReason.STOP and sequence is not None:
        return Stop("stop_sequence", sequence)
    return Stop(_WORDS.get(reason, "end_turn"))
