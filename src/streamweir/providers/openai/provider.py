"""The provider for a vendor's row: the OpenAI wire with that vendor's differences.

It is stateless: the state of an answer is in the decoder that is made for it.
"""

import re
from collections.abc import Mapping, Sequence

from streamweir.core.errors import CallerError, StreamweirError, UpstreamError
from streamweir.core.events import Event, StreamFailed
from streamweir.core.message import TextPart
from streamweir.core.request import ChatRequest
from streamweir.providers import failure
from streamweir.providers.base import (
    Decoder,
    Target,
    UpstreamRequest,
    json_headers,
    no_server_tool,
    one_choice_only,
)
from streamweir.providers.openai.decoder import OpenAIDecoder, error_in
from streamweir.providers.openai.request import write_body
from streamweir.providers.openai.vendor import Vendor
from streamweir.wire import jsonio

_NOT_CHAT = re.compile(
    rb"only (?:be )?(?:supported|available|accessible|used|served)[^.]{0,40}v1/responses"  # OpenAI
    rb"|unsupported_api_for_model"  # Copilot
    rb"|chatCompletion operation does not work with the specified model",  # Azure
    re.IGNORECASE,
)
"""How providers say that a model is served on the Responses wire alone."""


class OpenAIProvider:
    """See `providers.base.Provider`."""

    decoder_type: type[OpenAIDecoder] = OpenAIDecoder

    def __init__(self, vendor: Vendor) -> None:
        self.vendor = vendor
        self.name = vendor.name

    def refusal_of(self, request: ChatRequest, model: str, /) -> CallerError | None:
        if request.n > 1 and "n" in self.vendor.refused_by(model):
            return one_choice_only(request)
        if request.native is not None and (refusal := no_server_tool(request)) is not None:
            return refusal
        return text_only(request) if self.vendor.takes_text_only else None

    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest:
        body, dropped = write_body(request, target, self.vendor)
        key = (("authorization", f"Bearer {target.api_key}"),) if target.api_key else ()
        return UpstreamRequest(
            path=self.vendor.path, headers=(*key, *json_headers(request)), body=body, dropped=dropped
        )

    def decoder(self, choices: int | None = None, /) -> Decoder:
        return self.decoder_type(self.vendor.sends_finish, choices, self.vendor.names_stop_sequence)

    def decode_whole(self, body: bytes, choices: int | None = None, /) -> Sequence[Event]:
        if not body.strip():
            return _failed("upstream_empty_response", "The upstream's answer is empty.")
        decoder = self.decoder_type(self.vendor.sends_finish, choices, self.vendor.names_stop_sequence)
        try:
            chunk = decoder.decode_chunk(body)
        except jsonio.InvalidJson:
            return _failed("upstream_bad_response", "The upstream's answer cannot be read.")
        error = error_in(chunk)
        if error is None and not chunk.choices:
            return _failed("upstream_bad_response", "The upstream's answer holds no choices.")
        return decoder.read_whole(chunk) if error is None else decoder.fail(error)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        reader = self.vendor.error_reader
        error = (
            failure.read_error(status, headers, body)
            if reader is None
            else reader(status, headers, body, failure.read_error)
        )
        # Set here alone, so a request that is repeated for it goes out on another wire and cannot be refused so again.
        error.is_of_wire = status in (400, 404) and _NOT_CHAT.search(body) is not None
        return error


def text_only(request: ChatRequest) -> CallerError | None:
    """The refusal of a model that accepts only text."""
    for i, message in enumerate(request.messages):
        if not isinstance(message.content, tuple):
            continue
        for j, part in enumerate(message.content):
            if not isinstance(part, TextPart):
                path = f"messages[{i}].content[{j}]"
                text = f"{path} is not text, and this model accepts text only. Remove it, or use another model."
                return CallerError("invalid_value", text, param=path)
    return None


def _failed(code: str, message: str) -> Sequence[Event]:
    return [StreamFailed(UpstreamError(code, message))]
