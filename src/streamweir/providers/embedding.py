"""Embeddings as a `Provider`: requests for vectors out, their answers in, for every service that has them.

An `EmbeddingService` describes one service: its path, its members, and where the vectors are in its answer. The common
rules are here: how many inputs one call has, and what an answer must have. The vectors must be as many as the
inputs, all of one length, and of the requested length; anything else is `upstream_bad_response`, and no vector is
passed on.

If a service takes fewer inputs than the request has, the request is several calls (`UpstreamRequest.more`), and their
answers arrive as one document: `{"parts": [...]}`, in the order of the inputs. Of a service that counts the tokens of a
call in a header (`EmbeddingService.count_header`) they always do, with these numbers as `counts`.
"""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import NamedTuple, Protocol

import msgspec
from msgspec import Raw, Struct

from streamweir.core.embedding import MAX_DIMENSIONS, Input
from streamweir.core.errors import CallerError, StreamweirError, UpstreamError
from streamweir.core.events import (
    EmbeddingRead,
    Event,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    UsageDiscarded,
    UsageReported,
)
from streamweir.core.request import ChatRequest
from streamweir.core.usage import Usage
from streamweir.providers.base import Decoder, Target, UpstreamRequest
from streamweir.wire import floats
from streamweir.wire.sse import Frame

PREFIX = "embeddings/"
"""Of the names of these providers in `registry`."""
PARALLEL_CALLS = 4
"""At a time, of a service that takes one input per call."""


class InvalidAnswer(Exception):
    """The upstream's answer cannot be used. The text is the reason."""


class ServiceAnswer(NamedTuple):
    """One call's answer."""

    vectors: Sequence[Raw | bytes]
    """In the order of the inputs: JSON arrays of numbers, or JSON strings of base64."""
    model: str | None = None
    tokens: int | None = None
    """Of the prompt. None: not reported."""
    has_invalid_usage: bool = False
    is_int8: bool = False
    """The base64 contains signed bytes, and not 32-bit floats."""


class EmbeddingService(Protocol):
    @property
    def name(self) -> str:
        """The kind of provider, for `registry`."""
        ...

    @property
    def takes_tokens(self) -> bool: ...

    @property
    def count_header(self) -> str | None:
        """The header of an answer with the tokens of the prompt, which are not in every body. None: there is none."""
        ...

    def takes_dimensions(self, model: str, /) -> bool:
        """False: `dimensions` is left out and named."""
        ...

    def inputs_per_call(self, target: Target, /) -> int: ...

    def build_call(self, request: ChatRequest, target: Target, inputs: Sequence[Input], /) -> UpstreamRequest: ...

    def read_answer(self, body: bytes, /) -> ServiceAnswer:
        """Raises `InvalidAnswer`, or the error that the answer reports."""
        ...

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError: ...


class _Parts(Struct):
    parts: list[Raw]
    counts: list[int | None] | None = None


class _Part(NamedTuple):
    """The answer of one call."""

    body: Raw | bytes
    inputs: int | None
    """None: all."""
    tokens: int | None = None
    """As a header says."""


_read_parts = msgspec.json.Decoder(_Parts).decode
_read_numbers = msgspec.json.Decoder(list[float]).decode
_read_text = msgspec.json.Decoder(str).decode


class EmbeddingProvider:
    """See `providers.base.Provider`. One value per service, length of vectors and size of calls."""

    def __init__(self, service: EmbeddingService, dimensions: int | None, per_call: int) -> None:
        self._service = service
        self._dimensions = dimensions
        self._per_call = per_call
        self.name = f"{PREFIX}{service.name}/{dimensions or 0}/{per_call}"

    def refusal_of(self, request: ChatRequest, _model: str, /) -> CallerError | None:
        options = request.embedding
        index = options.first_tokens if options is not None else None
        if index is None or self._service.takes_tokens:
            return None
        is_list = isinstance(request.body.get("input"), list) and isinstance(request.body["input"][0], list)
        path = f"input[{index}]" if is_list else "input"
        return CallerError("invalid_value", "This model takes texts, not tokens.", param=path)

    def build_request(self, request: ChatRequest, target: Target, /) -> UpstreamRequest:
        assert request.embedding is not None  # noqa: S101 (see `ChatRequest.embedding`)
        inputs, per_call = request.embedding.inputs, self._per_call
        calls = [
            self._service.build_call(request, target, inputs[at : at + per_call])
            for at in range(0, len(inputs), per_call)
        ]
        first, more = calls[0], tuple(call.body for call in calls[1:])
        return msgspec.structs.replace(
            first,
            more=more,
            parallel=PARALLEL_CALLS if per_call == 1 else 1,
            count_header=self._service.count_header,
        )

    def decoder(self, _choices: int | None = None, /) -> Decoder:
        return _NoStream()

    def decode_whole(self, body: bytes, choices: int | None = None, /) -> Sequence[Event]:
        """`choices`: the number of inputs."""
        try:
            return self._events(_split(body, self._sizes(choices)), choices)
        except InvalidAnswer as reason:
            return [_bad_response(str(reason))]
        except StreamweirError as error:
            return [StreamFailed(error)]

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        return self._service.read_error(status, headers, body)

    def _sizes(self, choices: int | None) -> list[int] | None:
        """Of the calls, in inputs. None: there is one, and its answer is the body."""
        if choices is None or (choices <= self._per_call and self._service.count_header is None):
            return None
        return [min(self._per_call, choices - at) for at in range(0, choices, self._per_call)]

    def _events(self, parts: Iterator[_Part], choices: int | None) -> list[Event]:
        vectors: list[Event] = []
        tokens: int | None = 0
        is_discarded, model, length = False, None, self._dimensions
        for part in parts:
            answer = self._service.read_answer(bytes(part.body))
            wanted = part.inputs if part.inputs is not None else choices
            if wanted is not None and len(answer.vectors) != wanted:
                raise InvalidAnswer(f"The upstream sent {len(answer.vectors)} of {wanted} vectors.")
            for raw in answer.vectors:
                vector = _read_vector(bytes(raw), len(vectors), is_int8=answer.is_int8)
                found = len(vector.packed) // 4
                length = length or found
                if found != length:
                    raise InvalidAnswer(f"The upstream sent a vector of {found} numbers instead of {length}.")
                vectors.append(vector)
            model = model or answer.model
            is_discarded |= answer.has_invalid_usage
            counted = answer.tokens if answer.tokens is not None else part.tokens
            tokens = None if tokens is None or counted is None else tokens + counted
        if tokens is not None:
            vectors.append(UsageReported(Usage(input_uncached=tokens, openai_style=True)))
        elif is_discarded:
            vectors.append(UsageDiscarded())
        return [StreamStarted(model=model), *vectors, StreamCompleted()]


