"""Gemini on Vertex AI: the protocol of `providers.gemini`, with Vertex's errors."""

from collections.abc import Mapping

from streamweir.core.errors import StreamweirError
from streamweir.providers.gemini import Gemini
from streamweir.providers.vertex.embedding import EMBEDDINGS as EMBEDDINGS
from streamweir.providers.vertex.error import read_error


class VertexGemini(Gemini):
    def read_error(self, status: int, headers: Mapping[str, str], body: bytes, /) -> StreamweirError:
        return read_error(status, headers, body)


PROVIDER = VertexGemini()
