"""Why an answer ended, as status and reason of the Responses API.

Agents treat an incomplete answer as an error, so only a limit and a filter make it incomplete.
"""

from typing import NamedTuple

from streamweir.core.events import FinishReason
from streamweir.wire.responses import INCOMPLETE_REASONS

_REASONS = {finish: reason for reason, finish in INCOMPLETE_REASONS.items()}


class Ending(NamedTuple):
    status: str
    reason: str | None = None
    """Why it is incomplete."""

    @property
    def is_cut(self) -> bool:
        return self.reason is not None


def ending_of(finish: FinishReason | None) -> Ending:
    reason = _REASONS.get(finish) if finish is not None else None
    return Ending("completed") if reason is None else Ending("incomplete", reason)
