"""Google's Gemini: AI Studio and Vertex, event streams and JSON arrays, streamed and whole.

The two services use one protocol. They differ in their addresses, in authentication, and in a few members that only one
of them accepts. A target with `Target.project` is Vertex.
"""

from collections.abc import Mapping, Sequence

from streamweir.core.errors import CallerError, StreamweirError
from streamweir.core.events import Event
from streamweir.core.request import ChatRequest
from streamweir.providers import base
from streamweir.providers.gemini.decode import Decoder
from streamweir.providers.gemini.embedding import EMBEDDINGS as EMBEDDINGS
from streamweir.providers.gemini.error import read_error
from streamweir.providers.gemini.request import build_request
from streamweir.providers.gemini.tool import WEB_SEARCH
from streamweir.wire.array import ArraySplitter
from streamweir.wire.sse import BOM, Frame


class Gemini:
    name = "gemini"

    def refusal_of(self, request: ChatRequest, _model: str, /) -> CallerError | None:
        if request.native is None or any(kind == WEB_SEARCH for kind, _ in request.server_tools):
            return None
        return base.no_server_tool(request)

    def build_request(self, request: ChatRequest, target: base.Target, /) -> base.UpstreamRequest:
        return build_request(request, target)

    def decoder(self, choices: int | None = None, /) -> base.Decoder:
        return Decoder(choices)

    def decode_whole(self, body: bytes, choices: int | None = None, /) -> Sequence[Event]:
        """One answer, or the array that is sent for a stream without `alt=sse`."""
        body = body.removeprefix(BOM)
        frames = [Frame(body, body)]
        is_array = body.lstrip(b" \t\r\n")[:1] == b"["
        decoder = Decoder(choices, is_whole=not is_array)
        if is_array:
            splitter = ArraySplitter(limit=len(body), accepts_dense=True)
            frames = [*splitter.feed(body), *splitter.finish()]
        events: list[Event] = []
        for frame in frames:
            events += decoder.feed(frame)
        events += decoder.finish()
        return events

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        return read_error(status, headers, body)


PROVIDER = Gemini()
