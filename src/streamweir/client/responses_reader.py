"""`Reader` for OpenAI's Responses API: the same events, and the response as this API would send it whole.

`response.completed` and `response.incomplete` end an answer, and nothing else does. A `keepalive` is no event: it does
not show that the model answers. An `error` frame is raised at once, with its type and its code; of `response.failed`
alone the code and the message are known. Pure, as `reader`.
"""

from collections.abc import Sequence

from msgspec import structs

from streamweir.client.answer import Completion
from streamweir.client.failed_response import FailedResponse, find_error
from streamweir.client.reader import DEFAULT_LIMITS, Limits, Reader
from streamweir.client.response import ResponseFold
from streamweir.core.events import Event
from streamweir.providers.responses.decode import ResponsesDecoder, decode_whole
from streamweir.wire import jsonio
from streamweir.wire.sse import Frame

_NO_REASON = FailedResponse("the server gave no reason")


class ResponsesReader(Reader):
    def __init__(self, limits: Limits = DEFAULT_LIMITS, *, secret: str = "") -> None:
        super().__init__(limits=limits, secret=secret)
        self._decoder = ResponsesDecoder()
        self._fold = ResponseFold()

    @property
    def completion(self) -> Completion:
        return structs.replace(super().completion, document=self._fold.document())

    @property
    def _is_finished(self) -> bool:
        return False  # the frame that says how it finished is the end

    def _read(self, frame: Frame) -> list[Event]:
        self._fold.feed(frame)
        events = super()._read(frame)
        if not self.ended and self._decoder.may_end_when_idle:  # an error, and the decoder waits for its usage
            self._fail(self._stream_error(self._reported_error(frame) or _NO_REASON))
        return events

    def _decode_whole(self, body: bytes) -> Sequence[Event]:
        try:
            document = jsonio.decode(body)
        except jsonio.InvalidJson:
            document = None
        if isinstance(document, dict):
            self._fold.read(document)
        return decode_whole(body)

    def _reported_error(self, frame: Frame) -> FailedResponse | None:
        try:
            document = jsonio.decode(frame.data or b"")
        except jsonio.InvalidJson:
            return _NO_REASON if frame.event == b"error" else None
        if not isinstance(document, dict):
            return None
        if document.get("type") == "error":  # quirk: flat, as the SDKs' own types have it
            document = {name: value for name, value in document.items() if name != "type"}
            return find_error(document, self._secret) or _NO_REASON
        response = document.get("response")
        return find_error(response if isinstance(response, dict) else document, self._secret)
