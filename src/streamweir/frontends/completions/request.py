"""The body of `POST /v1/completions` to a `ChatRequest`.

Each prompt becomes one user message, for providers that only have chat completions; each is a call of its own, and its
choices follow those of the prompt before it. The unchanged body is kept in `native`, for providers that have this
path. Members without a counterpart in chat completions are named there (`untranslated`).
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

from streamweir.core.embedding import MAX_TOKEN
from streamweir.core.errors import CallerError
from streamweir.core.events import MAX_CHOICES
from streamweir.core.message import Message
from streamweir.core.request import (
    MAX_TOKENS,
    REFUSED_MEMBERS,
    ChatRequest,
    NativeRequest,
    StreamOptions,
    refused_member,
)
from streamweir.core.validation import convert, missing_parameter

DEFAULT_MAX_TOKENS = 16
"""OpenAI's."""
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_CARRIED = (
    "model",
    "max_tokens",
    "temperature",
    "top_p",
    "n",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "stream",
    "stream_options",
    "user",
)
_Penalty = Annotated[float, Meta(ge=-2, le=2)]


class _Body(Struct, kw_only=True):
    model: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    prompt: str | list[Any] | None = None
    max_tokens: Annotated[int, Meta(ge=0, le=MAX_TOKENS)] | None = None
    n: Annotated[int, Meta(ge=1, le=MAX_CHOICES)] | None = None
    best_of: Annotated[int, Meta(ge=1, le=MAX_CHOICES)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    echo: bool | None = None
    suffix: str | None = None
    user: str | None = None


def read_completions_request(body: dict[str, Any]) -> ChatRequest:
    """Raises `CallerError` with the path of the first invalid member."""
    if not REFUSED_MEMBERS.isdisjoint(body):
        raise refused_member(body)
    sent = convert(body, _Body, "")
    if sent.model is None:
        raise missing_parameter("model")
    if sent.prompt is None:
        raise missing_parameter("prompt")
    if sent.stream_options is not None and not sent.stream:
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        raise CallerError("invalid_value", message, param="stream_options")
    texts, tokens, count = _read_prompts(sent.prompt)
    n = sent.n or 1
    if n * count > MAX_CHOICES:
        message = f"{count} prompts with n = {n} are {n * count} choices. The maximum is {MAX_CHOICES}."
        raise CallerError("invalid_value", message, param="prompt" if n == 1 else "n")
    limit = DEFAULT_MAX_TOKENS if sent.max_tokens is None else sent.max_tokens
    return ChatRequest(
        model=sent.model,
        messages=tuple([Message(role="user", content=text) for text in texts]),
        tokens=tokens,
        stream=bool(sent.stream),
        include_usage=sent.stream_options is not None and bool(sent.stream_options.include_usage),
        n=n * count,
        max_output_tokens=limit,
        temperature=sent.temperature,
        top_p=sent.top_p,
        stop=(sent.stop,) if isinstance(sent.stop, str) else tuple(sent.stop or ()),
        seed=sent.seed,
        presence_penalty=sent.presence_penalty,
        frequency_penalty=sent.frequency_penalty,
        logit_bias=sent.logit_bias,
        user=sent.user,
        body={
            **{name: body[name] for name in _CARRIED if name in body and body[name] is not None},
            "max_tokens": limit,
            "messages": [{"role": "user", "content": text} for text in texts],
        },
        api="completions",
        prompts=count,
        native=NativeRequest(
            wire="openai_completions",
            body={**body, "max_tokens": limit},
            untranslated=tuple(
                name
                for name, value in body.items()
                if name not in _CARRIED
                and name != "prompt"
                and value is not False  # 0 is a value: `logprobs` 0 requests those of the tokens themselves
                and value not in _EMPTY
                and not (name == "best_of" and value == n)
            ),
        ),
    )


def _read_prompts(sent: str | list[Any]) -> tuple[list[str], int, int]:
    """The texts, the number of tokens that were sent as numbers, and the number of prompts."""
    if isinstance(sent, str):
        return [sent], 0, 1
    if not sent:
        raise CallerError("invalid_value", "'prompt' must not be an empty list.", param="prompt")
    if all(isinstance(each, str) for each in sent):
        return list(sent), 0, len(sent)
    if _are_tokens(sent):
        return [], len(sent), 1
    if all(isinstance(each, list) and each and _are_tokens(each) for each in sent):
        return [], sum(map(len, sent)), len(sent)
    message = "'prompt' must be a string, a list of strings, a list of tokens, or a list of lists of tokens."
    raise CallerError("invalid_type", message, param="prompt")


def _are_tokens(values: list[Any]) -> bool:
    return all(type(value) is int and 0 <= value <= MAX_TOKEN for value in values)
