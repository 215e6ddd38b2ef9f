"""Embeddings at Amazon Bedrock: InvokeModel, with a body of each vendor's own.

Titan and Nova take one text per call, Cohere 96. The reader accepts the answers of all of them. The number of tokens is
in the body of some answers, and in a header of all of them.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from streamweir.core.embedding import EmbeddingOptions, Input
from streamweir.core.errors import StreamweirError
from streamweir.core.request import ChatRequest
from streamweir.core.usage import token_count
from streamweir.providers.base import Target, UpstreamRequest, json_headers
from streamweir.providers.bedrock.error import read_error
from streamweir.providers.bedrock.inference_id import model_path
from streamweir.providers.embedding import InvalidAnswer, ServiceAnswer
from streamweir.wire import jsonio

_PER_COHERE_CALL = 96
_COUNT_HEADER = "x-amzn-bedrock-input-token-count"
_COHERE = re.compile(r"(?:^|[./])cohere\.embed-")
_COHERE_WITH_LENGTH = re.compile(r"embed-v(?!3)\d")
_NOVA = re.compile(r"(?:^|[./])amazon\.nova-")
_TITAN_IMAGE = re.compile(r"titan-embed-image-")
_TITAN_TEXT_1 = re.compile(r"titan-embed-(text-v1|g1-)")

_KINDS = {
    # By the values of `input_type` of other services: Cohere's, Nova's.
    "search_query": ("search_query", "TEXT_RETRIEVAL"),
    "query": ("search_query", "TEXT_RETRIEVAL"),
    "search_document": ("search_document", "GENERIC_INDEX"),
    "document": ("search_document", "GENERIC_INDEX"),
    "passage": ("search_document", "GENERIC_INDEX"),
    "classification": ("classification", "CLASSIFICATION"),
    "clustering": ("clustering", "CLUSTERING"),
}
_DEFAULT_KIND = "search_document"
"""Both require one."""
_KNOWN = frozenset({"model", "input", "encoding_format", "dimensions"})


class _Item(Struct):
    embedding: Raw


class _ByType(Struct):
    float: list[Raw]


class _Answer(Struct):
    embedding: Raw = Raw()
    embeddings: Raw = Raw()
    text_tokens: Any = field(default=None, name="inputTextTokenCount")
    tokens: Any = field(default=None, name="inputTokenCount")


_read = msgspec.json.Decoder(_Answer).decode
_read_item = msgspec.json.Decoder(_Item).decode
_read_by_type = msgspec.json.Decoder(_ByType).decode
_read_list = msgspec.json.Decoder(list[Raw]).decode


class BedrockEmbeddings:
    """See `providers.embedding.EmbeddingService`."""

    name = "bedrock"
    takes_tokens = False
    count_header = _COUNT_HEADER

    def takes_dimensions(self, model: str, /) -> bool:
        if _COHERE.search(model):
            return _COHERE_WITH_LENGTH.search(model) is not None
        return not _TITAN_TEXT_1.search(model)

    def inputs_per_call(self, target: Target, /) -> int:
        return _PER_COHERE_CALL if _COHERE.search(target.model) else 1

    def build_call(self, request: ChatRequest, target: Target, inputs: Sequence[Input], /) -> UpstreamRequest:
        options, model = request.embedding, target.model
        assert options is not None  # noqa: S101 (see `ChatRequest.embedding`)
        if not self.takes_dimensions(model):
            options = msgspec.structs.replace(options, dimensions=None)
        if _COHERE.search(model):
            body, taken = _cohere(inputs, options, request.body)
        elif _NOVA.search(model):
            body, taken = _nova(inputs[0], options)
        else:
            body, taken = _titan(inputs[0], options, model, request.body)
        known = _KNOWN if self.takes_dimensions(model) else _KNOWN - {"dimensions"}
        dropped = [name for name, value in request.body.items() if name not in known | taken and value is not None]
        key = (("authorization", f"Bearer {target.api_key}"),) if target.api_key else ()
        return UpstreamRequest(
            path=model_path(model, "invoke"),
            headers=(*key, *json_headers(request)),
            body=jsonio.encode({name: value for name, value in body.items() if value is not None}),
            dropped=tuple(dropped),
        )

    def read_answer(self, body: bytes, /) -> ServiceAnswer:
        try:
            answer = _read(body)
            vectors = _vectors_in(answer)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise InvalidAnswer("The upstream's answer cannot be read.") from None
        if not vectors:
            raise InvalidAnswer("The upstream's answer has no vectors.")
        tokens = token_count(answer.text_tokens)
        return ServiceAnswer(vectors, tokens=tokens if tokens is not None else token_count(answer.tokens))

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        return read_error(status, headers, body)


def _cohere(
    inputs: Sequence[Input], options: EmbeddingOptions, sent: Mapping[str, Any]
) -> tuple[dict[str, Any], set[str]]:
    kind = _KINDS.get((options.input_type or _DEFAULT_KIND).lower())
    body = {
        "texts": list(inputs),
        "input_type": (kind or _KINDS[_DEFAULT_KIND])[0],
        "truncate": sent.get("truncate"),
        "output_dimension": options.dimensions,
    }
    return body, {"truncate"} | ({"input_type"} if kind is not None else set())


def _nova(text: Input, options: EmbeddingOptions) -> tuple[dict[str, Any], set[str]]:
    """`task_type` is one of Nova's own words."""
    kind = _KINDS.get((options.input_type or _DEFAULT_KIND).lower())
    parameters: dict[str, Any] = {
        "embeddingPurpose": options.task_type or (kind or _KINDS[_DEFAULT_KIND])[1],
        "text": {"truncationMode": "NONE", "value": text},
    }
    if options.dimensions is not None:
        parameters["embeddingDimension"] = options.dimensions
    body = {"taskType": "SINGLE_EMBEDDING", "singleEmbeddingParams": parameters}
    is_said = kind is not None or options.task_type is not None
    return body, {"task_type"} | ({"input_type"} if is_said else set())


def _titan(
    text: Input, options: EmbeddingOptions, model: str, sent: Mapping[str, Any]
) -> tuple[dict[str, Any], set[str]]:
    if _TITAN_IMAGE.search(model):
        length = options.dimensions
        return {"inputText": text, "embeddingConfig": {"outputEmbeddingLength": length} if length else None}, set()
    if _TITAN_TEXT_1.search(model):
        return {"inputText": text}, set()
    return {"inputText": text, "dimensions": options.dimensions, "normalize": sent.get("normalize")}, {"normalize"}


def _vectors_in(answer: _Answer) -> list[Raw]:
    one, several = bytes(answer.embedding), bytes(answer.embeddings)
    if one:
        return [answer.embedding]
    if several[:1] == b"{":
        return _read_by_type(several).float
    found = _read_list(several) if several else []
    return [_read_item(each).embedding if bytes(each)[:1] == b"{" else each for each in found]


EMBEDDINGS = BedrockEmbeddings()
