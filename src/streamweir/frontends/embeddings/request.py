"""The body of `POST /v1/embeddings` to a `ChatRequest` without messages.

Unknown members stay in `body`, for providers with the same protocol. Limits are OpenAI's: at most 2048 inputs, none of
them empty.
"""

from typing import Annotated, Any, Literal, cast

from msgspec import Meta, Struct

from streamweir.core.embedding import MAX_DIMENSIONS, MAX_INPUTS, MAX_TOKEN, EmbeddingOptions, Input
from streamweir.core.errors import CallerError
from streamweir.core.request import REFUSED_MEMBERS, ChatRequest, refused_member
from streamweir.core.validation import convert, missing_parameter

_Word = Annotated[str, Meta(min_length=1, max_length=64)]


class _Body(Struct, kw_only=True):
    model: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    input: str | list[Any] | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Meta(ge=1, le=MAX_DIMENSIONS)] | None = None
    user: str | None = None
    input_type: _Word | None = None
    task_type: _Word | None = None
    stream: bool | None = None


def read_embeddings_request(body: dict[str, Any]) -> ChatRequest:
    """Raises `CallerError` with the path of the first invalid member."""
    if not REFUSED_MEMBERS.isdisjoint(body):
        raise refused_member(body)
    sent = convert(body, _Body, "")
    if sent.model is None:
        raise missing_parameter("model")
    if sent.input is None:
        raise missing_parameter("input")
    if sent.stream:
        raise CallerError("invalid_value", "Embeddings cannot be streamed. Leave 'stream' out.", param="stream")
    inputs = _read_inputs(sent.input)
    return ChatRequest(
        model=sent.model,
        messages=(),
        texts=tuple(each for each in inputs if isinstance(each, str)),
        tokens=sum(len(each) for each in inputs if not isinstance(each, str)),
        stream=False,
        include_usage=True,
        n=len(inputs),
        max_output_tokens=0,
        user=sent.user,
        body={name: value for name, value in body.items() if name != "stream"},
        api="embeddings",
        embedding=EmbeddingOptions(
            inputs=inputs,
            encoding=sent.encoding_format or "float",
            dimensions=sent.dimensions,
            input_type=sent.input_type,
            task_type=sent.task_type,
        ),
    )


def _read_inputs(sent: str | list[Any]) -> tuple[Input, ...]:
    if isinstance(sent, str):
        return (_text(sent, "input"),)
    if not sent:
        raise CallerError("invalid_value", "'input' must not be empty.", param="input")
    if type(sent[0]) is int:
        return (_tokens(sent, "input"),)
    if len(sent) > MAX_INPUTS:
        message = f"'input' has {len(sent)} entries. The maximum is {MAX_INPUTS}."
        raise CallerError("invalid_value", message, param="input")
    if isinstance(sent[0], list):
        return tuple([_tokens(each, f"input[{i}]") for i, each in enumerate(sent)])
    return tuple([_text(each, f"input[{i}]") for i, each in enumerate(sent)])


def _text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise _wrong_type(path, "a string")
    if not value:
        raise CallerError("invalid_value", f"'{path}' must not be an empty string.", param=path)
    return value


def _tokens(value: object, path: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise _wrong_type(path, "a list of tokens")
    if not value:
        raise CallerError("invalid_value", f"'{path}' must not be empty.", param=path)
    for i, token in enumerate(value):
        if type(token) is not int or not 0 <= token <= MAX_TOKEN:
            raise _wrong_type(f"{path}[{i}]", "a token, which is a whole number")
    return tuple(cast("list[int]", value))


def _wrong_type(path: str, wanted: str) -> CallerError:
    return CallerError("invalid_type", f"Invalid type for '{path}': expected {wanted}.", param=path)
