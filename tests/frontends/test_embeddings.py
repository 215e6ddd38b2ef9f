"""The embeddings API: what a request may be, and how its answer is written."""

import json
from typing import Any

import pytest

from streamweir.core.completion import Accumulator
from streamweir.core.errors import CallerError
from streamweir.core.events import EmbeddingRead, StreamCompleted, StreamStarted, UsageReported
from streamweir.core.usage import Usage
from streamweir.frontends.base import Reply
from streamweir.frontends.embeddings.frontend import EMBEDDINGS
from streamweir.frontends.embeddings.request import read_embeddings_request
from streamweir.wire import floats
from support.embeddings import packed


def test_a_request() -> None:
    request = read_embeddings_request(
        {
            "model": "m",
            "input": ["one", "two"],
            "dimensions": 8,
            "encoding_format": "base64",
            "user": "u",
            "stream": False,
        }
    )
    options = request.embedding
    assert options is not None
    assert (options.inputs, options.dimensions, options.encoding) == (("one", "two"), 8, "base64")
    assert (request.api, request.n, request.max_output_tokens, request.stream) == ("embeddings", 2, 0, False)
    assert (request.prompt.texts, request.prompt.tokens, request.messages) == (("one", "two"), 0, ())
    assert "stream" not in request.body


@pytest.mark.parametrize(("sent", "count", "tokens"), [([1, 2, 3], 1, 3), ([[1], [2, 3]], 2, 3), ([0], 1, 1)])
def test_tokens(sent: Any, count: int, tokens: int) -> None:
    request = read_embeddings_request({"model": "m", "input": sent})
    assert (request.n, request.tokens, request.texts) == (count, tokens, ())


@pytest.mark.parametrize(
    ("members", "code", "param"),
    [
        ({"model": None}, "missing_required_parameter", "model"),
        ({"model": ""}, "invalid_value", "model"),
        ({"model": 3}, "invalid_type", "model"),
        ({"input": None}, "missing_required_parameter", "input"),
        ({"input": ""}, "invalid_value", "input"),
        ({"input": []}, "invalid_value", "input"),
        ({"input": {}}, "invalid_type", "input"),
        ({"input": ["a", ""]}, "invalid_value", "input[1]"),
        ({"input": ["a", 1]}, "invalid_type", "input[1]"),
        ({"input": [1, "a"]}, "invalid_type", "input[1]"),
        ({"input": [[1], "a"]}, "invalid_type", "input[1]"),
        ({"input": [[1], []]}, "invalid_value", "input[1]"),
        ({"input": [[1, -1]]}, "invalid_type", "input[0][1]"),
        ({"input": [[1, 1.5]]}, "invalid_type", "input[0][1]"),
        ({"input": [[2**64]]}, "invalid_type", "input[0][0]"),
        ({"input": [1, 2**31]}, "invalid_type", "input[1]"),
        ({"input": [True]}, "invalid_type", "input[0]"),
        ({"input": [None]}, "invalid_type", "input[0]"),
        ({"input": ["a"] * 2049}, "invalid_value", "input"),
        ({"input": [[1]] * 2049}, "invalid_value", "input"),
        ({"dimensions": 0}, "invalid_value", "dimensions"),
        ({"dimensions": 10**9}, "invalid_value", "dimensions"),
        ({"dimensions": "3"}, "invalid_type", "dimensions"),
        ({"encoding_format": "int8"}, "invalid_value", "encoding_format"),
        ({"stream": True}, "invalid_value", "stream"),
        ({"api_base": "http://x"}, "unknown_parameter", "api_base"),
        ({"input_type": "x" * 65}, "invalid_value", "input_type"),
    ],
)
def test_what_a_request_may_not_be(members: dict[str, Any], code: str, param: str) -> None:
    with pytest.raises(CallerError) as caught:
        read_embeddings_request({"model": "m", "input": "a", **members})
    assert (caught.value.code, caught.value.param) == (code, param)


@pytest.mark.parametrize("has_numbers", [True, False])
def test_numbers_are_written_as_they_came_and_packed_where_asked(has_numbers: bool) -> None:
    vector, numbers = [0.1, -2.0], b"[0.1000000000000000001, -2]"
    accumulator = Accumulator()
    for event in (
        StreamStarted(model="own"),
        EmbeddingRead(0, floats.pack(vector), numbers if has_numbers else None),
        UsageReported(Usage(input_uncached=4)),
        StreamCompleted(),
    ):
        accumulator.feed(event)
    completion = accumulator.fold()
    body = EMBEDDINGS.write_whole(completion, Reply(now=lambda: 0)).body
    written = b'{"object":"embedding","index":0,"embedding":%b}'
    assert written % (numbers if has_numbers else b"[0.10000000149011612,-2.0]") in body
    body = EMBEDDINGS.write_whole(completion, Reply(now=lambda: 0, encoding="base64")).body
    assert json.loads(body) == {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": packed(vector)}],
        "model": "own",
        "usage": {"prompt_tokens": 4, "total_tokens": 4},
    }


def test_an_error_has_the_format_of_openai() -> None:
    answer = EMBEDDINGS.write_error(CallerError("model_not_found", "no", param="model"))
    error = {"message": "no", "type": "invalid_request_error", "param": "model", "code": "model_not_found"}
    assert (answer.status, json.loads(answer.body)) == (404, {"error": error})


def test_there_is_no_stream() -> None:
    with pytest.raises(TypeError, match="not streamed"):
        EMBEDDINGS.encoder(Reply(now=lambda: 0))
