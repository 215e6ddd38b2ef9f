"""OpenAI's embeddings API as a frontend: `POST /v1/embeddings`. Its answers are whole bodies; there is no stream."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from streamweir.core.completion import Completion
from streamweir.core.embedding import Encoding
from streamweir.core.errors import StreamweirError
from streamweir.core.events import EmbeddingRead
from streamweir.core.request import ChatRequest
from streamweir.frontends.base import ErrorResponse, Frontend, Reply, StreamEncoder, WholeBody, with_cost
from streamweir.frontends.embeddings.request import read_embeddings_request
from streamweir.frontends.error import write_openai_error
from streamweir.wire import floats, jsonio

_PATH = "/v1/embeddings"


class EmbeddingsFrontend(Frontend):
    name = "embeddings"
    paths = (_PATH, f"/openai{_PATH}")
    always_includes_usage = True
    in_playground = False

    def parse(self, document: dict[str, Any], _: Mapping[str, str], /) -> ChatRequest:
        return read_embeddings_request(document)

    def make_id(self, _entropy: bytes, /) -> str:
        """An answer of this API has none."""
        return ""

    def encoder(self, _reply: Reply, /) -> StreamEncoder:
        raise TypeError("embeddings are not streamed")  # no request of this API can request it

    def write_whole(self, completion: Completion, reply: Reply, /) -> WholeBody:
        usage = completion.usage or reply.count_usage()
        data = [
            {"object": "embedding", "index": each.index, "embedding": _vector(each, reply.encoding)}
            for each in completion.embeddings
        ]
        body = {
            "object": "list",
            "data": data,
            "model": completion.started.model or reply.target_model or reply.model,
            "usage": with_cost(
                {"prompt_tokens": usage.prompt_tokens, "total_tokens": usage.total_tokens}, usage, reply
            ),
        }
        return WholeBody("", jsonio.encode(body))

    def write_error(self, error: StreamweirError, _: str = "", /) -> ErrorResponse:
        return write_openai_error(error)


def _vector(read: EmbeddingRead, encoding: Encoding) -> str | Raw | tuple[float, ...]:
    if encoding == "base64":
        return b64encode(read.packed).decode()
    return Raw(read.numbers) if read.numbers is not None else floats.unpack(read.packed)


EMBEDDINGS = EmbeddingsFrontend()
