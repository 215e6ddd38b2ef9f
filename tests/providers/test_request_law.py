"""What holds for every provider's requests, whatever the caller sent.

The body never chooses where the request goes or what stands in its headers; what was left out is
named by a path that leads to it; the same body can be given to another provider afterwards.
"""

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamweir.core.request import read_request
from streamweir.providers.base import Target
from streamweir.providers.registry import FAMILIES, name_on, provider_named, wires_of
from streamweir.wire import jsonio
from support.aws_shape import faults_of
from support.soak import SOAKS

TARGETS: list[tuple[str, Target]] = [
    ("openai", Target(model="gpt-5.5", api_key="k")),
    ("openai-responses", Target(model="gpt-5.5", api_key="k")),
    ("xai-responses", Target(model="grok-4", api_key="k")),
    ("lmstudio-responses", Target(model="glm-5", api_key="k")),
    ("azure", Target(model="deployment", api_key="k", api_version="2024-10-21")),
    ("azure-responses", Target(model="deployment", api_key="k", api_version="preview")),
    ("azure-messages", Target(model="claude-opus-4-8", api_key="k")),
    ("openrouter", Target(model="anthropic/claude-opus-5", api_key="k")),
    ("mistral", Target(model="mistral-large-latest", api_key="k")),
    ("groq", Target(model="openai/gpt-oss-120b", api_key="k")),
    ("xai", Target(model="grok-4.20-reasoning", api_key="k")),
    ("zai", Target(model="glm-5", api_key="k")),
    ("alibaba", Target(model="qwen3-max", api_key="k")),
    ("anthropic", Target(model="claude-sonnet-4-5", api_key="k")),
    ("anthropic", Target(model="claude-opus-5-5", api_key="k")),
    ("anthropic", Target(model="claude-3-5-haiku-latest", api_key="k")),
    ("gemini", Target(model="gemini-3-flash", api_key="k")),
    ("gemini", Target(model="gemini-2.0-flash", api_key="k")),
    ("vertex", Target(model="gemini-2.5-pro", api_key="k", project="p", location="europe-west4")),
    ("vertex-messages", Target(model="claude-sonnet-4-5@20250929", api_key="k", project="p", location="us-east5")),
    ("bedrock-messages", Target(model="eu.anthropic.claude-sonnet-4-5-20250929-v1:0", api_key="k")),
    ("bedrock-chat", Target(model="openai.gpt-oss-120b-1:0", api_key="k")),
    ("bedrock-responses", Target(model="openai.gpt-5.5", api_key="k")),
    ("bedrock-mantle", Target(model="qwen.qwen3-32b", api_key="k")),
    ("bedrock-mantle-responses", Target(model="openai.gpt-5.4", api_key="k")),
    ("bedrock-mantle-messages", Target(model="anthropic.claude-opus-4-8", api_key="k")),
    ("vertex-chat", Target(model="meta/llama-4-maverick-maas", api_key="k", project="p", location="us-east5")),
    ("bedrock", Target(model="eu.anthropic.claude-sonnet-4-5-20250929-v1:0", api_key="k")),
    ("bedrock", Target(model="us.amazon.nova-2-lite-v1:0", api_key="k")),
    ("bedrock", Target(model="mistral.mistral-large-2407-v1:0", api_key="k")),
]
HEADERS = {
    "authorization": {"Bearer k"},
    "api-key": {"k"},
    "x-api-key": {"k"},
    "x-goog-api-key": {"k"},
    "anthropic-version": {"2023-06-01"},
    "content-type": {"application/json"},
    "accept": {"application/json", "text/event-stream", "application/vnd.amazon.eventstream"},
}

