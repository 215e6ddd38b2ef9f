"""Work in a thread for a request that is over: counting unreported tokens, and packing its stored content.

Both may take long, and no caller waits for them (`server.accounting.settlement`).
"""

from streamweir.core.request import Prompt
from streamweir.pipeline.meter import Meter
from streamweir.pipeline.settlement import PendingSettlement, Settlement
from streamweir.policy.access import Key
from streamweir.server.accounting.reservation import Reservation
from streamweir.server.accounting.token_count import Vocabularies, vocabulary_of
from streamweir.server.relay.capture import Capture
from streamweir.store.requests.content import Content


def count_pending(
    pending: PendingSettlement, vocabularies: Vocabularies, model: str, prompt: Prompt | None
) -> Settlement:
    """By the model's own tokenizer if it is known, else by the rule of thumb."""
    if prompt is None or not vocabulary_of(model).is_own:
        return pending.count()
    tokenizer = vocabularies.tokenizer(model)
    return pending.count(tokenizer, tokenizer.count_prompt(prompt))


def content_of(
    capture: Capture, meter: Meter, request_id: str, key: Key, reservation: Reservation | None, at_ms: int
) -> Content:
    workspace_id = reservation.workspace_id if reservation is not None else key.workspace_id
    return capture.content(request_id, workspace_id, key.id, at_ms, meter.record.delivered.getvalue())
