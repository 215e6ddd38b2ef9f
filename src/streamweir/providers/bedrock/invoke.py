"""Claude through InvokeModel: Anthropic's Messages in Amazon's addresses and frames, as a `Provider`.

The body is that of Messages without the model, which is in the path, and with Bedrock's version and betas. A streamed
answer comes in Amazon's frames, each with one event of Messages, which the framing turns into the event streams of
Messages; so the decoder is Anthropic's but for guardrails, and callers of the Messages API get the events unchanged.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence

from msgspec import structs

from streamweir.core.errors import CallerError, NativeError, StreamweirError
from streamweir.core.events import Event
from streamweir.core.request import ChatRequest
from streamweir.providers.anthropic import error
from streamweir.providers.anthropic.decode import decode_whole
from streamweir.providers.anthropic.model import traits_of
from streamweir.providers.anthropic.request import plan_call
from streamweir.providers.base import Decoder, Provider, Target, UpstreamRequest, one_choice_only
from streamweir.providers.bedrock import claude
from streamweir.providers.bedrock.decode import InvokeDecoder
from streamweir.providers.bedrock.error import read_error
from streamweir.providers.bedrock.inference_id import foundation_model, model_path
from streamweir.wire import jsonio
from streamweir.wire.body import Framing
from streamweir.wire.native import NativeWire

_VERSION = "bedrock-2023-05-31"
"""The one value that Amazon documents for this member, for every model. Newer versions of Messages are asked for in a
header at `bedrock-mantle` alone."""
_FROM_MODEL = "The model returned the following errors: "


class Invoke:
    name = "bedrock-messages"
    framing = Framing.AMAZON_MESSAGES

    def refusal_of(self, request: ChatRequest, _model: str, /) -> CallerError | None:
        return one_choice_only(request) or claude.refusal_of(request)

    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest:
        body, dropped = claude.invoke_body(plan_call(request, target), request)
        operation = "invoke-with-response-stream" if request.stream else "invoke"
        accept = "application/vnd.amazon.eventstream" if request.stream else "application/json"
        key = (("authorization", f"Bearer {target.api_key}"),) if target.api_key else ()
        return UpstreamRequest(
            path=model_path(target.model, operation),
            headers=(*key, ("content-type", "application/json"), ("accept", accept)),
            body=jsonio.encode({"anthropic_version": _VERSION, **body}),
            dropped=tuple(dropped),
        )

    def count_request(self, request: UpstreamRequest, target: Target, /) -> UpstreamRequest:
        """CountTokens takes the body of InvokeModel, which must have a limit, and the id of a model alone."""
        body = jsonio.decode(request.body)
        inner = b64encode(jsonio.encode({"max_tokens": traits_of(target.model).max_output_tokens, **body})).decode()
        model = foundation_model(target.model) or target.model
        return structs.replace(
            request,
            path=model_path(model, "count-tokens"),
            body=jsonio.encode({"input": {"invokeModel": {"body": inner}}}),
        )

    def decoder(self, _choices: int | None = None, /) -> Decoder:
        return InvokeDecoder()

    def decode_whole(self, body: bytes, _choices: int | None = None, /) -> Sequence[Event]:
        return decode_whole(body, InvokeDecoder)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        return _quoted(read_error(status, headers, body, error.read_error), status)


def _quoted(refusal: StreamweirError, status: int) -> StreamweirError:
    """What Claude itself refuses, with its own words for callers of the Messages API: a client reacts to them.

    A prompt that is too long is told in Anthropic's words, and not in Amazon's.
    """
    if refusal.native is None and refusal.code == "invalid_value":
        text = refusal.message.removeprefix(_FROM_MODEL)
        refusal.native = NativeError(NativeWire.ANTHROPIC_MESSAGES, status, "invalid_request_error", text)
    return refusal


PROVIDER: Provider = Invoke()