MARK = st.fixed_dictionaries({}, optional={"cache_control": st.just({"type": "ephemeral"})})
PART = st.builds(
    lambda part, mark: {**part, **mark},
    st.sampled_from(
        [
            {"type": "text", "text": "see"},
            {"type": "text", "text": " "},
            {"type": "text", "text": "see", "annotations": [1]},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}},
            {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
            {"type": "image_url", "image_url": {"url": "a.png"}},
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}},
            {"type": "file", "file": {"file_id": "file-1"}},
            {"type": "refusal", "refusal": "no"},
            {"type": "video_url", "video_url": {"url": "https://x.test/a.mp4"}},
        ]
    ),
    MARK,
)
CONTENT = st.sampled_from(["", "hello", "\u2028"]) | st.lists(PART, max_size=3)
DETAIL = st.sampled_from(
    [
        {"type": "reasoning.text", "text": "hm", "signature": "s", "format": "anthropic-claude-v1", "index": 0},
        {"type": "reasoning.text", "text": "hm"},
        {"type": "reasoning.encrypted", "data": "x", "format": "google-gemini-v1", "id": "c1"},
        {"type": "reasoning.encrypted", "data": "x", "format": "openai-responses-v1"},
        {"type": "reasoning.encrypted", "data": "eA==", "format": "bedrock-converse-v1", "index": 1},
        {"type": "reasoning.summary", "summary": "x"},
    ]
)
CALL = st.sampled_from(
    [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"id": "functions.f:0", "type": "function", "function": {"name": "f", "arguments": '{"cut'}, "index": 0},
        {"id": "c3", "type": "custom", "custom": {"name": "g", "input": "x"}, "extra_content": {"google": {"a": 1}}},
    ]
)
MESSAGE = (
    st.builds(lambda role, content, mark: {"role": role, "content": content, **mark},
              st.sampled_from(["system", "developer", "user"]), CONTENT, MARK)
    | st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": CONTENT},
        optional={
            "tool_calls": st.lists(CALL, max_size=2),
            "reasoning_content": st.just("hm"),
            "reasoning": st.just("hm"),
            "reasoning_details": st.lists(DETAIL, max_size=2),
            "audio": st.just({"id": "a"}),
            "refusal": st.none() | st.just("no"),
            "name": st.just("bot"),
        },
    )
    | st.fixed_dictionaries(
        {"role": st.just("tool"), "tool_call_id": st.sampled_from(["c1", "functions.f:0"]), "content": CONTENT},
        optional={"is_error": st.booleans()},
    )
    | st.just({"role": "function", "name": "f", "content": "x"})
)  # fmt: skip
TOOL = st.sampled_from(
    [
        {"type": "function", "function": {"name": "f", "strict": True, "parameters": {"type": "object"}}},
        {"type": "function", "function": {"name": "g", "examples": [1]}, "cache_control": {"type": "ephemeral"}},
        {"type": "custom", "custom": {"name": "h"}},
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "google_search"},
    ]
)
MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    "stream": st.booleans(),
    "n": st.integers(1, 4),
    "max_tokens": st.integers(1, 9000),
    "max_completion_tokens": st.integers(1, 9000),
    "temperature": st.floats(0, 2),
    "top_p": st.floats(0, 1),
    "top_k": st.integers(0, 50),
    "stop": st.sampled_from(["x", " ", ["a", "\n"], list("abcdefg")]),
    "seed": st.integers(-(2**70), 2**70),
    "presence_penalty": st.floats(-2, 2),
    "logit_bias": st.sampled_from([{}, {"5": 1}]),
    "logprobs": st.booleans(),
    "top_logprobs": st.integers(0, 5),
    "user": st.sampled_from(["", "u\r\nx: y"]),
    "safety_identifier": st.just("s"),
    "metadata": st.sampled_from([{}, {"user_id": "u", "team": "a"}]),
    "tools": st.lists(TOOL, max_size=3),
    "functions": st.just([{"name": "f", "strict": True}]),
    "tool_choice": st.sampled_from(
        ["none", "auto", "required", "any", {"type": "tool", "name": "f"}, {"type": "allowed_tools", "tools": []}]
    ),
    "parallel_tool_calls": st.booleans(),
    "response_format": st.sampled_from(
        [
            {"type": "text"},
            {"type": "json_object", "schema": {"type": "object"}},
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "description": "d"}},
        ]
    ),
    "modalities": st.sampled_from([["text"], ["text", "audio", "smell"]]),
    "audio": st.just({"voice": "alloy"}),
    "reasoning": st.fixed_dictionaries(
        {},
        optional={
            "effort": st.sampled_from(["none", "low", "fierce"]),
            "max_tokens": st.sampled_from([0, 4000]),
            "enabled": st.booleans(),
            "summary": st.just("auto"),
            "their_own": st.just(1),
        },
    ),
    "reasoning_effort": st.sampled_from(["none", "minimal", "high"]),
    "service_tier": st.sampled_from(["auto", "flex", "priority"]),
    "web_search_options": st.just({}),
    "thinking": st.just({"type": "enabled", "budget_tokens": 2000}),
    "models": st.just(["dear"]),
    "made_up": st.none() | st.just({"api_base": "https://evil.test", "headers": {"x-api-key": "mine"}}),
}
BODY = st.fixed_dictionaries(
    {"model": st.just("asked/for"), "messages": st.lists(MESSAGE, min_size=1, max_size=4)}, optional=MEMBERS
)


