"""The paths of Amazon Bedrock that are compatible with OpenAI: chat completions and Responses, at both of its hosts.

Everything but the path is OpenAI's wire. At `bedrock-runtime` the path is the same for every model; at `bedrock-mantle`
newer families have another one, and a request on the wrong path is refused as a missing permission.
"""

import re

from msgspec import structs

from streamweir.core.request import ChatRequest
from streamweir.core.router_members import OTHER_MODEL_MEMBERS
from streamweir.providers.base import Target, UpstreamRequest, is_default
from streamweir.providers.bedrock.error import read_error
from streamweir.providers.openai.provider import OpenAIProvider
from streamweir.providers.openai.vendor import ResponsesWire, Vendor
from streamweir.providers.responses import ResponsesProvider
from streamweir.wire.native import NativeWire

_NEWER = re.compile(r"(?:^|[./])(?:openai\.gpt-\d|xai\.|google\.gemma-[4-9])")
"""Families that `bedrock-mantle` has on the path of `bedrock-runtime`."""
_RUNTIME, _OLDER = "/openai/v1", "/v1"
_RESPONSES = ResponsesWire(path=f"{_RUNTIME}/responses")

_VENDOR = Vendor(
    name="bedrock-chat",
    base_url="https://bedrock-runtime.REGION.amazonaws.com",
    path=f"{_RUNTIME}/chat/completions",
    responses=_RESPONSES,
    embeddings=None,
    # Its tiers have other prices, which the price list does not have.
    refuses=OTHER_MODEL_MEMBERS | {"service_tier"},
    reasoning_text="reasoning_content",
    error_reader=read_error,
)


def _at_mantle(request: UpstreamRequest, model: str) -> UpstreamRequest:
    if _NEWER.search(model):
        return request
    return structs.replace(request, path=_OLDER + request.path.removeprefix(_RUNTIME))


def _without_tier(request: ChatRequest) -> ChatRequest:
    """A caller's own body is passed on, but for the member that chooses another price."""
    native = request.native
    if native is None or native.wire != NativeWire.OPENAI_RESPONSES or "service_tier" not in native.body:
        return request
    body = {name: value for name, value in native.body.items() if name != "service_tier"}
    is_named = not is_default("service_tier", native.body["service_tier"])
    dropped = (*native.dropped, "service_tier") if is_named else native.dropped
    return structs.replace(request, native=structs.replace(native, body=body, dropped=dropped))


class _Responses(ResponsesProvider):
    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest:
        return super().build_request(_without_tier(request), target)


class _MantleChat(OpenAIProvider):
    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest:
        return _at_mantle(super().build_request(request, target), target.model)


class _MantleResponses(_Responses):
    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest:
        return _at_mantle(super().build_request(request, target), target.model)


CHAT = OpenAIProvider(_VENDOR)
RESPONSES = _Responses(structs.replace(_VENDOR, name="bedrock"), _RESPONSES)
MANTLE_CHAT = _MantleChat(structs.replace(_VENDOR, name="bedrock-mantle"))
MANTLE_RESPONSES = _MantleResponses(structs.replace(_VENDOR, name="bedrock-mantle"), _RESPONSES)
