"""Anthropic's Messages protocol, as a `Provider`: requests out, messages in.

Also spoken by others than Anthropic (z.ai, proxies). The base address holds the version
prefix (`/v1`), the key goes into `x-api-key`.
"""

from collections.abc import Mapping, Sequence

from streamweir.core.errors import StreamweirError
from streamweir.core.events import Event
from streamweir.core.request import ChatRequest
from streamweir.providers import failure
from streamweir.providers.anthropic.decode import AnthropicDecoder, decode_whole
from streamweir.providers.anthropic.request import build_request
from streamweir.providers.base import Decoder, Provider, Target, UpstreamRequest


class Anthropic:
    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest:
        return build_request(request, target)

    def decoder(self) -> Decoder:
        return AnthropicDecoder()

    def decode_whole(self, body: bytes, /) -> Sequence[Event]:
        return decode_whole(body)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        return failure.read_error(status, headers, body)


PROVIDER: Provider = Anthropic()
