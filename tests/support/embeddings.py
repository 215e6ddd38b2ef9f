"""Requests for embeddings, and the answers that providers give to them."""

import base64
import json
import struct
from collections.abc import Sequence
from typing import Any

from support.gateway import KEY, Gate
from support.raw_client import Reply

PATH = "/v1/embeddings"
VECTORS = ([0.5, -0.25, 0.125], [1.0, 0.0, -1.0])


async def embed(gate: Gate, model: str = "up/m", *, key: str = KEY, **members: Any) -> Reply:
    body = json.dumps({"model": model, "input": ["a", "b"], **members}).encode()
    return await gate.ask(path=PATH, key=key, body=body)


def openai_vectors(
    vectors: Sequence[Any] = VECTORS, tokens: int | None = 6, *, indexes: Sequence[int] | None = None
) -> bytes:
    data = [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in zip(indexes or range(len(vectors)), vectors, strict=True)
    ]
    usage = {} if tokens is None else {"usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
    return json.dumps({"object": "list", "data": data, "model": "text-embedding-3-small", **usage}).encode()


def packed(vector: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def vectors_of(reply: Reply) -> list[list[float]]:
    """Of an answer that is complete: numbers, whichever way they are written."""
    assert reply.status == 200, reply.body
    document = json.loads(reply.body)
    assert list(document) == ["object", "data", "model", "usage"]
    assert document["object"] == "list"
    assert list(document["usage"]) == ["prompt_tokens", "total_tokens"]
    vectors = []
    for index, item in enumerate(document["data"]):
        assert list(item) == ["object", "index", "embedding"]
        assert (item["object"], item["index"]) == ("embedding", index)
        vector = item["embedding"]
        if isinstance(vector, str):
            data = base64.b64decode(vector)
            vector = list(struct.unpack(f"<{len(data) // 4}f", data))
        vectors.append(vector)
    return vectors