def test_every_family_is_held_to_it_on_each_of_its_wires() -> None:
    assert {name_on(kind, wire) for kind in FAMILIES for wire in wires_of(kind)} <= {name for name, _ in TARGETS}


@pytest.mark.parametrize(("name", "target"), TARGETS, ids=[f"{name}-{target.model}" for name, target in TARGETS])
@given(body=BODY)
@settings(max_examples=2000 if SOAKS else 20)
def test_a_request(name: str, target: Target, body: dict[str, Any]) -> None:
    provider = provider_named(name)
    request = read_request(body)
    before = jsonio.encode(body)
    built = provider.build_request(request, target)
    assert jsonio.encode(body) == before, "the caller's body is never touched"
    written = jsonio.decode(built.body)
    assert written.get("model", target.model) == target.model

    least = read_request({"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": request.stream})
    assert built.path == provider.build_request(least, target).path
    for header, value in built.headers:
        if header == "anthropic-beta":
            assert re.fullmatch(r"[a-z0-9,-]+", value)
        else:
            assert value in HEADERS[header]

    for path in built.dropped:
        assert leads_somewhere(body, path), path
    assert len(set(built.dropped)) == len(built.dropped), "nothing is named twice"


CONVERSE = [target.model for name, target in TARGETS if name == "bedrock"]
BEFORE_NO_POINT = {"document", "reasoningContent", "cachePoint"}


@pytest.mark.parametrize("model", [*CONVERSE, "us.meta.llama3-3-70b-instruct-v1:0", "my-own-model"])
@given(body=BODY)
@settings(max_examples=2000 if SOAKS else 20)
def test_what_converse_requires(model: str, body: dict[str, Any]) -> None:
    """Its service refuses anything else, also where the caller's request is fine."""
    built = provider_named("bedrock").build_request(read_request(body), Target(model=model))
    written = jsonio.decode(built.body)
    assert faults_of("bedrock-runtime", "Converse", written) == []
    roles = [message["role"] for message in written["messages"]]
    assert all(one != other for one, other in pairwise(roles)), "roles alternate"
    tools = written.get("toolConfig", {"tools": []})["tools"]
    lists = [written.get("system", [{"text": "x"}]), *(message["content"] for message in written["messages"])]
    kinds = [[next(iter(block)) for block in blocks] for blocks in lists]
    assert all(kinds), "no message is empty"
    assert all(len(block) == 1 for blocks in [*lists, tools] for block in blocks), "a block has one member"
    for blocks in lists:
        assert all(block.get("text", "x").strip() for block in blocks), "no text is blank"
    for names in [*kinds, [next(iter(tool)) for tool in tools]]:
        assert names[:1] != ["cachePoint"]
        assert not any(one in BEFORE_NO_POINT and other == "cachePoint" for one, other in pairwise(names))
    assert sum(names.count("cachePoint") for names in kinds) + sum("cachePoint" in tool for tool in tools) <= 4
    blocks = [block for each in lists for block in each]
    documents = [block["document"]["name"] for block in blocks if "document" in block]
    assert len(set(documents)) == len(documents), "no two documents have one name"
    ids = [block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block]
    ids += [block["toolResult"]["toolUseId"] for block in blocks if "toolResult" in block]
    form = r"[a-zA-Z0-9]{9}" if model.startswith("mistral") else r"[a-zA-Z0-9_.:-]{1,64}"
    assert all(re.fullmatch(form, id) for id in ids)
    assert tools or not any("toolUse" in block for block in blocks), "a conversation with calls has tools"
    assert "toolConfig" not in written or tools


def leads_somewhere(body: Any, path: str) -> bool:
    for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        try:
            body = body[int(index)] if index else body[name]
        except (KeyError, IndexError, TypeError):
            return False
    return body is not None
