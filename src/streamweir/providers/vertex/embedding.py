"""Embeddings on Vertex AI: Google's models as in `providers.gemini.embedding`, multimodal ones, and open models.

`multimodalembedding` takes one text per call, and has members of its own. Open models (`publisher/model`) are asked on
OpenAI's wire, as for chat. The answers of all three differ in their members.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from streamweir.core.embedding import Input
from streamweir.core.errors import StreamweirError
from streamweir.core.request import ChatRequest
from streamweir.core.router_members import OTHER_MODEL_MEMBERS
from streamweir.providers.base import Target, UpstreamRequest, json_headers
from streamweir.providers.embedding import ServiceAnswer
from streamweir.providers.gemini.embedding import GeminiEmbeddings
from streamweir.providers.openai.embedding import OpenAIEmbeddings
from streamweir.providers.openai.vendor import EmbeddingRow
from streamweir.providers.vertex.address import folder_of, key_header, model_path
from streamweir.providers.vertex.error import read_error
from streamweir.wire import jsonio

OPEN_MODEL = r"^(?!publishers/|models/)[^/]+/"
_MULTIMODAL = re.compile(r"(publishers/google/)?(models/)?multimodalembedding")
_KNOWN = frozenset({"model", "input", "encoding_format", "dimensions"})


class _Prediction(Struct):
    text_embedding: Raw = field(name="textEmbedding")


class _Answer(Struct):
    predictions: list[_Prediction]


class _OpenAnswer(Struct):
    data: Raw


_read_multimodal = msgspec.json.Decoder(_Answer).decode
_read_open = msgspec.json.Decoder(_OpenAnswer).decode


def _path_and_key(target: Target, path: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return f"{folder_of(target)}{path}", key_header(target)


_OPEN = OpenAIEmbeddings(
    "vertex",
    EmbeddingRow(path="/endpoints/openapi/embeddings", takes_base64=False, refuses=OTHER_MODEL_MEMBERS | {"user"}),
    _path_and_key,
)


class VertexEmbeddings(GeminiEmbeddings):
    """See `providers.embedding.EmbeddingService`."""

    name = "vertex"

    def inputs_per_call(self, target: Target, /) -> int:
        if _MULTIMODAL.match(target.model):
            return 1
        return _OPEN.inputs_per_call(target) if _is_open(target.model) else super().inputs_per_call(target)

    def build_call(self, request: ChatRequest, target: Target, inputs: Sequence[Input], /) -> UpstreamRequest:
        if _is_open(target.model):
            return _OPEN.build_call(request, target, inputs)
        if not _MULTIMODAL.match(target.model):
            return super().build_call(request, target, inputs)
        options = request.embedding
        assert options is not None  # noqa: S101 (see `ChatRequest.embedding`)
        body: dict[str, Any] = {"instances": [{"text": text} for text in inputs]}
        if options.dimensions is not None:
            body["parameters"] = {"dimension": options.dimensions}
        return UpstreamRequest(
            path=f"{model_path(target, 'google', target.model)}:predict",
            headers=(*key_header(target), *json_headers(request)),
            body=jsonio.encode(body),
            dropped=tuple(name for name, value in request.body.items() if name not in _KNOWN and value is not None),
        )

    def read_answer(self, body: bytes, /) -> ServiceAnswer:
        # Each form is recognised by a member that the others do not have; what is none of them is read as Google's.
        try:
            return ServiceAnswer([each.text_embedding for each in _read_multimodal(body).predictions])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        try:
            _read_open(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return super().read_answer(body)
        return _OPEN.read_answer(body)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        return read_error(status, headers, body)


def _is_open(model: str) -> bool:
    return re.match(OPEN_MODEL, model) is not None


EMBEDDINGS = VertexEmbeddings()
