"""Open models on Vertex AI, over its OpenAI-compatible path: `publisher/model`, such as `meta/llama-4-maverick-maas`.

It is OpenAI's wire at a path of the project. What a model supports differs, so that only what no open model has is left
out. Errors are Google's.
"""

from collections.abc import Mapping

from streamweir.core.errors import StreamweirError
from streamweir.core.request import ChatRequest
from streamweir.core.router_members import OTHER_MODEL_MEMBERS
from streamweir.providers.base import Target, UpstreamRequest, json_headers
from streamweir.providers.compatible import OPENAI_ONLY
from streamweir.providers.openai.provider import OpenAIProvider
from streamweir.providers.openai.request import write_body
from streamweir.providers.openai.vendor import Vendor
from streamweir.providers.vertex.address import folder_of, key_header
from streamweir.providers.vertex.error import read_error

VENDOR = Vendor(
    name="vertex-chat",
    base_url="https://LOCATION-aiplatform.googleapis.com/v1",
    path="/endpoints/openapi/chat/completions",
    limit_member="max_tokens",
    refuses=OTHER_MODEL_MEMBERS | OPENAI_ONLY,
    embeddings=None,
)


class VertexChat(OpenAIProvider):
    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest:
        body, dropped = write_body(request, target, self.vendor)
        return UpstreamRequest(
            path=f"{folder_of(target)}{self.vendor.path}",
            headers=(*key_header(target), *json_headers(request)),
            body=body,
            dropped=dropped,
        )

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        return read_error(status, headers, body)


PROVIDER = VertexChat(VENDOR)
