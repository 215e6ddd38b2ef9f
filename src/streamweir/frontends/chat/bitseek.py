"""The dialect of Bitseek (docs/spec/dialects.md). It always streams, has one choice, and no terminator."""

from streamweir.core.events import FinishReason
from streamweir.core.request import RequestRules
from streamweir.frontends.chat.dialect import Dialect, IdFormat, ModelRule, UsageRule

BITSEEK = Dialect(
    name="bitseek",
    id_format=IdFormat.STREAM_CHAT,
    chunk_object="chat.completion",
    whole_object=None,
    request=RequestRules(model_required=False, always_streams=True, checks_stream_options=False, max_choices=1),
    model=ModelRule.REQUESTED,
    created_per_chunk=True,
    first_delta=None,
    finish_delta={"content": ""},
    finish_reasons={
        FinishReason.STOP: "stop",
        FinishReason.LENGTH: "stop",
        FinishReason.TOOL_CALLS: "tool_calls",
        FinishReason.CONTENT_FILTER: "stop",
        FinishReason.FUNCTION_CALL: "tool_calls",
    },
    usage=UsageRule.ON_FINISH,
    whole_tool_calls=True,
    reasoning=False,
    error_members=("message", "type", "code"),
    error_in_chunk=True,
    terminator=b"",
)
