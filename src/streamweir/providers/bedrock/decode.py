"""Claude's answers through InvokeModel: Anthropic's, and what a guardrail has done.

A guardrail that blocks a prompt or an answer replaces the text by its own and leaves `stop_reason` as it is: only a
member that Amazon adds says so, to a whole answer or to an event of a stream. Amazon's documentation does not say which
event has it, so it is looked for in each. An answer with calls keeps its stop reason: a blocked one has none.

Sources: docs.aws.amazon.com, InvokeModel (use a guardrail), and what callers have reported about streams.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from streamweir.core.events import Event, FinishReason
from streamweir.providers.anthropic.decode import AnthropicDecoder
from streamweir.providers.members import object_of
from streamweir.wire import jsonio
from streamweir.wire.messages import STOP_REASONS

_ACTION = "amazon-bedrock-guardrailAction"
_INTERVENED = "guardrail_intervened"
"""As Converse calls it; some answers of InvokeModel have it as their `stop_reason`."""


class InvokeDecoder(AnthropicDecoder):
    stop_reasons: ClassVar[Mapping[str, FinishReason]] = {**STOP_REASONS, _INTERVENED: FinishReason.CONTENT_FILTER}
    marker: ClassVar[bytes] = _ACTION.encode()

    __slots__ = ("_is_blocked",)

    def __init__(self) -> None:
        super().__init__()
        self._is_blocked = False

    def _note_marked(self, data: bytes) -> None:
        self._is_blocked = self._is_blocked or _says_intervened(data)

    def read_whole(self, message: Mapping[str, Any]) -> Sequence[Event]:
        self._is_blocked = message.get(_ACTION) == "INTERVENED"
        return super().read_whole(message)

    def _read_stop(self) -> list[Event]:
        if self._is_blocked and self._reason != "tool_use":
            self._reason = _INTERVENED
        return super()._read_stop()


def _says_intervened(data: bytes) -> bool:
    """The model can write the member's name, too: then it is inside a text."""
    try:
        event = jsonio.decode(data)
    except jsonio.InvalidJson:
        return False
    if not isinstance(event, dict):
        return False
    places = (event, object_of(event, "message"), object_of(event, "delta"))
    return any(place is not None and place.get(_ACTION) == "INTERVENED" for place in places)
