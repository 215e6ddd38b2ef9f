"""Amazon Bedrock's Converse API as a `Provider`: one format for the models of all vendors.

The base URL is the runtime's address in a region; the model stands in the path. The key is a Bedrock API key; without
one, the upstream adds a signature. Answers are streamed in Amazon's binary frames.
"""

from collections.abc import Mapping, Sequence

from msgspec import structs

from streamweir.core.errors import CallerError, StreamweirError
from streamweir.core.events import Event
from streamweir.core.request import ChatRequest
from streamweir.providers.base import Decoder, Provider, Target, UpstreamRequest, no_server_tool, one_choice_only
from streamweir.providers.bedrock.error import read_error
from streamweir.providers.bedrock.inference_id import foundation_model, model_path
from streamweir.providers.converse.decode import ConverseDecoder, decode_whole
from streamweir.providers.converse.model import traits_of
from streamweir.providers.converse.request import build_request
from streamweir.wire import jsonio
from streamweir.wire.body import Framing

_COUNTED = frozenset({"additionalModelRequestFields", "messages", "system", "toolConfig"})


class Converse:
    framing = Framing.AMAZON

    def __init__(self, name: str, *, repeats_cached_input: bool = False) -> None:
        """`repeats_cached_input`: see `converse.usage`."""
        self.name = name
        self._repeats_cached_input = repeats_cached_input

    def refusal_of(self, request: ChatRequest, _model: str, /) -> CallerError | None:
        return one_choice_only(request) or no_server_tool(request)

    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest:
        return build_request(request, target)

    def count_request(self, request: UpstreamRequest, target: Target, /) -> UpstreamRequest | None:
        """CountTokens takes these members of the body, and the id of a model alone: of Claude, as documented."""
        model = foundation_model(target.model)
        if model is None or traits_of(model).claude is None:
            return None
        body = {name: value for name, value in jsonio.decode(request.body).items() if name in _COUNTED}
        return structs.replace(
            request, path=model_path(model, "count-tokens"), body=jsonio.encode({"input": {"converse": body}})
        )

    def decoder(self, _choices: int | None = None, /) -> Decoder:
        return ConverseDecoder(repeats_cached_input=self._repeats_cached_input)

    def decode_whole(self, body: bytes, _choices: int | None = None, /) -> Sequence[Event]:
        return decode_whole(body)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        return read_error(status, headers, body)


PROVIDER: Provider = Converse("bedrock")
OPENAI_MODELS: Provider = Converse("bedrock-openai", repeats_cached_input=True)
