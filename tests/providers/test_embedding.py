"""Embeddings of every service: its requests, and what its answers must have."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from streamweir.core.errors import CallerError
from streamweir.core.events import EmbeddingRead, Event, StreamCompleted, StreamFailed, UsageDiscarded, UsageReported
from streamweir.core.request import ChatRequest
from streamweir.frontends.embeddings.request import read_embeddings_request
from streamweir.providers.base import Target, UpstreamRequest
from streamweir.providers.compatible import VENDORS
from streamweir.providers.embedding import EmbeddingProvider, InvalidAnswer, provider_for
from streamweir.providers.registry import embedding_service, provider_named, provider_names
from streamweir.wire.sse import Frame
from support.embeddings import VECTORS, openai_vectors, packed


def asked(**members: Any) -> ChatRequest:
    return read_embeddings_request({"model": "caller's", "input": ["a", "b"], **members})


def provider(kind: str, request: ChatRequest, target: Target) -> EmbeddingProvider:
    service = embedding_service(kind)
    assert service is not None
    return provider_for(service, request, target)


def built(kind: str, target: Target | None = None, **members: Any) -> UpstreamRequest:
    request, target = asked(**members), target or Target(model="m", api_key="k")
    return provider(kind, request, target).build_request(request, target)


def read(body: bytes, name: str = "embeddings/openai/0/2048", inputs: int = 2) -> list[Event]:
    return list(provider_named(name).decode_whole(body, inputs))


def vectors_in(events: list[Event]) -> list[EmbeddingRead]:
    assert isinstance(events[-1], StreamCompleted), events
    return [event for event in events if isinstance(event, EmbeddingRead)]


def error_in(events: list[Event]) -> tuple[str, str]:
    assert len(events) == 1
    assert isinstance(events[0], StreamFailed)
    return events[0].error.code, events[0].error.message


# Requests.


def test_the_body_is_passed_on_completely() -> None:
    request = built("openai", input=["a", "b"], dimensions=3, encoding_format="base64", user="me", later=[1])
    assert request.path == "/embeddings"
    assert ("authorization", "Bearer k") in request.headers
    assert json.loads(request.body) == {
        "model": "m",
        "input": ["a", "b"],
        "encoding_format": "base64",
        "user": "me",
        "later": [1],
        "dimensions": 3,
    }
    assert (request.dropped, request.more) == ((), ())


@pytest.mark.parametrize("sent", ["a", ["a"], [1, 2], [[1, 2], [3]]])
def test_inputs_keep_their_form(sent: Any) -> None:
    assert json.loads(built("openai", input=sent).body)["input"] == sent


def test_numbers_are_requested_silently() -> None:
    """They are the default everywhere, and some vendors know no other word."""
    assert "encoding_format" not in json.loads(built("openai", encoding_format="float").body)


@pytest.mark.parametrize(
    ("kind", "members", "sent", "dropped"),
    [
        ("mistral", {"dimensions": 8, "user": "u"}, {}, ("user", "dimensions")),
        ("cohere", {"input_type": "search_query"}, {"input_type": "search_query"}, ()),
        ("cohere", {}, {}, ()),
        ("nvidia", {}, {"input_type": "passage"}, ()),
        ("nvidia", {"input_type": "query"}, {"input_type": "query"}, ()),
        ("openai", {"input_type": "query", "task_type": "X"}, {}, ("input_type", "task_type")),
        ("perplexity", {"encoding_format": "base64", "dimensions": 128}, {"dimensions": 128}, ()),
        ("openrouter", {"models": ["dear"], "fallbacks": [1]}, {}, ("models", "fallbacks")),
        ("litellm-proxy", {"fallbacks": [1]}, {}, ("fallbacks",)),
        ("openai-compatible", {"route": "fallback"}, {}, ("route",)),
    ],
)
def test_vendors_differ(kind: str, members: dict[str, Any], sent: dict[str, Any], dropped: tuple[str, ...]) -> None:
    request = built(kind, **members)
    assert json.loads(request.body) == {"model": "m", "input": ["a", "b"], **sent}
    assert request.dropped == dropped


def test_a_member_that_only_some_models_take() -> None:
    request = built("mistral", Target(model="codestral-embed"), dimensions=8)
    assert (json.loads(request.body)["output_dimension"], request.dropped) == (8, ())
    read_by = provider("mistral", asked(dimensions=8), Target(model="mistral-embed"))
    assert read_by.name == "embeddings/mistral/0/2048", "what was not sent is not checked"


def test_azure_has_its_own_address_and_header() -> None:
    request = built("azure", Target(model="emb", api_key="k", api_version="2024-10-21"))
    assert request.path == "/openai/deployments/emb/embeddings?api-version=2024-10-21"
    assert ("api-key", "k") in request.headers
    assert built("azure", Target(model="emb", api_key="k")).path == "/openai/v1/embeddings"


def test_a_long_list_becomes_several_calls_in_order() -> None:
    request = built("cohere", input=[str(i) for i in range(200)])
    bodies = [json.loads(body) for body in (request.body, *request.more)]
    assert [len(body["input"]) for body in bodies] == [96, 96, 8]
    assert [text for body in bodies for text in body["input"]] == [str(i) for i in range(200)]
    assert request.parallel == 1


def test_gemini() -> None:
    one = built("gemini", Target(model="models/gemini-embedding-001", api_key="k"), input="a", dimensions=8, user="u")
    assert one.path == "/models/gemini-embedding-001:embedContent"
    assert ("x-goog-api-key", "k") in one.headers
    assert json.loads(one.body) == {
        "model": "models/gemini-embedding-001",
        "content": {"parts": [{"text": "a"}]},
        "outputDimensionality": 8,
    }
    assert one.dropped == ("user",)
    many = built("gemini", input=[str(i) for i in range(101)], input_type="search_query")
    assert many.path == "/models/m:batchEmbedContents"
    requests = json.loads(many.body)["requests"]
    assert len(requests) == 100
    assert requests[0] == {"model": "models/m", "content": {"parts": [{"text": "0"}]}, "taskType": "RETRIEVAL_QUERY"}
    assert [len(json.loads(body)["requests"]) for body in many.more] == [1]


@pytest.mark.parametrize(
    ("members", "task", "dropped"),
    [
        ({"task_type": "CLUSTERING", "input_type": "search_query"}, "CLUSTERING", ()),
        ({"input_type": "passage"}, "RETRIEVAL_DOCUMENT", ()),
        ({"input_type": "image"}, None, ("input_type",)),
        ({}, None, ()),
    ],
)
def test_what_a_text_is_for(members: dict[str, Any], task: str | None, dropped: tuple[str, ...]) -> None:
    request = built("gemini", input="a", **members)
    assert (json.loads(request.body).get("taskType"), request.dropped) == (task, dropped)


@pytest.mark.parametrize(
    ("model", "method", "calls", "parallel"),
    [
        ("text-embedding-005", "predict", 1, 1),
        ("gemini-embedding-001", "predict", 3, 4),
        ("gemini-embedding-2", "embedContent", 3, 4),
        ("embeddinggemma-300m", "embedContent", 3, 4),
    ],
)
def test_vertex(model: str, method: str, calls: int, parallel: int) -> None:
    target = Target(model=model, api_key="t", project="p", location="eu")
    request = built("vertex", target, input=["a", "b", "c"], dimensions=4, task_type="CLUSTERING")
    assert request.path == f"/projects/p/locations/eu/publishers/google/models/{model}:{method}"
    assert ("authorization", "Bearer t") in request.headers
    assert (1 + len(request.more), request.parallel) == (calls, parallel)
    body = json.loads(request.body)
    if method == "predict":
        assert body["parameters"] == {"outputDimensionality": 4}
        assert body["instances"][0] == {"content": "a", "task_type": "CLUSTERING"}
    else:
        assert body == {
            "content": {"parts": [{"text": "a"}]},
            "embedContentConfig": {"outputDimensionality": 4, "taskType": "CLUSTERING"},
        }


def test_open_and_multimodal_models_of_vertex() -> None:
    target = Target(model="intfloat/multilingual-e5-small-maas", project="p", location="eu")
    request = built("vertex", target, input=["a", "b"], dimensions=4, encoding_format="base64", user="u")
    assert request.path == "/projects/p/locations/eu/endpoints/openapi/embeddings"
    assert json.loads(request.body) == {"model": target.model, "input": ["a", "b"], "dimensions": 4}
    assert (request.more, request.dropped) == ((), ("user",))
    service = embedding_service("vertex")
    assert service is not None
    answer = service.read_answer(openai_vectors(VECTORS))
    assert (len(answer.vectors), answer.tokens) == (len(VECTORS), 6)
    target = Target(model="multimodalembedding@001", project="p", api_key="t")
    request = built("vertex", target, input=["a", "b"], dimensions=4, task_type="CLUSTERING")
    assert request.path == "/projects/p/locations/global/publishers/google/models/multimodalembedding@001:predict"
    assert json.loads(request.body) == {"instances": [{"text": "a"}], "parameters": {"dimension": 4}}
    assert (len(request.more), request.parallel, request.dropped) == (1, 4, ("task_type",))
    (vector,) = service.read_answer(b'{"predictions": [{"textEmbedding": [1, 2]}]}').vectors
    assert bytes(vector) == b"[1, 2]"
    for body in (b"[1]", b"{}", b'{"predictions": [{}]}', b'{"data": 7}', b"["):
        with pytest.raises(InvalidAnswer):
            service.read_answer(body)
    error = service.read_error(404, {}, b'{"error": {"code": 404, "message": "Publisher Model `x` not found"}}')
    assert "set a location" in error.message


TITAN, COHERE, NOVA = (
    "amazon.titan-embed-text-v2:0",
    "cohere.embed-english-v3",
    "amazon.nova-2-multimodal-embeddings-v1:0",
)


@pytest.mark.parametrize(
    ("model", "members", "body", "dropped"),
    [
        (TITAN, {"dimensions": 256, "user": "u"}, {"inputText": "a", "dimensions": 256}, ("user",)),
        (TITAN, {"normalize": False}, {"inputText": "a", "normalize": False}, ()),
        (
            "amazon.titan-embed-text-v1",
            {"dimensions": 8, "normalize": True},
            {"inputText": "a"},
            ("dimensions", "normalize"),
        ),
        (
            "amazon.titan-embed-image-v1",
            {"dimensions": 384},
            {"inputText": "a", "embeddingConfig": {"outputEmbeddingLength": 384}},
            (),
        ),
        (COHERE, {}, {"texts": ["a", "b"], "input_type": "search_document"}, ()),
        (
            COHERE,
            {"input_type": "query", "dimensions": 8, "truncate": "END"},
            {"texts": ["a", "b"], "input_type": "search_query", "truncate": "END"},
            ("dimensions",),
        ),
        (
            "us.cohere.embed-v4:0",
            {"dimensions": 256, "input_type": "odd", "task_type": "X"},
            {"texts": ["a", "b"], "input_type": "search_document", "output_dimension": 256},
            ("input_type", "task_type"),
        ),
        (
            NOVA,
            {"dimensions": 1024, "input_type": "search_query"},
            {
                "taskType": "SINGLE_EMBEDDING",
                "singleEmbeddingParams": {
                    "embeddingPurpose": "TEXT_RETRIEVAL",
                    "embeddingDimension": 1024,
                    "text": {"truncationMode": "NONE", "value": "a"},
                },
            },
            (),
        ),
        (
            NOVA,
            {"task_type": "CLUSTERING"},
            {
                "taskType": "SINGLE_EMBEDDING",
                "singleEmbeddingParams": {
                    "embeddingPurpose": "CLUSTERING",
                    "text": {"truncationMode": "NONE", "value": "a"},
                },
            },
            (),
        ),
    ],
)
def test_bedrock(model: str, members: dict[str, Any], body: dict[str, Any], dropped: tuple[str, ...]) -> None:
    request = built("bedrock", Target(model=model, api_key="k"), **members)
    assert request.path == f"/model/{model.replace(':', '%3A')}/invoke"
    assert ("authorization", "Bearer k") in request.headers
    assert json.loads(request.body) == body
    assert sorted(request.dropped) == sorted(dropped)
    is_one_call = "cohere" in model
    assert (len(request.more), request.parallel) == ((0, 1) if is_one_call else (1, 4))
    assert request.count_header == "x-amzn-bedrock-input-token-count"


ONE = b"[0.5,1]"


@pytest.mark.parametrize(
    ("parts", "counts", "tokens"),
    [
        ([b'{"embedding":%s,"inputTextTokenCount":3}' % ONE] * 2, [9, 9], 6),
        ([b'{"embeddings":[{"embeddingType":"TEXT","embedding":%s}]}' % ONE] * 2, [1, 4], 5),
        ([b'{"embeddings":[%s]}' % ONE, b'{"embeddings":{"float":[%s]}}' % ONE], [1, None], None),
        ([b'{"embeddings":[{"embedding":%s}],"inputTokenCount":2}' % ONE] * 2, None, 4),
    ],
)
def test_answers_of_bedrock(parts: list[bytes], counts: list[int | None] | None, tokens: int | None) -> None:
    said = b"" if counts is None else b',"counts":' + json.dumps(counts).encode()
    events = read(b'{"parts":[' + b",".join(parts) + b"]" + said + b"}", "embeddings/bedrock/0/1")
    assert [vector.numbers for vector in vectors_in(events)] == [ONE, ONE]
    assert [event.usage.prompt_tokens for event in events if isinstance(event, UsageReported)] == [tokens] * (
        tokens is not None
    )


@pytest.mark.parametrize(
    "body",
    [
        b'{"embedding":[1]}',
        b'{"parts":[{"embedding":[1]}],"counts":[]}',
        b'{"parts":[{"embedding":[1]}],"counts":["1"]}',
        b'{"parts":[{"message":"no"}],"counts":[1]}',
        b'{"parts":[{"embeddings":{"int8":[[1]]}}]}',
        b'{"parts":[{"embeddings":[{"embedding":"x"}]}]}',
        b'{"parts":[{"embeddings":[{}]}]}',
        b'{"parts":[{"embeddings":7}]}',
    ],
)
def test_answers_of_bedrock_that_cannot_be_used(body: bytes) -> None:
    assert error_in(read(body, "embeddings/bedrock/0/1", 1))[0] == "upstream_bad_response"


def test_tokens_are_for_the_wire_of_openai_alone() -> None:
    target = Target(model="m")
    for sent, path in (([1, 2], "input"), ([[1], [2]], "input[0]")):
        request = asked(input=sent)
        assert provider("openai", request, target).refusal_of(request, "m") is None
        refusal = provider("gemini", request, target).refusal_of(request, "m")
        assert isinstance(refusal, CallerError)
        assert (refusal.code, refusal.param, refusal.spec.status) == ("invalid_value", path, 400)
    assert provider("gemini", asked(), target).refusal_of(asked(), "m") is None


def test_the_providers_without_embeddings_are_known() -> None:
    without = {name for name in provider_names() if embedding_service(name) is None}
    assert without == {"anthropic", "bedrock-mantle", "groq", "deepseek", "cerebras", "moonshot", "xai", "writer"}
    with pytest.raises(KeyError):
        provider_named("embeddings/groq/0/2048")


def test_the_document_has_the_providers_that_differ() -> None:
    page = (Path(__file__).parents[2] / "docs" / "embeddings.md").read_text()
    rows = re.findall(r"^\| (`.*?`) \| (\d+|none) \|", page, re.MULTILINE)
    listed = {kind: inputs for kinds, inputs in rows for kind in re.findall(r"`([\w-]+)`", kinds)}
    target = {"vertex": Target(model="text-embedding-005", project="p")}
    for kind in provider_names():
        service = embedding_service(kind)
        inputs = "none" if service is None else service.inputs_per_call(target.get(kind, Target(model="m")))
        assert str(inputs) == listed.get(kind, "2048"), kind


@pytest.mark.parametrize("kind", [name for name, vendor in VENDORS.items() if vendor.embeddings is not None])
def test_the_name_finds_a_provider_with_the_same_decoder(kind: str) -> None:
    """Another process reads large answers by it."""
    own = provider(kind, asked(dimensions=3), Target(model="m"))
    assert provider_named(own.name).decode_whole(b"{}", 2) == own.decode_whole(b"{}", 2)


# Answers.


def test_vectors_are_read_in_the_order_of_their_indexes() -> None:
    events = read(openai_vectors([VECTORS[1], packed(VECTORS[0])], indexes=[1, 0]))
    first, second = vectors_in(events)
    assert (first.index, first.numbers) == (0, None)
    assert (second.index, second.numbers) == (1, b"[1.0, 0.0, -1.0]"), "digits are not changed"
    assert [event.usage.prompt_tokens for event in events if isinstance(event, UsageReported)] == [6]


def test_numbers_and_base64_are_the_same_vector() -> None:
    numbers, text = (
        vectors_in(read(openai_vectors(VECTORS))),
        vectors_in(read(openai_vectors(list(map(packed, VECTORS))))),
    )
    assert [each.packed for each in numbers] == [each.packed for each in text]


def test_perplexity_sends_signed_bytes() -> None:
    (vector,) = vectors_in(read(openai_vectors(["AP+Afw=="]), "embeddings/perplexity/4/512", 1))
    assert vector.packed == bytes.fromhex("00000000000080bf000000c30000fe42")


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        (openai_vectors(VECTORS[:1]), 2),
        (openai_vectors([*VECTORS, VECTORS[0]]), 2),
        (openai_vectors(VECTORS, indexes=[0, 0]), 2),
        (openai_vectors(VECTORS, indexes=[0, 2]), 2),
        (openai_vectors(VECTORS, indexes=[-1, 0]), 2),
        (openai_vectors([[0.5], [0.5, 0.5]]), 2),
        (openai_vectors([[], []]), 2),
        (openai_vectors([""]), 1),
        (openai_vectors([[0.1, "x"]]), 1),
        (openai_vectors([[0.1, None]]), 1),
        (openai_vectors([None]), 1),
        (openai_vectors(["AAAA"]), 1),
        (openai_vectors(["AACAfw=="]), 1),
        (openai_vectors(["AADAfw=="]), 1),
        (openai_vectors(["?"]), 1),
        (openai_vectors([{"a": 1}]), 1),
        (openai_vectors([[1e39]]), 1),
        (b'{"data":[{"embedding":[1e999]}]}', 1),
        (b'{"data":[{"embedding":[NaN]}]}', 1),
        (b'{"data":[{"index":0}]}', 1),
        (b'{"data":{}}', 1),
        (b"{}", 1),
        (b"[]", 1),
        (b"", 1),
        (b'{"data":', 1),
        (b"\xff", 1),
        (b"[" * 100_000, 1),
        (openai_vectors([[0.0] * 65_537]), 1),
    ],
)
def test_what_is_no_answer_is_a_failure(body: bytes, inputs: int) -> None:
    assert error_in(read(body, inputs=inputs))[0] == "upstream_bad_response"


def test_the_length_that_was_asked_for() -> None:
    assert len(vectors_in(read(openai_vectors(), "embeddings/openai/3/2048"))) == 2
    code, message = error_in(read(openai_vectors(), "embeddings/openai/4/2048"))
    assert code == "upstream_bad_response"
    assert "3 numbers instead of 4" in message


def test_an_error_with_the_status_of_success() -> None:
    assert error_in(read(b'{"error":{"message":"x","type":"rate_limit_error"}}'))[0] == "upstream_rate_limited"
    body = b'{"error":{"code":503,"status":"UNAVAILABLE","message":"x"}}'
    assert error_in(read(body, "embeddings/gemini/0/100"))[0] == "upstream_overloaded"


@pytest.mark.parametrize(
    ("usage", "kind"), [({"prompt_tokens": -1}, UsageDiscarded), ({}, None), (None, None), (7, None)]
)
def test_usage_that_is_missing_or_absurd(usage: Any, kind: type[Event] | None) -> None:
    body = json.dumps({**json.loads(openai_vectors(tokens=None)), "usage": usage}).encode()
    told = [event for event in read(body) if isinstance(event, UsageReported | UsageDiscarded)]
    assert [type(event) for event in told] == ([kind] if kind is not None else [])


def test_the_answers_of_several_calls() -> None:
    parts = [openai_vectors(VECTORS, 6), openai_vectors(VECTORS[:1], 3)]
    events = read(b'{"parts":[%b,%b]}' % tuple(parts), "embeddings/openai/3/2", 3)
    assert [each.index for each in vectors_in(events)] == [0, 1, 2]
    assert [event.usage.prompt_tokens for event in events if isinstance(event, UsageReported)] == [9]


@pytest.mark.parametrize(
    "parts",
    [
        [openai_vectors(VECTORS)],
        [openai_vectors(VECTORS[:1]), openai_vectors(VECTORS)],
        [openai_vectors(VECTORS), openai_vectors([[1.0]])],
        [openai_vectors(VECTORS), b"{}"],
        [openai_vectors(VECTORS), b""],
        [openai_vectors(VECTORS), b"{},{}"],
    ],
    ids=["one missing", "swapped sizes", "other length", "no vectors", "empty", "one more"],
)
def test_calls_that_do_not_fit_together(parts: list[bytes]) -> None:
    body = b'{"parts":[%b]}' % b",".join(parts)
    assert error_in(read(body, "embeddings/openai/0/2", 3))[0] == "upstream_bad_response"


def test_usage_of_several_calls_needs_all_of_them() -> None:
    body = b'{"parts":[%b,%b]}' % (openai_vectors(VECTORS, 6), openai_vectors(VECTORS[:1], None))
    assert not any(isinstance(event, UsageReported) for event in read(body, "embeddings/openai/0/2", 3))


@pytest.mark.parametrize(
    ("document", "tokens"),
    [
        ({"embedding": {"values": [1.0, 2.0]}}, None),
        ({"embeddings": [{"values": [1.0, 2.0]}]}, None),
        ({"embedding": {"values": [1.0, 2.0]}, "usageMetadata": {"promptTokenCount": 4}}, 4),
        ({"predictions": [{"embeddings": {"values": [1.0, 2.0], "statistics": {"token_count": 5}}}]}, 5),
        ({"predictions": [{"embeddings": {"values": [1.0, 2.0]}}]}, None),
        ({"predictions": [{"embeddings": {"values": [1.0, 2.0], "statistics": {"token_count": -5}}}]}, None),
    ],
)
def test_the_answers_of_google(document: dict[str, Any], tokens: int | None) -> None:
    events = read(json.dumps(document, indent=2).encode(), "embeddings/gemini/2/100", 1)
    assert len(vectors_in(events)) == 1
    assert [event.usage.prompt_tokens for event in events if isinstance(event, UsageReported)] == (
        [tokens] if tokens is not None else []
    )


@pytest.mark.parametrize(
    "document", [{}, {"embedding": None}, {"embeddings": []}, {"predictions": []}, {"embedding": 1}]
)
def test_answers_of_google_without_vectors(document: dict[str, Any]) -> None:
    assert error_in(read(json.dumps(document).encode(), "embeddings/gemini/0/100", 1))[0] == "upstream_bad_response"


def test_a_stream_is_no_answer() -> None:
    decoder = provider_named("embeddings/openai/0/2048").decoder()
    assert not decoder.feed(Frame(b": ping\n\n", None))
    (failed,) = decoder.feed(Frame(b"data: {}\n\n", b"{}"))
    assert isinstance(failed, StreamFailed)
    assert not decoder.feed(Frame(b"data: {}\n\n", b"{}"))
    assert not decoder.finish()
    assert not decoder.may_end_when_idle
    assert not decoder.lacks_terminator
