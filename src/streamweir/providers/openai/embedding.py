"""Embeddings on OpenAI's wire: `POST /embeddings`, as a vendor's row describes it.

The caller's body is sent, with the changes of the row. Base64 is requested if the caller requests it; numbers are
accepted as an answer to that too.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from streamweir.core.embedding import Input
from streamweir.core.errors import StreamweirError
from streamweir.core.request import ChatRequest
from streamweir.core.usage import has_invalid_count, member_count
from streamweir.providers import failure
from streamweir.providers.advice import ErrorReader
from streamweir.providers.base import Target, UpstreamRequest, json_headers
from streamweir.providers.embedding import InvalidAnswer, ServiceAnswer, in_order
from streamweir.providers.openai.vendor import EmbeddingRow
from streamweir.wire import jsonio

_OWN = ("input_type", "task_type")
"""Members that OpenAI's API does not have: only for vendors whose rows name them."""

PathAndKey = Callable[[Target, str], tuple[str, tuple[tuple[str, str], ...]]]
"""The path and the key's header of a call, for a target and the path of the row."""


class _Item(Struct):
    embedding: Raw
    index: int | None = None


class _Answer(Struct):
    data: list[_Item] | None = None
    model: str | None = None
    usage: Any = None
    error: Any = None


_read = msgspec.json.Decoder(_Answer).decode


def bearer(target: Target, path: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return path, (("authorization", f"Bearer {target.api_key}"),) if target.api_key else ()


class OpenAIEmbeddings:
    """See `providers.embedding.EmbeddingService`."""

    takes_tokens = True
    count_header = None

    def __init__(
        self,
        name: str,
        row: EmbeddingRow,
        path_and_key: PathAndKey = bearer,
        error_reader: ErrorReader | None = None,
    ) -> None:
        self.name = name
        self._row = row
        self._path_and_key = path_and_key
        self._error_reader = error_reader

    def takes_dimensions(self, model: str, /) -> bool:
        only = self._row.dimensions_only
        return bool(self._row.dimensions) and (not only or re.search(only, model) is not None)

    def inputs_per_call(self, _target: Target, /) -> int:
        return self._row.max_inputs

    def build_call(self, request: ChatRequest, target: Target, inputs: Sequence[Input], /) -> UpstreamRequest:
        row, options = self._row, request.embedding
        assert options is not None  # noqa: S101 (see `ChatRequest.embedding`)
        body = {name: value for name, value in request.body.items() if value is not None}
        dropped = [name for name in body if name in row.refuses or (name in _OWN and name != row.input_type)]
        for name in dropped:
            del body[name]
        body["model"] = target.model
        is_single = not isinstance(request.body["input"], list) or isinstance(request.body["input"][0], int)
        body["input"] = inputs[0] if is_single else list(inputs)
        if options.encoding == "float" or not row.takes_base64:
            body.pop("encoding_format", None)  # the default of all of them, and the only format of some
        if options.dimensions is not None:
            del body["dimensions"]
            if self.takes_dimensions(target.model):
                body[row.dimensions] = options.dimensions
            else:
                dropped.append("dimensions")
        if row.input_type and row.input_type not in body and row.default_input_type:
            body[row.input_type] = row.default_input_type
        path, key = self._path_and_key(target, row.path)
        return UpstreamRequest(
            path=path, headers=(*key, *json_headers(request)), body=jsonio.encode(body), dropped=tuple(dropped)
        )

    def read_answer(self, body: bytes, /) -> ServiceAnswer:
        try:
            answer = _read(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise InvalidAnswer("The upstream's answer cannot be read.") from None
        if answer.error:
            raise failure.classify(failure.ErrorDetails({"error": answer.error}))
        if answer.data is None:
            raise InvalidAnswer("The upstream's answer has no vectors.")
        usage = answer.usage if isinstance(answer.usage, Mapping) else {}
        tokens = member_count(usage, "prompt_tokens")
        return ServiceAnswer(
            vectors=in_order([item.index for item in answer.data], [item.embedding for item in answer.data]),
            model=answer.model,
            tokens=tokens if tokens is not None else member_count(usage, "total_tokens"),
            has_invalid_usage=has_invalid_count(usage, "prompt_tokens", "total_tokens"),
            is_int8=self._row.sends_int8,
        )

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        if self._error_reader is None:
            return failure.read_error(status, headers, body)
        return self._error_reader(status, headers, body, failure.read_error)
