"""Claude in Microsoft Foundry: Anthropic's own API below the address of the resource, with Azure's header for the key.

The name of the deployment is the model. Answers are Anthropic's, event by event, so that they can be passed on
unchanged to a caller of the same API; refusals can also be those of Azure's front (`providers.azure.error`).
"""

from collections.abc import Mapping

from msgspec import structs

from streamweir.core.errors import StreamweirError
from streamweir.core.request import ChatRequest
from streamweir.providers.anthropic import Anthropic, error
from streamweir.providers.azure import error as azure_error
from streamweir.providers.base import Provider, Target, UpstreamRequest


class FoundryMessages(Anthropic):
    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest:
        made = super().build_request(request, structs.replace(target, api_key=""))
        key = (("api-key", target.api_key),) if target.api_key else ()
        return structs.replace(made, path=f"/anthropic/v1{made.path}", headers=(*key, *made.headers))

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        return azure_error.read_error(status, headers, body, error.read_error)


PROVIDER: Provider = FoundryMessages()
