"""The embeddings API as a form that answers are checked against. It has no dialects, and all its values are fixed."""

from msgspec import Struct


class EmbeddingsApi(Struct, frozen=True):
    name: str = "embeddings"


EMBEDDINGS_API = EmbeddingsApi()
