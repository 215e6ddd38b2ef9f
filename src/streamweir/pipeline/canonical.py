"""The short path of a whole answer: one typed decode, and the decoded value is encoded again.

The Structs are the `openai` dialect's body, member by member in the order of `frontends.chat.whole`. A body with any
other member is decoded into events instead (the long path). The output is, byte for byte, that of the long path. The
data goes directly into the meter's record, as in `pipeline.tap`. A body for the long path changes nothing here.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from streamweir.core.events import MAX_CHOICES, FinishReason
from streamweir.frontends.identifier import is_unique
from streamweir.pipeline.meter import Record
from streamweir.providers.openai.usage import read_usage
from streamweir.wire import jsonio

_Text = Annotated[str, Meta(min_length=1)]
_Details = Annotated[dict[str, int | float | None], Meta(min_length=1)]


class _Function(Struct, gc=False, forbid_unknown_fields=True):
    name: _Text
    arguments: str


class _Call(Struct, gc=False, forbid_unknown_fields=True):
    id: _Text
    type: Literal["function"]
    function: _Function


class _Message(Struct, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    role: Literal["assistant"]
    content: str | None
    tool_calls: Annotated[list[_Call], Meta(min_length=1)] | UnsetType = UNSET
    refusal: None = None
    """OpenAI sends this and the next member although they are empty; they are not written."""
    annotations: Annotated[list[Any], Meta(max_length=0)] = []


class _Choice(Struct, gc=False, forbid_unknown_fields=True, kw_only=True):
    index: int
    message: _Message
    logprobs: None | UnsetType = UNSET
    finish_reason: FinishReason


class _Usage(Struct, gc=False, forbid_unknown_fields=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    completion_tokens_details: _Details | UnsetType = UNSET
    prompt_tokens_details: _Details | UnsetType = UNSET


class _Body(Struct, gc=False, forbid_unknown_fields=True, kw_only=True):
    id: str
    object: Literal["chat.completion"]
    created: Annotated[int, Meta(gt=0)]
    model: _Text
    system_fingerprint: str | None | UnsetType = UNSET
    service_tier: str | None | UnsetType = UNSET
    choices: Annotated[list[_Choice], Meta(min_length=1, max_length=MAX_CHOICES)]
    usage: _Usage


_decode = msgspec.json.Decoder(_Body).decode


def take_canonical(body: bytes, record: Record, choices: int | None = None) -> bytes | None:
    """The body as the caller gets it; its data is written to the record. None: use the long path.

    `choices`: the number of requested choices; None: unknown.
    """
    if record.price_of is not None:
        return None
    try:
        answer = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if choices is not None and len(answer.choices) != choices:
        return None
    usage, text = answer.usage, _text_of(answer.choices)
    adds_up = usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    if text is None or not adds_up or not is_unique(answer.id, "chatcmpl-"):
        return None
    report = read_usage(jsonio.to_members(usage))
    if report is None or report.prompt_tokens != usage.prompt_tokens or not record.is_plausible(report, len(text)):
        return None
    record.completion_id, record.model = answer.id, answer.model
    if isinstance(answer.service_tier, str):
        record.service_tier = answer.service_tier
    record.delivered.write(text)
    for choice in answer.choices:
        record.finishes[choice.index] = choice.finish_reason
    record.usage, record.usage_at, record.completed = report, len(text), True
    return jsonio.encode(answer)


def _text_of(choices: list[_Choice]) -> str | None:
    """Everything that the model wrote. None: the long path would write one of the choices differently."""
    pieces: list[str] = []
    for index, choice in enumerate(choices):
        if choice.index != index or choice.finish_reason is FinishReason.OTHER:
            return None
        text, calls = choice.message.content, choice.message.tool_calls
        if calls is UNSET:
            if text is None:
                return None
            pieces.append(text)
        else:
            # The long path writes null for an empty text with calls, and merges calls with one id.
            if text == "" or len({call.id for call in calls}) != len(calls):
                return None
            pieces.append(text or "")
            for call in calls:
                pieces += call.function.name, call.function.arguments
    return "".join(pieces)
