"""OpenAI's Responses at Azure: its address has no deployment in the path, and takes no dated version.

A dated `api_version` is for the other paths of the provider; the newer address serves Responses of all resources.
"""

from msgspec import structs

from streamweir.core.request import ChatRequest
from streamweir.providers.azure.chat import VENDOR, version_query
from streamweir.providers.base import Target, UpstreamRequest
from streamweir.providers.openai.vendor import ResponsesWire
from streamweir.providers.responses import ResponsesProvider


class AzureResponses(ResponsesProvider):
    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest:
        made = super().build_request(request, target)
        query = version_query(target)
        return structs.replace(made, path=f"{made.path}{query}") if query else made


PROVIDER = AzureResponses(VENDOR, VENDOR.responses or ResponsesWire())
