"""OpenAI's Responses wire, as a `Provider`: requests out, responses in.

A second wire of vendors that also have chat completions: the `wire` of a target decides which one is used
(`providers.registry`). Some models are served only on this wire, and only this wire keeps reasoning across tool calls.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from streamweir.core.errors import CallerError, StreamweirError
from streamweir.core.events import Event
from streamweir.core.request import ChatRequest
from streamweir.providers.base import Decoder, Target, UpstreamRequest, no_server_tool, one_choice_only
from streamweir.providers.openai.vendor import ResponsesWire, Vendor
from streamweir.providers.responses import error
from streamweir.providers.responses.decode import ResponsesDecoder, decode_whole
from streamweir.providers.responses.request import build_request
from streamweir.wire.native import NativeWire


class ResponsesProvider:
    """See `providers.base.Provider`."""

    max_event_bytes = 4 * 1024 * 1024
    """The last event repeats the whole answer, and an image is one event."""

    def __init__(self, vendor: Vendor, wire: ResponsesWire) -> None:
        self.vendor = vendor
        self.wire = wire
        self.name = f"{vendor.name}-responses"

    def refusal_of(self, request: ChatRequest, _model: str, /) -> CallerError | None:
        if request.native is not None and request.native.wire == NativeWire.OPENAI_RESPONSES:
            return None
        if request.server_tools and not any(kind in self.wire.server_tools for kind, _ in request.server_tools):
            return one_choice_only(request) or no_server_tool(request)
        return one_choice_only(request)

    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest:
        name, prefix = self.wire.key_header
        key = ((name, f"{prefix}{target.api_key}"),) if target.api_key else ()
        return build_request(request, target, self.vendor, self.wire, key)

    def decoder(self, _choices: int | None = None, /) -> Decoder:
        return ResponsesDecoder(self.wire.reasoning_format)

    def decode_whole(self, body: bytes, _choices: int | None = None, /) -> Sequence[Event]:
        return decode_whole(body, self.wire.reasoning_format)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        reader = self.vendor.error_reader
        if reader is None:
            return error.read_error(status, headers, body)
        return reader(status, headers, body, error.read_error)


@cache
def provider_of(vendor: Vendor) -> ResponsesProvider:
    """Raises `KeyError` if the vendor does not have this wire."""
    if vendor.responses is None:
        raise KeyError(vendor.name)
    return ResponsesProvider(vendor, vendor.responses)
