"""Embeddings of Google's models, from AI Studio and from Vertex.

AI Studio has `embedContent` for one input and `batchEmbedContents` for several. Vertex has `predict` for its older
models, and `embedContent`, with one input, for those since gemini-embedding-2. The answers differ in where the
vectors are; the reader accepts all of these forms. AI Studio reports no usage for most models.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct, field

from streamweir.core.embedding import EmbeddingOptions, Input
from streamweir.core.errors import StreamweirError
from streamweir.core.request import ChatRequest
from streamweir.core.usage import token_count
from streamweir.providers.base import Target, UpstreamRequest, json_headers
from streamweir.providers.embedding import InvalidAnswer, ServiceAnswer
from streamweir.providers.gemini.error import classify, read_error
from streamweir.wire import jsonio

_PER_BATCH, _PER_PREDICT = 100, 250
_TAKES_ONE = re.compile(r"gemini-embedding-")
"""On Vertex: one input per call, also by the older method. The newer one takes no more from any model."""
_IS_PREDICTED = re.compile(r"(gemini-embedding-001|text-|textembedding)")
"""On Vertex: models of the older method."""
_TASKS = {
    # By the values of `input_type` of Cohere and others.
    "search_query": "RETRIEVAL_QUERY",
    "query": "RETRIEVAL_QUERY",
    "search_document": "RETRIEVAL_DOCUMENT",
    "document": "RETRIEVAL_DOCUMENT",
    "passage": "RETRIEVAL_DOCUMENT",
    "classification": "CLASSIFICATION",
    "clustering": "CLUSTERING",
}
_KNOWN = frozenset({"model", "input", "encoding_format", "dimensions", "input_type", "task_type"})


class _Values(Struct):
    values: Raw


class _Statistics(Struct):
    token_count: Any = None


class _Predicted(Struct):
    values: Raw
    statistics: _Statistics | None = None


class _Prediction(Struct):
    embeddings: _Predicted


class _UsageMetadata(Struct):
    prompt_token_count: Any = field(default=None, name="promptTokenCount")


class _Answer(Struct):
    embedding: _Values | None = None
    embeddings: list[_Values] | None = None
    predictions: list[_Prediction] | None = None
    usage: _UsageMetadata | None = field(default=None, name="usageMetadata")
    error: Any = None


_read = msgspec.json.Decoder(_Answer).decode


class GeminiEmbeddings:
    """See `providers.embedding.EmbeddingService`."""

    name = "gemini"
    takes_tokens = False
    count_header = None

    def takes_dimensions(self, _model: str, /) -> bool:
        return True

    def inputs_per_call(self, target: Target, /) -> int:
        if target.project is None:
            return _PER_BATCH
        name = _name_of(target)
        return _PER_PREDICT if _IS_PREDICTED.match(name) and not _TAKES_ONE.match(name) else 1

    def build_call(self, request: ChatRequest, target: Target, inputs: Sequence[Input], /) -> UpstreamRequest:
        options = request.embedding
        assert options is not None  # noqa: S101 (see `ChatRequest.embedding`)
        dropped = [name for name, value in request.body.items() if name not in _KNOWN and value is not None]
        task = options.task_type
        if task is None and options.input_type is not None:
            task = _TASKS.get(options.input_type.lower())
            dropped += ["input_type"] if task is None else []
        name = _name_of(target)
        is_vertex = target.project is not None
        if is_vertex and _IS_PREDICTED.match(name):
            method, body = "predict", _predict(inputs, options, task)
        elif is_vertex:
            method, body = "embedContent", _embed(inputs[0], options, task)
        elif len(options.inputs) == 1:
            method, body = "embedContent", {"model": f"models/{name}", **_content(inputs[0], options, task)}
        else:
            requests = [{"model": f"models/{name}", **_content(each, options, task)} for each in inputs]
            method, body = "batchEmbedContents", {"requests": requests}
        key = ("authorization", f"Bearer {target.api_key}") if is_vertex else ("x-goog-api-key", target.api_key)
        return UpstreamRequest(
            path=f"{_folder(target)}/models/{quote(name, safe='')}:{method}",
            headers=(*((key,) if target.api_key else ()), *json_headers(request)),
            body=jsonio.encode(body),
            dropped=tuple(dropped),
        )

    def read_answer(self, body: bytes, /) -> ServiceAnswer:
        try:
            answer = _read(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise InvalidAnswer("The upstream's answer cannot be read.") from None
        if answer.error:
            raise classify({"error": answer.error})
        if answer.predictions is not None:
            predicted = [each.embeddings for each in answer.predictions]
            counts = [token_count(each.statistics and each.statistics.token_count) for each in predicted]
            known = [count for count in counts if count is not None]
            return ServiceAnswer(
                [each.values for each in predicted], tokens=sum(known) if len(known) == len(counts) else None
            )
        found = answer.embeddings if answer.embeddings is not None else [answer.embedding]
        vectors = [each.values for each in found if each is not None]
        if not vectors:
            raise InvalidAnswer("The upstream's answer has no vectors.")
        tokens = token_count(answer.usage.prompt_token_count) if answer.usage is not None else None
        return ServiceAnswer(vectors, tokens=tokens)

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        return read_error(status, headers, body)


def _content(text: Input, options: EmbeddingOptions, task: str | None) -> dict[str, Any]:
    members = {
        "content": {"parts": [{"text": text}]},
        "outputDimensionality": options.dimensions,
        "taskType": task,
    }
    return {name: value for name, value in members.items() if value is not None}


def _embed(text: Input, options: EmbeddingOptions, task: str | None) -> dict[str, Any]:
    content = _content(text, options, task)
    parts = content.pop("content")
    return {"content": parts, **({"embedContentConfig": content} if content else {})}


def _predict(inputs: Sequence[Input], options: EmbeddingOptions, task: str | None) -> dict[str, Any]:
    named = {"task_type": task} if task is not None else {}
    body: dict[str, Any] = {"instances": [{"content": text, **named} for text in inputs]}
    if options.dimensions is not None:
        body["parameters"] = {"outputDimensionality": options.dimensions}
    return body


def _name_of(target: Target) -> str:
    return target.model.removeprefix("publishers/google/").removeprefix("models/")


def _folder(target: Target) -> str:
    if target.project is None:
        return ""
    project, location = quote(target.project, safe=""), quote(target.location or "global", safe="")
    return f"/projects/{project}/locations/{location}/publishers/google"


EMBEDDINGS = GeminiEmbeddings()
