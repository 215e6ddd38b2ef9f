"""`Reader` for Anthropic's Messages API: the same events, and the message as this API would send it whole.

`message_stop` ends an answer, and nothing else does. A `ping` is no event: it does not show that the model answers.
Pure, as `reader`.
"""

from collections.abc import Sequence

from msgspec import structs

from streamweir.client.answer import Completion
from streamweir.client.failed_response import FailedResponse, find_error_in_bytes
from streamweir.client.message import MessageFold
from streamweir.client.reader import DEFAULT_LIMITS, Limits, Reader
from streamweir.core.events import Event
from streamweir.providers.anthropic.decode import AnthropicDecoder, decode_whole
from streamweir.wire import jsonio
from streamweir.wire.sse import Frame


class MessagesReader(Reader):
    def __init__(self, limits: Limits = DEFAULT_LIMITS, *, secret: str = "") -> None:
        super().__init__(limits=limits, secret=secret)
        self._decoder = AnthropicDecoder()
        self._fold = MessageFold()

    @property
    def completion(self) -> Completion:
        return structs.replace(super().completion, document=self._fold.document())

    @property
    def _is_finished(self) -> bool:
        return self._fold.has_stop_reason

    def _read(self, frame: Frame) -> list[Event]:
        self._fold.feed(frame)
        return super()._read(frame)

    def _decode_whole(self, body: bytes) -> Sequence[Event]:
        try:
            document = jsonio.decode(body)
        except jsonio.InvalidJson:
            document = None
        if isinstance(document, dict):
            self._fold.read(document)
        return decode_whole(body)

    def _reported_error(self, frame: Frame) -> FailedResponse | None:
        reported = find_error_in_bytes(frame.data or b"", self._secret)
        if reported is None and frame.event == b"error":
            return FailedResponse("the server gave no reason")
        return reported
