"""A request for embeddings: the inputs, and how their vectors are wanted. And a vector, as it was read.

A vector has two forms: packed (32-bit floats, little-endian, as base64 carries them), and, if the provider sent
numbers, their JSON text. A caller that requests numbers gets that text, so no digit changes.
"""

from typing import Literal

from msgspec import Struct

MAX_INPUTS = 2048
"""Of one request, as OpenAI has it."""
MAX_DIMENSIONS = 65_536
"""Of a vector. No model has a tenth of that."""

MAX_TOKEN = 2**31 - 1
"""The largest number of a token. No vocabulary has a thousandth of that."""

Encoding = Literal["float", "base64"]
Input = str | tuple[int, ...]
"""A text, or the numbers of its tokens."""


class EmbeddingOptions(Struct, frozen=True, kw_only=True):
    inputs: tuple[Input, ...]
    encoding: Encoding = "float"
    dimensions: int | None = None
    """The length of the vectors. None: the model's own."""
    input_type: str | None = None
    """What the text is for, as a value of Cohere (`search_query`) or of the provider."""
    task_type: str | None = None
    """The same as a value of Google (`RETRIEVAL_QUERY`)."""

    @property
    def first_tokens(self) -> int | None:
        """The index of the first input that is a list of tokens. None: all are texts."""
        return next((i for i, each in enumerate(self.inputs) if not isinstance(each, str)), None)
