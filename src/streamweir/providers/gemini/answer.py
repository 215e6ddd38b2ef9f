"""Gemini's answers as types: one frame of a stream, one element of an array, or a whole answer.

All three have the same format, so there is one decode, `read_answer`. It reads the members that the decoder needs and
skips the rest. A member of the wrong type counts as absent; only a document that is not a JSON object is refused.
"""

from typing import Annotated, Any, TypeVar

from msgspec import Meta, Raw, Struct, field

from streamweir.core.usage import MAX_TOKEN_COUNT, has_invalid_count, token_count
from streamweir.wire import jsonio

T = TypeVar("T")

_Count = Annotated[int, Meta(ge=0, le=MAX_TOKEN_COUNT)]


class Call(Struct, rename="camel", gc=False):
    """A function call, or (`partial_args`, `will_continue`) a piece of one."""

    name: str | None = None
    id: str | None = None
    args: Raw = field(default_factory=Raw)
    partial_args: list[dict[str, Any]] | None = None
    will_continue: bool = False


class Blob(Struct, rename="camel", gc=False):
    mime_type: str | None = None
    data: str | None = None


class Part(Struct, rename="camel", gc=False):
    """`text` is None for a part of another kind: code, its result, one of Google's tools."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: Call | None = None
    inline_data: Blob | None = None


class Content(Struct, gc=False):
    parts: list[Part] | None = None


class Grounding(Struct, rename="camel", gc=False):
    """`groundingMetadata`: the searches that the answer is based on."""

    web_search_queries: list[str] | None = None


class Candidate(Struct, rename="camel", gc=False):
    index: int = 0
    content: Content | None = None
    finish_reason: str | int | None = None
    logprobs_result: dict[str, Any] | None = None
    grounding_metadata: Grounding | None = None


class Modality(Struct, rename="camel", gc=False):
    modality: str | int | None = None
    token_count: _Count | None = None


class Report(Struct, rename="camel", gc=False):
    """`usageMetadata`. The names with `response` are newer spellings of those with `candidates`."""

    prompt_token_count: _Count | None = None
    candidates_token_count: _Count | None = None
    total_token_count: _Count | None = None
    thoughts_token_count: _Count | None = None
    cached_content_token_count: _Count | None = None
    tool_use_prompt_token_count: _Count | None = None
    response_token_count: _Count | None = None
    prompt_tokens_details: list[Modality] | None = None
    candidates_tokens_details: list[Modality] | None = None
    response_tokens_details: list[Modality] | None = None
    cache_tokens_details: list[Modality] | None = None


INVALID_REPORT = Report()
"""This object stands for a report with an invalid count: the other counts cannot be trusted either."""

_COUNTS = {
    "prompt_token_count": "promptTokenCount",
    "candidates_token_count": "candidatesTokenCount",
    "total_token_count": "totalTokenCount",
    "thoughts_token_count": "thoughtsTokenCount",
    "cached_content_token_count": "cachedContentTokenCount",
    "tool_use_prompt_token_count": "toolUsePromptTokenCount",
    "response_token_count": "responseTokenCount",
}


class PromptFeedback(Struct, rename="camel", gc=False):
    block_reason: str | int | None = None


class Answer(Struct, rename="camel", gc=False):
    candidates: list[Candidate] | None = None
    usage_metadata: Report | None = None
    prompt_feedback: PromptFeedback | None = None
    response_id: str | None = None
    model_version: str | None = None
    create_time: str | None = None
    error: Any = None


def _from_any(value: Any) -> Answer:
    if not isinstance(value, dict):
        raise jsonio.InvalidJson("not an object")
    usage = _member(value, "usageMetadata", dict)
    feedback = _member(value, "promptFeedback", dict)
    return Answer(
        candidates=[_candidate(item) for item in _objects(value, "candidates")],
        usage_metadata=None if usage is None else _report(usage),
        prompt_feedback=None if feedback is None else PromptFeedback(_enum_value(feedback, "blockReason")),
        response_id=_member(value, "responseId", str),
        model_version=_member(value, "modelVersion", str),
        create_time=_member(value, "createTime", str),
        error=value.get("error"),
    )


def _candidate(value: dict[str, Any]) -> Candidate:
    content = _member(value, "content", dict)
    grounding = _member(value, "groundingMetadata", dict)
    return Candidate(
        index=token_count(value.get("index")) or 0,
        content=None if content is None else Content([_part(item) for item in _objects(content, "parts")]),
        finish_reason=_enum_value(value, "finishReason"),
        logprobs_result=_member(value, "logprobsResult", dict),
        grounding_metadata=None if grounding is None else Grounding(_texts(grounding, "webSearchQueries")),
    )


def _part(value: dict[str, Any]) -> Part:
    call = _member(value, "functionCall", dict)
    blob = _member(value, "inlineData", dict)
    return Part(
        text=_member(value, "text", str),
        thought=value.get("thought") is True,
        thought_signature=_member(value, "thoughtSignature", str),
        function_call=None if call is None else _call(call),
        inline_data=None if blob is None else Blob(_member(blob, "mimeType", str), _member(blob, "data", str)),
    )


def _call(value: dict[str, Any]) -> Call:
    return Call(
        name=_member(value, "name", str),
        id=_member(value, "id", str),
        args=Raw(jsonio.encode(value["args"])) if "args" in value else Raw(),
        partial_args=_objects(value, "partialArgs") or None,
        will_continue=value.get("willContinue") is True,
    )


def _report(value: dict[str, Any]) -> Report:
    counts = {name: token_count(value.get(member)) for name, member in _COUNTS.items()}
    if has_invalid_count(value, *_COUNTS.values()):
        return INVALID_REPORT
    return Report(
        **counts,
        prompt_tokens_details=_modalities(value, "promptTokensDetails"),
        candidates_tokens_details=_modalities(value, "candidatesTokensDetails"),
        response_tokens_details=_modalities(value, "responseTokensDetails"),
        cache_tokens_details=_modalities(value, "cacheTokensDetails"),
    )


def _modalities(value: dict[str, Any], name: str) -> list[Modality]:
    return [
        Modality(_enum_value(item, "modality"), token_count(item.get("tokenCount"))) for item in _objects(value, name)
    ]


def _member(value: dict[str, Any], name: str, kind: type[T]) -> T | None:
    member = value.get(name)
    return member if isinstance(member, kind) else None


def _enum_value(value: dict[str, Any], name: str) -> str | int | None:
    """An enum value: its name, or its number if the service was asked for numbers."""
    member = value.get(name)
    return member if isinstance(member, str | int) and not isinstance(member, bool) else None


def _texts(value: dict[str, Any], name: str) -> list[str]:
    return [item for item in _member(value, name, list) or () if isinstance(item, str)]


def _objects(value: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [item for item in _member(value, name, list) or () if isinstance(item, dict)]


read_answer = jsonio.typed(Answer, _from_any)
"""An answer; raises `jsonio.InvalidJson`."""
