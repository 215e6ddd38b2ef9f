"""Anthropic's Messages protocol as a `Provider`: requests out, messages in.

Other services use it too (z.ai, proxies). The base URL includes the version prefix (`/v1`); the key is sent in
`x-api-key`.
"""

from collections.abc import Mapping, Sequence

from msgspec import structs

from streamweir.core.errors import CallerError, StreamweirError
from streamweir.core.events import Event
from streamweir.core.request import ChatRequest
from streamweir.providers.anthropic import error
from streamweir.providers.anthropic.decode import AnthropicDecoder, decode_whole
from streamweir.providers.anthropic.request import build_request
from streamweir.providers.base import Decoder, Provider, Target, UpstreamRequest, one_choice_only


class Anthropic:
    name = "anthropic"

    def refusal_of(self, request: ChatRequest, _model: str, /) -> CallerError | None:
        return one_choice_only(request)

    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest:
        return build_request(request, target)

    def count_request(self, request: UpstreamRequest, _target: Target, /) -> UpstreamRequest:
        return structs.replace(request, path=f"{request.path}/count_tokens")

    def decoder(self, _choices: int | None = None, /) -> Decoder:
        return AnthropicDecoder()

    def decode_whole(self, body: bytes, _choices: int | None = None, /) -> Sequence[Event]:
        return decode_whole(body)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        return error.read_error(status, headers, body)


PROVIDER: Provider = Anthropic()
