"""The dialect of Bitseek (docs/spec/dialects.md). It always streams, one choice, with no sentinel."""

from streamweir.core.events import FinishReason
from streamweir.core.request import RequestRules
from streamweir.frontends.chat.dialect import Dialect, IdForm, ModelRule, UsageRule

BITSEEK = Dialect(
    name="bitseek",
    id_form=IdForm.STREAM_CHAT,
    chunk_object="chat.completion",
    whole_object=None,
    request=RequestRules(model_required=False, always_streams=True, checks_stream_options=False, most_choices=1),
    model=ModelRule.ASKED,
    created_per_chunk=True,
    first_delta=None,
    finish_delta={"content": ""},
    finish_words={
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