def provider_for(service: EmbeddingService, request: ChatRequest, target: Target) -> EmbeddingProvider:
    """`target`: with the model of this attempt."""
    dimensions = request.embedding.dimensions if request.embedding is not None else None
    if dimensions is not None and not service.takes_dimensions(target.model):
        dimensions = None
    return EmbeddingProvider(service, dimensions, service.inputs_per_call(target))


class _NoStream:
    """Vectors are not streamed: a stream is an error. See `providers.base.Decoder`."""

    may_end_when_idle = False
    lacks_terminator = False

    def __init__(self) -> None:
        self._is_over = False

    def feed(self, frame: Frame, /) -> Sequence[Event]:
        return self._end(_bad_response("The upstream's answer is not a JSON object.")) if frame.data is not None else ()

    def finish(self) -> Sequence[Event]:
        return self._end(_bad_response("The upstream's answer is not a JSON object."))

    def fail(self, error: StreamweirError, /) -> Sequence[Event]:
        return self._end(StreamFailed(error))

    def _end(self, failure: StreamFailed) -> Sequence[Event]:
        if self._is_over:
            return ()
        self._is_over = True
        return [failure]


def in_order(indexes: Sequence[int | None], values: Sequence[Raw]) -> list[Raw]:
    """The values by their indexes; a value without one has its position in the list. Raises `InvalidAnswer`."""
    ordered: dict[int, Raw] = {}
    for at, (index, value) in enumerate(zip(indexes, values, strict=True)):
        ordered[at if index is None else index] = value
    if len(ordered) != len(values) or not all(0 <= index < len(values) for index in ordered):
        raise InvalidAnswer("The upstream numbered its vectors wrongly.")
    return [ordered[index] for index in range(len(values))]


def _split(body: bytes, sizes: list[int] | None) -> Iterator[_Part]:
    if sizes is None:
        yield _Part(body, None)
        return
    try:
        document = _read_parts(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidAnswer("The upstream's answer cannot be read.") from None
    parts, counts = document.parts, document.counts
    if counts is None:
        counts = [None] * len(sizes)
    if not len(parts) == len(counts) == len(sizes):
        raise InvalidAnswer("The upstream's answer cannot be read.")
    yield from map(_Part, parts, sizes, counts)


def _read_vector(raw: bytes, index: int, *, is_int8: bool) -> EmbeddingRead:
    if raw[:1] == b'"':
        return EmbeddingRead(index, _unpack(raw, is_int8=is_int8))
    try:
        numbers = _read_numbers(raw)
        _check(len(numbers))
        packed = floats.pack(numbers)
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError):
        raise InvalidAnswer("The upstream sent a vector that cannot be read.") from None
    return EmbeddingRead(index, packed, raw)


def _unpack(raw: bytes, *, is_int8: bool) -> bytes:
    try:
        data = b64decode(_read_text(raw), validate=True)
    except (msgspec.DecodeError, UnicodeDecodeError, Base64Error, ValueError):
        raise InvalidAnswer("The upstream sent a vector that cannot be read.") from None
    if is_int8:
        _check(len(data))
        return floats.pack([float(number) for number in memoryview(data).cast("b")])
    _check(len(data) // 4)
    if len(data) % 4 or not isfinite(sum(floats.unpack(data))):
        raise InvalidAnswer("The upstream sent a vector that cannot be read.")
    return data


def _check(length: int) -> None:
    if not 0 < length <= MAX_DIMENSIONS:
        raise InvalidAnswer(f"The upstream sent a vector of {length} numbers.")


def _bad_response(message: str) -> StreamFailed:
    return StreamFailed(UpstreamError("upstream_bad_response", message))
