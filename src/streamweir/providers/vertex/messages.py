"""Claude on Vertex AI: Anthropic's Messages in `rawPredict` and `streamRawPredict`.

The model is in the path and the version in the body; betas stay in their header. Answers are Anthropic's own, event by
event, so that they can be passed on unchanged to a caller of the same API.
"""

from collections.abc import Mapping, Sequence

from msgspec import structs

from streamweir.core.errors import CallerError, StreamweirError
from streamweir.core.events import Event
from streamweir.core.request import ChatRequest
from streamweir.providers.anthropic.cloud import CloudRules, adapt, refusal_of
from streamweir.providers.anthropic.decode import AnthropicDecoder, decode_whole
from streamweir.providers.anthropic.request import plan_call
from streamweir.providers.base import Decoder, Provider, Target, UpstreamRequest, json_headers, one_choice_only
from streamweir.providers.vertex.address import key_header, model_path
from streamweir.providers.vertex.error import read_claude_error
from streamweir.wire import jsonio

VERSION = "vertex-2023-10-16"
_PUBLISHER = "anthropic"
_WEB_SEARCH = "web-search-2025-03-05"
_TOOL_SEARCH = "tool-search-tool-2025-10-19"
_LONG_CONTEXT = "context-1m-2025-08-07"
_NOT_FOR_COUNTING = (_WEB_SEARCH, _TOOL_SEARCH, _LONG_CONTEXT)
"""Refused there, and without an effect on the count."""

RULES = CloudRules(
    betas={
        "advanced-tool-use-2025-11-20": _TOOL_SEARCH,
        **{
            beta: beta
            for beta in (
                "compact-2026-01-12",
                "compact-2026-09-04",
                "computer-use-2025-01-24",
                "computer-use-2025-11-24",
                _LONG_CONTEXT,
                "context-management-2025-06-27",
                "dangerous-tool-use-2026-09-03",
                "interleaved-thinking-2025-05-14",
                "per-turn-control-2026-07-01",
                "thinking-binding-controls-2026-08-01",
                "thinking-display-updates-2026-08-18",
                _TOOL_SEARCH,
                _WEB_SEARCH,
            )
        },
    },
    refuses=frozenset({"diagnostics", "service_tier"}),
    tool_betas={r"web_search(_\d{8})?": _WEB_SEARCH, r"tool_search_tool_\w+": _TOOL_SEARCH},
    refused_tools=r"(web_fetch|code_execution|advisor)(_\d{8})?|mcp_toolset",
)


class VertexMessages:
    name = "anthropic"

    def refusal_of(self, request: ChatRequest, _model: str, /) -> CallerError | None:
        return one_choice_only(request) or refusal_of(request, RULES)

    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest:
        call = adapt(plan_call(request, target), request, RULES)
        body = {name: value for name, value in call.body.items() if name not in ("model", "anthropic_version")}
        method = "streamRawPredict" if request.stream else "rawPredict"
        betas = (("anthropic-beta", ",".join(call.betas)),) if call.betas else ()
        return UpstreamRequest(
            path=f"{model_path(target, _PUBLISHER, target.model)}:{method}",
            headers=(*key_header(target), *json_headers(request), *betas),
            body=jsonio.encode({"anthropic_version": VERSION, **body}),
            dropped=call.dropped,
        )

    def count_request(self, request: UpstreamRequest, target: Target, /) -> UpstreamRequest:
        """All models have one path, and the model is in the body."""
        model = model_path(target, _PUBLISHER, target.model).rpartition("/")[2]
        headers = tuple(_for_counting(name, value) for name, value in request.headers)
        return structs.replace(
            request,
            path=f"{model_path(target, _PUBLISHER, 'count-tokens')}:rawPredict",
            headers=tuple(header for header in headers if header[1]),
            body=jsonio.encode({**jsonio.decode(request.body), "model": model}),
        )

    def decoder(self, _choices: int | None = None, /) -> Decoder:
        return AnthropicDecoder()

    def decode_whole(self, body: bytes, _choices: int | None = None, /) -> Sequence[Event]:
        return decode_whole(body)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        return read_claude_error(status, headers, body)


def _for_counting(name: str, value: str) -> tuple[str, str]:
    if name != "anthropic-beta":
        return name, value
    return name, ",".join(beta for beta in value.split(",") if beta not in _NOT_FOR_COUNTING)


PROVIDER: Provider = VertexMessages()
