"""The lists of models of the clouds: which names are in them, what comes next, and what is no list."""

import json
from typing import Any

import pytest

from streamweir.providers.model_listing import MAX_NAMES, ListPage, listing_of, names_in
from streamweir.wire.jsonio import InvalidJson


def read(kind: str, body: Any, path: str = "/x?a=b") -> ListPage:
    listing = listing_of(kind)
    assert listing is not None
    return listing.read(path, json.dumps(body).encode())


def foundation(id: str, output: str = "TEXT", *types: str) -> dict[str, Any]:
    return {"modelId": id, "outputModalities": [output], "inferenceTypesSupported": list(types or ("ON_DEMAND",))}


def profile(id: str, **members: str) -> dict[str, Any]:
    return {"inferenceProfileId": id, "status": "ACTIVE", "type": "SYSTEM_DEFINED", "models": [], **members}


def test_bedrock_lists_what_can_be_called() -> None:
    models = [
        foundation("amazon.nova-pro-v1:0"),
        foundation("amazon.titan-embed-text-v2:0", "EMBEDDING"),
        foundation("anthropic.claude-sonnet-4-5-20250929-v1:0", "TEXT", "INFERENCE_PROFILE"),
        foundation("stability.sd3-5-large-v1:0", "IMAGE"),
        foundation("meta.llama-provisioned", "TEXT", "PROVISIONED"),
    ]
    profiles = [
        profile("us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        profile("us.stability.sd3-5-large-v1:0"),
        profile("abc123", type="APPLICATION"),
        profile("eu.old", status="INACTIVE"),
    ]
    pages = [
        read("bedrock", {"modelSummaries": models}),
        read("bedrock", {"inferenceProfileSummaries": profiles, "nextToken": "a b/c"}),
        read("bedrock", {"inferenceProfileSummaries": profiles, "nextToken": "a/c="}),
    ]
    assert names_in(pages) == (
        "amazon.nova-pro-v1:0",
        "amazon.titan-embed-text-v2:0",
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    )
    assert [page.next_path for page in pages] == [None, None, "/x?a=b&nextToken=a%2Fc%3D"]
    assert read("bedrock", {"nextToken": "second"}, "/x?a=b&nextToken=first").next_path == "/x?a=b&nextToken=second"


def test_vertex_lists_what_its_wires_serve() -> None:
    models = [
        {"name": "publishers/google/models/gemini-2.5-pro", "versionId": "default"},
        {"name": "publishers/google/models/gemini-2.5-flash-preview-tts"},
        {"name": "publishers/google/models/text-embedding-005"},
        {"name": "publishers/google/models/imagen-4.0"},
        {"name": "publishers/anthropic/models/claude-sonnet-4-5", "versionId": "20250929"},
        {"name": "publishers/anthropic/models/claude-opus-4-8", "versionId": "default"},
        {"name": "publishers/meta/models/llama-4-maverick-17b-128e-instruct-maas"},
        {"name": "publishers/meta/models/llama-2-for-your-own-endpoint"},
        {"name": "nonsense"},
        {"name": ""},
    ]
    page = read("vertex", {"publisherModels": models, "nextPageToken": "t"})
    assert names_in([page]) == (
        "gemini-2.5-pro",
        "text-embedding-005",
        "claude-sonnet-4-5@20250929",
        "claude-opus-4-8",
        "meta/llama-4-maverick-17b-128e-instruct-maas",
    )
    assert page.next_path == "/x?a=b&pageToken=t"


def test_azure_lists_deployments_that_are_ready() -> None:
    data = [{"id": "prod-gpt", "model": "gpt-5", "status": "succeeded"}, {"id": "soon", "status": "running"}]
    assert read("azure", {"data": data}) == ListPage(("prod-gpt",))
    assert read("bedrock-mantle", {"object": "list", "data": [{"id": "openai.gpt-oss-120b"}]}).names


@pytest.mark.parametrize("name", ["", " ", "a b", "../x\n", "x" * 129, "-x", "a?b", 'a"b', "\u00e4", "/x"])
def test_a_name_of_another_form_is_left_out(name: str) -> None:
    assert names_in([ListPage((name, "good"))]) == ("good",)


def test_a_list_is_bounded_and_names_each_once() -> None:
    names = tuple(f"m{number}" for number in range(MAX_NAMES))
    assert names_in([ListPage(("m0", *names)), ListPage(("more",))]) == names


@pytest.mark.parametrize("kind", ["bedrock", "bedrock-mantle", "vertex", "azure"])
@pytest.mark.parametrize(
    "body",
    [
        b'{"data":[' + b'{"id":"a"},' * 20_000 + b'{"id":"b"}]}',
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b'{"data":5,"modelSummaries":5,"publisherModels":5}',
    ],
)
def test_what_is_no_list(kind: str, body: bytes) -> None:
    listing = listing_of(kind)
    assert listing is not None
    with pytest.raises(InvalidJson):
        listing.read("/x", body)


@pytest.mark.parametrize(
    ("kind", "base_url", "origin", "is_at_cloud"),
    [
        (
            "bedrock",
            "https://bedrock-runtime.eu-central-1.amazonaws.com",
            "https://bedrock.eu-central-1.amazonaws.com",
            True,
        ),
        (
            "bedrock",
            "https://bedrock-runtime-fips.us-east-1.amazonaws.com",
            "https://bedrock-fips.us-east-1.amazonaws.com",
            True,
        ),
        ("bedrock", "http://127.0.0.1:9/x", "http://127.0.0.1:9", False),
        ("bedrock", "https://amazonaws.com.example.org", "https://amazonaws.com.example.org", False),
        (
            "bedrock-mantle",
            "https://bedrock-mantle.us-east-1.api.aws/v1",
            "https://bedrock-mantle.us-east-1.api.aws",
            True,
        ),
        (
            "vertex",
            "https://europe-west4-aiplatform.googleapis.com/v1",
            "https://europe-west4-aiplatform.googleapis.com",
            True,
        ),
        ("azure", "https://acme.openai.azure.com", "https://acme.openai.azure.com", True),
        ("azure", "https://proxy.example.org", "https://proxy.example.org", False),
    ],
)
def test_where_a_cloud_is_asked(kind: str, base_url: str, origin: str, is_at_cloud: bool) -> None:
    listing = listing_of(kind)
    assert listing is not None
    assert (listing.origin(base_url), listing.is_at_cloud(base_url)) == (origin, is_at_cloud)


def test_others_are_not_asked() -> None:
    assert listing_of("openai") is None
