"""Parses a recorded answer of the embeddings API: its entries and their vectors. Never raises."""

import math
from base64 import b64decode
from dataclasses import dataclass, field
from typing import Any

from streamweir.conformance.parsed_answer import ParsedAnswer, parse_answer
from streamweir.conformance.recording import Kind, Recording
from streamweir.wire import floats

Vector = tuple[float, ...]


@dataclass
class EmbeddingsAnswer:
    parsed: ParsedAnswer
    entries: list[dict[str, Any]] = field(default_factory=list)
    """Of `data`, those that are objects."""

    @property
    def recording(self) -> Recording:
        return self.parsed.recording

    @property
    def kind(self) -> Kind:
        return self.parsed.kind

    @property
    def document(self) -> dict[str, Any]:
        value = self.parsed.body.value
        return value if isinstance(value, dict) else {}

    @property
    def vectors(self) -> list[Vector | None]:
        """In the order of the entries. None: it cannot be read."""
        return [vector_of(entry.get("embedding")) for entry in self.entries]


def parse_embeddings_answer(recording: Recording) -> EmbeddingsAnswer:
    answer = EmbeddingsAnswer(parse_answer(recording))
    data = answer.document.get("data")
    answer.entries = [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
    return answer


def vector_of(value: object) -> Vector | None:
    """Numbers, or 32-bit floats in base64. None if it is neither, or has no number, or one that is not finite."""
    numbers = _packed(value) if isinstance(value, str) else value
    if not isinstance(numbers, list) or not numbers:
        return None
    if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in numbers):
        return None
    try:
        found = tuple(map(float, numbers))
    except OverflowError:
        return None
    return found if all(map(math.isfinite, found)) else None


def _packed(text: str) -> list[float]:
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        return []
    return list(floats.unpack(data)) if len(data) % 4 == 0 else []


def similarity(one: Vector, other: Vector) -> float:
    """1 for vectors of the same direction, 0 for orthogonal ones and for vectors of different lengths."""
    lengths = math.hypot(*one) * math.hypot(*other)
    return sum(map(float.__mul__, one, other)) / lengths if lengths and len(one) == len(other) else 0.0


def speaks_embeddings(recording: Recording) -> bool:
    """The answer has the form of this API: used if no dialect is named."""
    answer = parse_embeddings_answer(recording)
    return answer.document.get("object") == "list" and any(each.get("object") == "embedding" for each in answer.entries)
