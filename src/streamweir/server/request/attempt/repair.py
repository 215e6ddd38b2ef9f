"""A request that is sent once more to a target that has refused a part of it, without that part.

It is sent on the target's other wire, without `stream_options`, for a whole answer, or without foreign reasoning. The
refusal is known by its text, and a text can quote the request. So at first the repair is for this request alone. Other
requests are sent in the same way from the start (`learn`) when the target has answered this one, and if it was not the
caller's own words that were refused: no caller may change what is sent for others.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from msgspec import structs

from streamweir.core.errors import StreamweirError
from streamweir.core.request import ChatRequest
from streamweir.pipeline.reasoning_retry import without_reasoning
from streamweir.policy.pricing.quotation import OF_WIRE, may_be_quoted
from streamweir.policy.routing.health import TargetId
from streamweir.policy.routing.stream_refusal import is_refusal_of_stream, is_refusal_of_stream_options
from streamweir.server.request.attempt.attempt_setup import is_text
from streamweir.server.request.runtime.config import RuntimeConfig

Learn = Callable[[], object]
"""Tells other requests of what a target refuses. To be called when it has answered the repaired request."""


class Repair(NamedTuple):
    chat: ChatRequest
    runtime: RuntimeConfig
    """For this request."""
    learn: Learn | None = None
    """None: nothing is learned."""


def repaired(
    runtime: RuntimeConfig,
    chat: ChatRequest,
    target: TargetId,
    error: StreamweirError,
    *,
    is_folded: bool = False,
) -> Repair | None:
    """The request for one more attempt at the same target, without what it refused. None: the error is final."""
    if chat.api == "embeddings" or is_text(runtime, chat, target):
        return None
    wires, refusals, unstreamed = runtime.wires, runtime.refusals, runtime.unstreamed
    if error.is_of_wire and wires.has_choice(target):
        learn = None if may_be_quoted(chat, OF_WIRE) else partial(wires.note_responses_only, target)
        return Repair(chat, structs.replace(runtime, wires=wires.including(target)), learn)
    if is_refusal_of_stream_options(error) and target not in refusals:
        learn = None if _has_own_options(chat) else partial(refusals.note, target)
        return Repair(chat, structs.replace(runtime, refusals=refusals.including(target)), learn)
    if is_folded and is_refusal_of_stream(error):
        changed = structs.replace(runtime, unstreamed=unstreamed.including(target))
        return Repair(chat, changed, partial(unstreamed.note, target))
    without = without_reasoning(chat, error)
    return Repair(without, runtime) if without is not None else None


def _has_own_options(chat: ChatRequest) -> bool:
    """Members of `stream_options` that the gateway itself does not send."""
    options = chat.body.get("stream_options")
    return isinstance(options, dict) and not options.keys() <= {"include_usage"}
