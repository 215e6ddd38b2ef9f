"""The script `embed`: vectors that are made from a fixed hash of the input, with length 1.

The same input always has the same vector, on every machine; other inputs have others, which are nearly orthogonal.
They have no meaning: a text that is similar does not have a vector that is near.
"""

import struct
from base64 import b64encode
from collections.abc import Iterator
from hashlib import shake_256
from math import sqrt
from typing import Any

from streamweir.core.embedding import EmbeddingOptions, Input
from streamweir.core.errors import CallerError
from streamweir.frontends.embeddings.request import read_embeddings_request
from streamweir.upstream.script.deltas import count_tokens
from streamweir.upstream.script.parameter import read_options, refused, shown
from streamweir.upstream.script.step import END, Action, Head, Step, timed
from streamweir.wire import floats, jsonio

NAME = "embed"
DIMENSIONS = 256
"""If the request does not say how many."""
MAX_DIMENSIONS = 4096
_MIDDLE = 2**31


def play_embeddings(members: dict[str, Any]) -> Iterator[Step]:
    """The steps of the answer. Raises `CallerError`."""
    model = members.get("model")
    name, _, query = model.partition("?") if isinstance(model, str) else ("", "", "")
    if name != NAME:
        raise refused(f"The simulator's script {shown(name)} makes no vectors. Only {NAME} does.")
    options = read_options(query, name, (), {})
    wanted = read_embeddings_request({**members, "model": name}).embedding
    if wanted is None or (wanted.dimensions or 0) > MAX_DIMENSIONS:
        raise CallerError("invalid_value", f"dimensions must be at most {MAX_DIMENSIONS}.", param="dimensions")
    # The texts are counted here, which may be a thread: see `upstream.sim`.
    tokens = sum(count_tokens(each) if isinstance(each, str) else len(each) for each in wanted.inputs)
    return timed(
        _answer(wanted, None if options.usage == "none" else tokens), options.first_ms / 1000, options.pace_ms / 1000
    )


def _answer(wanted: EmbeddingOptions, tokens: int | None) -> Iterator[Action]:
    """One vector per step: many of them would take too long for one turn of the event loop."""
    usage = {} if tokens is None else {"usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
    yield Head(200, {"content-type": "application/json"})
    yield b'{"object":"list","data":['
    for index, each in enumerate(wanted.inputs):
        vector = _written(vector_of(each, wanted.dimensions), wanted)
        item = jsonio.encode({"object": "embedding", "index": index, "embedding": vector})
        yield item if index == 0 else b"," + item
    yield b"]," + jsonio.encode({"model": NAME, **usage})[1:]
    yield END


def vector_of(text: Input, dimensions: int | None = None) -> tuple[float, ...]:
    """As 32-bit floats."""
    count = dimensions or DIMENSIONS
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else struct.pack(f"<{len(text)}Q", *text)
    numbers = [number - _MIDDLE for number in struct.unpack(f"<{count}I", shake_256(data).digest(4 * count))]
    length = sqrt(sum(number * number for number in numbers)) or 1.0
    return floats.unpack(floats.pack([number / length for number in numbers]))


def _written(vector: tuple[float, ...], wanted: EmbeddingOptions) -> str | tuple[float, ...]:
    if wanted.encoding == "float":
        return vector
    return b64encode(floats.pack(vector)).decode()
