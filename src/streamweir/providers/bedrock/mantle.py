"""Claude at `bedrock-mantle`: Anthropic's Messages as they are, at another address and with Amazon's key.

Betas of Anthropic's own hosting are left out and named; the host refuses them.
"""

import re
from collections.abc import Mapping

from streamweir.core.errors import StreamweirError
from streamweir.core.request import ChatRequest
from streamweir.providers.anthropic import Anthropic, error
from streamweir.providers.anthropic.model import traits_of
from streamweir.providers.anthropic.request import plan_call
from streamweir.providers.base import Target, UpstreamRequest, json_headers
from streamweir.providers.bedrock.claude import STANDARD_TIERS, betas_of, named_betas, take_betas, without_cache_scope
from streamweir.providers.bedrock.error import read_error
from streamweir.wire import jsonio
from streamweir.wire.messages import VERSION

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""Of a beta: nothing else from a body comes into a header."""
_REFUSED = re.compile(
    r"(advisor-tool|code-execution|fast-mode|files-api|mcp-client|mcp-servers|prompt-caching-scope|skills|web-fetch)-.*"
)
_WITH_REFUSED_BETAS = ("container", "mcp_servers")
"""Members that are refused without one of these."""


class MantleMessages(Anthropic):
    name = "bedrock-mantle-messages"

    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest:
        call = plan_call(request, target)
        body, dropped = dict(call.body), list(call.dropped)
        betas = list(dict.fromkeys((*betas_of(call), *take_betas(body))))
        sent = [beta for beta in betas if _NAME.fullmatch(beta) and not _REFUSED.fullmatch(beta)]
        others = [(name, value) for name, value in call.headers if name != "anthropic-beta"]
        key = [("authorization", f"Bearer {target.api_key}")] if target.api_key else []
        version = _version_for(target.model, call.version)
        if body.get("service_tier") not in STANDARD_TIERS:
            del body["service_tier"]  # the price of another one is not in the list
            dropped.append("service_tier")
        for name in _WITH_REFUSED_BETAS:
            if body.pop(name, None) is not None:
                dropped.append(name)
        beta = [("anthropic-beta", ",".join(sent))] if sent else []
        return UpstreamRequest(
            path="/anthropic/v1/messages",
            headers=(*key, ("anthropic-version", version), *json_headers(request), *others, *beta),
            body=jsonio.encode(without_cache_scope(body, betas)),
            dropped=(*dropped, *named_betas([beta for beta in betas if beta not in sent], request)),
        )

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        return read_error(status, headers, body, error.read_error)


def _version_for(model: str, asked: str) -> str:
    """At Bedrock, models before 4.7 refuse newer versions of the API: they are the ones that take sampling. What a
    newer version allows, the older one allows as well."""
    return VERSION if traits_of(model).takes_sampling else asked


PROVIDER = MantleMessages()
