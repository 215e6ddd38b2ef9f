"""The table of docs/spec/dialects.md as data, written down a second time for the tests' own use.

The engine has a table of its own, and nothing here is imported from it: a slip in one of the
two copies shows as a difference between them.
"""

import re
from dataclasses import dataclass, field

CHATCMPL = re.compile(r"chatcmpl-[A-Za-z0-9]{29}")
CHATCMPL_TEMPLATE = "chatcmpl-{:029}"
CHUNK_ORDER = ("id", "object", "created", "model", "system_fingerprint", "service_tier", "choices", "usage")
CHOICE_ORDER = ("index", "delta", "logprobs", "finish_reason")
WHOLE_CHOICE_ORDER = ("index", "message", "logprobs", "finish_reason")
LABELS = ("system_fingerprint", "service_tier")
USAGE_ORDER = (
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "completion_tokens_details",
    "prompt_tokens_details",
)
ALL_PROMPT_DETAILS = ("cached_tokens", "audio_tokens")
ALL_COMPLETION_DETAILS = (
    "reasoning_tokens",
    "audio_tokens",
    "accepted_prediction_tokens",
    "rejected_prediction_tokens",
)
STREAM_CODES = (
    "upstream_stream_truncated",
    "upstream_stream_reset",
    "upstream_invalid_frame",
    "upstream_frame_too_large",
    "stream_idle_timeout",
    "stream_deadline_exceeded",
    "response_too_large",
    "upstream_timeout",
    "upstream_overloaded",
    "upstream_server_error",
)
"""docs/spec/failures.md, Codes: an upstream's failure in a stream."""
OPENAI_WORDS = {word: word for word in ("stop", "length", "tool_calls", "content_filter", "function_call")}


@dataclass(frozen=True)
class Rules:
    name: str
    id_format: re.Pattern[str]
    id_template: str
    """Of an id in this form, with a number in it."""
    chunk_object: str
    first_delta: dict[str, str] | None
    finish_delta: dict[str, str]
    finish_reasons: dict[str, str]
    """From the word of the openai dialect to this one's."""
    error_members: tuple[str, ...]
    stream_error: dict[str, str]
    """What an upstream's failure says inside a stream; a code that is absent is one of `STREAM_CODES`."""
    has_terminator: bool = True
    keeps_upstream_id: bool = False
    shows_asked_model: bool = True
    usage_always: bool = False
    usage_on_finish: bool = False
    null_usage: bool = False
    prompt_details: tuple[str, ...] = ()
    completion_details: tuple[str, ...] = ()
    is_openai: bool = False
    """Labels, logprobs, refusal and the legacy function_call are members of this dialect alone."""
    is_bitseek: bool = False
    """One choice, no role, whole calls, no reasoning, a time on each chunk, errors inside a chunk."""
    has_reasoning_details: bool = False
    delta_members: frozenset[str] = field(default=frozenset())
    """What may stand in a delta beside role, content, reasoning_content and tool_calls."""

    def made_id(self, number: int = 1) -> str:
        return self.id_template.format(number)

    def includes_usage(self, asked: bool) -> bool:
        return asked or self.usage_always


OPENAI = Rules(
    name="openai",
    id_format=CHATCMPL,
    id_template=CHATCMPL_TEMPLATE,
    chunk_object="chat.completion.chunk",
    first_delta={"role": "assistant", "content": ""},
    finish_delta={},
    finish_reasons=OPENAI_WORDS,
    error_members=("message", "type", "param", "code"),
    stream_error={"type": "stream_error"},
    keeps_upstream_id=True,
    shows_asked_model=False,
    null_usage=True,
    is_openai=True,
    has_reasoning_details=True,
    delta_members=frozenset({"reasoning_details", "refusal", "function_call", "annotations", "audio", "images"}),
)
OPENTOKEN = Rules(
    name="opentoken",
    id_format=CHATCMPL,
    id_template=CHATCMPL_TEMPLATE,
    chunk_object="chat.completion.chunk",
    first_delta={"role": "assistant"},
    finish_delta={},
    finish_reasons={**OPENAI_WORDS, "function_call": "tool_calls"},
    error_members=("message", "type", "code"),
    stream_error={"type": "upstream_error", "code": "stream_error"},
    keeps_upstream_id=True,
    usage_always=True,
    prompt_details=("cached_tokens", "cache_creation_tokens"),
    completion_details=("reasoning_tokens",),
    has_reasoning_details=True,
    delta_members=frozenset({"reasoning_details"}),
)
AIVENE = Rules(
    name="aivene",
    id_format=re.compile(r"ilbs_[a-z0-9]{24}"),
    id_template="ilbs_{:024}",
    chunk_object="chat.completion.chunk",
    first_delta={"role": "assistant", "content": ""},
    finish_delta={},
    finish_reasons={**OPENAI_WORDS, "function_call": "tool_calls"},
    error_members=("message", "type"),
    stream_error={"type": "stream_error"},
    prompt_details=("cached_tokens", "cache_write_tokens"),
)
BITSEEK = Rules(
    name="bitseek",
    id_format=re.compile(r"stream:chat:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"),
    id_template="stream:chat:{:08x}-0000-4000-8000-000000000000",
    chunk_object="chat.completion",
    first_delta=None,
    finish_delta={"content": ""},
    finish_reasons={**dict.fromkeys(OPENAI_WORDS, "stop"), "tool_calls": "tool_calls", "function_call": "tool_calls"},
    error_members=("message", "type", "code"),
    stream_error={"type": "stream_error"},
    has_terminator=False,
    usage_on_finish=True,
    is_bitseek=True,
)
DIALECTS = (OPENAI, OPENTOKEN, AIVENE, BITSEEK)
BY_NAME = {rules.name: rules for rules in DIALECTS}
NAMES = tuple(BY_NAME)
