"""What providers report about their own rate limits, for the order of a request's candidates (`policy.routing.quota`).

Nothing is refused because of it. Only for requests of a configuration in which some have a choice.
"""

from collections.abc import Callable
from functools import partial

from streamweir.core.request import ChatRequest
from streamweir.policy.routing.health import Candidate
from streamweir.policy.routing.quota import Quotas
from streamweir.server.accounting.reservation import Reservation
from streamweir.server.relay.relay import Relay
from streamweir.server.request.request_size import estimate_prompt, max_output_tokens


def room_by_quota(quotas: Quotas, chat: ChatRequest, now: float) -> Callable[[Candidate], bool]:
    """Whether a candidate's quota can hold the request."""
    tokens = -1

    def has_room(candidate: Candidate) -> bool:
        nonlocal tokens
        if tokens < 0:  # only if there is a choice
            # The larger of the two, as OpenAI counts: a hint must not be too strict.
            tokens = max(estimate_prompt(chat), max_output_tokens(chat) or 1)
        return quotas.has_room(candidate, tokens, now)

    return has_room


def note_attempt(quotas: Quotas, candidate: Candidate, relay: Relay, reservation: Reservation | None) -> None:
    """Before an attempt: it is counted, and the head of its response is read."""
    quotas.note_sent(candidate, reservation.limit_request.tokens if reservation is not None else 0)
    relay.on_head = partial(quotas.note_headers, candidate)
