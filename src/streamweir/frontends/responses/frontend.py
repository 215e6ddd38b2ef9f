"""OpenAI's Responses API as a frontend, without its storage: nothing that was answered can be fetched or continued."""

from collections.abc import Mapping, Sequence
from typing import Any

from streamweir.core.completion import Completion
from streamweir.core.errors import CallerError, StreamweirError
from streamweir.core.events import StreamFailed
from streamweir.core.request import ChatRequest
from streamweir.frontends.base import ErrorResponse, Frontend, Headers, Reply, StreamEncoder, WholeBody
from streamweir.frontends.members import dropped_header
from streamweir.frontends.responses.encoder import ResponsesEncoder
from streamweir.frontends.responses.errors import document_of, status_of
from streamweir.frontends.responses.request import read_responses_request
from streamweir.frontends.responses.whole import encode_whole
from streamweir.wire import jsonio
from streamweir.wire.native import NativeWire

_PATH = "/v1/responses"
_ID_BYTES = 24


class ResponsesFrontend(Frontend):
    name = "responses"
    paths = (_PATH, f"/openai{_PATH}")
    count_paths = tuple(f"{path}/input_tokens" for path in paths)
    logged_headers = ("session-id", "thread-id")
    session_headers = ("session-id", "session_id", *Frontend.session_headers)  # Codex has used both
    native_wire = NativeWire.OPENAI_RESPONSES
    always_includes_usage = True
    max_quiet_s = 15.0
    has_own_headers = True
    body_factor = 4  # images and documents are in the body

    def parse(self, document: dict[str, Any], _: Mapping[str, str], /) -> ChatRequest:
        return read_responses_request(document)

    def parse_count(self, document: dict[str, Any], _: Mapping[str, str], /) -> ChatRequest:
        return read_responses_request(document, is_count=True)

    def write_count(self, tokens: int, _: ChatRequest, /) -> dict[str, Any]:
        return {"object": "response.input_tokens", "input_tokens": tokens}

    def make_id(self, entropy: bytes, /) -> str:
        return "resp_" + entropy[:_ID_BYTES].hex()

    def encoder(self, reply: Reply, /) -> ResponsesEncoder:
        return ResponsesEncoder(reply)

    def keep_alive_in(self, encoder: StreamEncoder, /) -> bytes:
        return encoder.keep_alive() if isinstance(encoder, ResponsesEncoder) else self.keep_alive

    def next_number_in(self, encoder: StreamEncoder, /) -> int:
        return encoder.next_number if isinstance(encoder, ResponsesEncoder) else 0

    def return_to(self, encoder: StreamEncoder, number: int, /) -> None:
        if isinstance(encoder, ResponsesEncoder):
            encoder.return_to(number)

    def write_whole(self, completion: Completion, reply: Reply, /) -> WholeBody:
        return WholeBody(reply.id, encode_whole(completion, reply))

    def write_error(self, error: StreamweirError, _: str = "", /) -> ErrorResponse:
        return ErrorResponse(status_of(error), jsonio.encode(document_of(error)))

    def write_streamed_error(self, error: StreamweirError, reply: Reply, /) -> bytes | None:
        if error.code != "context_length_exceeded":  # agents shorten the conversation if it is in a stream
            return None
        return b"".join(ResponsesEncoder(reply).feed(StreamFailed(error)))

    def unknown_path(self, method: str, path: str, /) -> CallerError:
        message = f"Responses are not stored here, so there is none at this URL: {method} {path[:200]}."
        return CallerError("not_found", message)

    def own_headers(self, headers: Headers, _: str, dropped: Sequence[str], __: float, /) -> Headers:
        return dropped_header(dropped) + headers


RESPONSES = ResponsesFrontend()
