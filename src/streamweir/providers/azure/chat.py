"""Azure OpenAI: OpenAI's wire with Azure's addresses and authentication header.

With a dated API version the deployment is in the path and the version in the query. Without one, or with "v1",
"preview" or "latest", Azure's newer address is used, which is the same as OpenAI's and has the deployment in the body.
The key is in a header of its own; without a key a token of Entra is added later (`upstream.authorized`). Answers are
OpenAI's with content filter results added, which the decoder carries along.
"""

from urllib.parse import quote

from streamweir.core.request import ChatRequest
from streamweir.providers.azure.error import read_error
from streamweir.providers.base import Target, UpstreamRequest, json_headers
from streamweir.providers.compatible import INSTRUCT, OPENAI_SEARCHES, RESPONSES_ONLY
from streamweir.providers.openai.embedding import OpenAIEmbeddings
from streamweir.providers.openai.provider import OpenAIProvider
from streamweir.providers.openai.request import write_body
from streamweir.providers.openai.text import TextProvider
from streamweir.providers.openai.vendor import EmbeddingRow, ResponsesWire, Vendor

VENDOR = Vendor(
    name="azure",
    base_url="https://RESOURCE.openai.azure.com",
    abort_stops_billing=True,
    takes_developer_role=True,
    responses=ResponsesWire(
        path="/openai/v1/responses", key_header=("api-key", ""), server_tools=OPENAI_SEARCHES, only=RESPONSES_ONLY
    ),
    added_limit="max_completion_tokens",
    refuses=frozenset({"top_k"}),
    completions=INSTRUCT,
    error_reader=read_error,
)


class AzureProvider(OpenAIProvider):
    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest:
        body, dropped = write_body(request, target, self.vendor)
        key = (("api-key", target.api_key),) if target.api_key else ()
        path = _path(target, "/chat/completions")
        return UpstreamRequest(path=path, headers=(*key, *json_headers(request)), body=body, dropped=dropped)


def _path(target: Target, path: str) -> str:
    version = target.api_version
    if version is None or not version[:1].isdigit():
        return f"/openai/v1{path}{version_query(target)}"
    return f"/openai/deployments/{quote(target.model, safe='')}{path}?api-version={quote(version, safe='')}"


def version_query(target: Target) -> str:
    """Of the newer address: it takes a version for what is not stable yet, but none with a date."""
    version = target.api_version
    if version is None or version == "v1" or version[:1].isdigit():
        return ""
    return f"?api-version={quote(version, safe='')}"


def _path_and_key(target: Target, path: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return _path(target, path), (("api-key", target.api_key),) if target.api_key else ()


EMBEDDINGS = OpenAIEmbeddings("azure", EmbeddingRow(), _path_and_key, read_error)
TEXT = TextProvider(VENDOR, _path_and_key)
PROVIDER = AzureProvider(VENDOR)
