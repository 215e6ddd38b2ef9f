"""Request bodies for Anthropic: what goes in, what comes out, what is named as dropped."""

import base64
import json
from typing import Any

import pytest

from streamweir.core.request import read_request
from streamweir.providers.anthropic import PROVIDER
from streamweir.providers.base import Target
from support.anthropic_body import OLD, USER, build, sent

PDF = "data:application/pdf;base64,JVBERg=="
NOTE = "data:text/markdown;charset=utf-8;base64," + base64.b64encode("# Grüße".encode()).decode()


def messages_of(*messages: dict[str, Any]) -> Any:
    return sent({"messages": list(messages)})["messages"]


def blocks_of(*parts: dict[str, Any]) -> Any:
    return messages_of({"role": "user", "content": list(parts)})[0]["content"]


def test_address_and_headers() -> None:
    whole = build({})
    assert whole.path == "/messages"
    assert whole.headers == (
        ("x-api-key", "sk-ant-1"),
        ("anthropic-version", "2023-06-01"),
        ("content-type", "application/json"),
        ("accept", "application/json"),
    )
    assert dict(build({"stream": True}).headers)["accept"] == "text/event-stream"
    keyless = PROVIDER.build_request(read_request({"model": "m", "messages": [USER]}), Target(model="m"))
    assert "x-api-key" not in dict(keyless.headers)


def test_the_least_body() -> None:
    assert json.loads(build({}).body) == {"model": OLD, "max_tokens": 32_000, "messages": [USER]}
    assert sent({"stream": True}) == {"stream": True}


BODIES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("stop as a string", {"stop": "END"}, {"stop_sequences": ["END"]}),
    ("stop as a list", {"stop": ["a", "\n", "b"]}, {"stop_sequences": ["a", "b"]}),
    ("temperature", {"temperature": 0.3}, {"temperature": 0.3}),
    ("temperature of 0", {"temperature": 0}, {"temperature": 0}),
    ("temperature above Anthropic's range", {"temperature": 1.7}, {}),
    ("top_k", {"top_k": 40}, {"top_k": 40}),
    ("top_k of 0 is none", {"top_k": 0}, {}),
    ("top_p", {"top_p": 0.5}, {"top_p": 0.5}),
    ("user", {"user": "u-1"}, {"metadata": {"user_id": "u-1"}}),
    ("safety_identifier", {"safety_identifier": "s-1"}, {"metadata": {"user_id": "s-1"}}),
    ("metadata.user_id", {"metadata": {"user_id": "m-1"}}, {"metadata": {"user_id": "m-1"}}),
    ("service_tier auto", {"service_tier": "auto"}, {"service_tier": "auto"}),
    ("service_tier default", {"service_tier": "default"}, {"service_tier": "standard_only"}),
    ("service_tier priority", {"service_tier": "priority"}, {"service_tier": "auto"}),
    (
        "a schema",
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "strict": True, "schema": {"type": "object", "properties": {}}},
            }
        },
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object", "properties": {}}}}},
    ),
    (
        "a schema with a description beside it",
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "description": "An x.", "schema": {"type": "object"}},
            }
        },
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object", "description": "An x."}}}},
    ),
    ("plain text", {"response_format": {"type": "text"}}, {}),
    ("what asks for nothing", {"n": 1, "presence_penalty": 0, "logprobs": False, "store": False, "seed": None}, {}),
    ("modalities of text", {"modalities": ["text"]}, {}),
    (
        "Anthropic's own members",
        {"cache_control": {"type": "ephemeral"}, "container": "c-1", "thinking": None, "made_up": None},
        {"cache_control": {"type": "ephemeral"}, "container": "c-1"},
    ),
]


@pytest.mark.parametrize(("body", "expected"), [case[1:] for case in BODIES], ids=[case[0] for case in BODIES])
def test_members(body: dict[str, Any], expected: dict[str, Any]) -> None:
    assert sent(body) == expected


def test_max_tokens() -> None:
    assert json.loads(build({"max_tokens": 5}).body)["max_tokens"] == 5
    assert json.loads(build({"max_tokens": 5, "max_completion_tokens": 7}).body)["max_tokens"] == 7
    assert json.loads(build({}, "claude-3-5-haiku-20241022").body)["max_tokens"] == 8192
    assert json.loads(build({}, "glm-5").body)["max_tokens"] == 8192


DROPPED: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    (
        "what Anthropic has not",
        {
            "n": 2,
            "seed": 0,
            "presence_penalty": 0.5,
            "frequency_penalty": -0.5,
            "logit_bias": {"50256": -100},
            "logprobs": True,
            "top_logprobs": 2,
            "modalities": ["text", "audio"],
            "audio": {"voice": "alloy"},
            "prediction": {"type": "content", "content": "x"},
            "verbosity": "low",
            "store": True,
            "web_search_options": {},
            "prompt_cache_key": "k",
        },
        (
            "n",
            "seed",
            "presence_penalty",
            "frequency_penalty",
            "logit_bias",
            "logprobs",
            "top_logprobs",
            "modalities",
            "audio",
            "prediction",
            "verbosity",
            "store",
            "web_search_options",
            "prompt_cache_key",
        ),
    ),
    ("an unknown member", {"made_up": 1, "speed": "fast"}, ("made_up", "speed")),
    ("JSON without a schema", {"response_format": {"type": "json_object"}}, ("response_format",)),
    ("metadata of the caller's", {"metadata": {"a": "b", "user_id": "u"}}, ("metadata.a",)),
    (
        "more than one name of the user",
        {"user": "u", "safety_identifier": "s", "metadata": {"user_id": "u"}},
        ("safety_identifier",),
    ),
    ("verbosity as it is anyway", {"verbosity": "medium"}, ()),
    (
        "what the typed view has no field for",
        {
            "messages": [
                {"role": "assistant", "content": "x", "audio": {"id": "a"}, "annotations": []},
                {"role": "assistant", "content": "y", "reasoning": "Hm."},
                USER,
            ],
            "stream": True,
            "stream_options": {"include_obfuscation": True},
        },
        ("messages[1].reasoning", "messages[0].audio", "stream_options.include_obfuscation"),
    ),
    ("a tier of another vendor", {"service_tier": "flex"}, ("service_tier",)),
    ("a blank stop", {"stop": " "}, ("stop",)),
    ("a blank stop in a list", {"stop": ["a", "\n"]}, ("stop[1]",)),
    ("both samplings", {"temperature": 0.5, "top_p": 0.9}, ("top_p",)),
    (
        "a schema that is not there",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
        ("response_format",),
    ),
    (
        "names of speakers",
        {"messages": [{"role": "user", "name": "ann", "content": "Hi"}]},
        ("messages[0].name",),
    ),
    (
        "parts that Anthropic has not",
        {
            "messages": [
                {"role": "system", "content": [{"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}]},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Hi"},
                        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
                        {"type": "hologram", "voxels": []},
                        {"type": "image_url", "image_url": {"url": "ftp://x.test/a.png"}},
                        {"type": "image_url", "image_url": {"url": "https://x.test/a.png", "detail": "low"}},
                        {"type": "file", "file": {"file_data": "data:application/zip;base64,UEs="}},
                        {"type": "file", "file": {"file_data": "data:text/plain;base64,/w=="}},
                        {"type": "file", "file": {"file_data": "data:text/plain;base64,A"}},
                        {"type": "file", "file": {"filename": "nothing.txt"}},
                    ],
                },
            ]
        },
        (
            "messages[0].content[0]",
            "messages[1].content[1]",
            "messages[1].content[2]",
            "messages[1].content[3]",
            "messages[1].content[4].image_url.detail",
            "messages[1].content[5]",
            "messages[1].content[6]",
            "messages[1].content[7]",
            "messages[1].content[8]",
        ),
    ),
    (
        "reasoning that Anthropic did not sign",
        {
            "messages": [
                USER,
                {"role": "assistant", "content": "A", "reasoning_content": "Hm."},
                USER,
                {
                    "role": "assistant",
                    "content": "B",
                    "reasoning_content": "Hm.",
                    "reasoning_details": [
                        {"type": "reasoning.text", "text": "unsigned"},
                        {"type": "reasoning.encrypted", "data": "x", "format": "google-gemini-v1"},
                        {"type": "reasoning.summary", "summary": "x"},
                        {"type": "reasoning.encrypted", "data": None},
                    ],
                },
                USER,
            ]
        },
        (
            "messages[1].reasoning_content",
            "messages[3].reasoning_details[1]",
            "messages[3].reasoning_details[2]",
            "messages[3].reasoning_details[3]",
            "messages[3].reasoning_details[0]",
        ),
    ),
    (
        "tools of other vendors",
        {
            "tools": [
                {"type": "custom", "custom": {"name": "grep"}},
                {"type": "web_search_preview_2025_03_11"},
                {"type": "function", "function": {"name": "f"}},
            ]
        },
        ("tools[0]", "tools[1]"),
    ),
    ("a choice among no tools", {"tool_choice": "required"}, ("tool_choice",)),
    ("the same of old", {"function_call": {"name": "f"}}, ("function_call",)),
]


@pytest.mark.parametrize(("body", "dropped"), [case[1:] for case in DROPPED], ids=[case[0] for case in DROPPED])
def test_what_cannot_be_taken_is_named(body: dict[str, Any], dropped: tuple[str, ...]) -> None:
    assert build(body).dropped == dropped


def test_system_and_developer_texts_stand_apart() -> None:
    body = sent(
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                USER,
                {
                    "role": "developer",
                    "content": [{"type": "text", "text": "In German."}, {"type": "text", "text": ""}],
                },
            ]
        }
    )
    assert body == {
        "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "In German."}],
        "messages": [USER],
    }
    assert sent({"messages": [{"role": "system", "content": "Be brief."}, USER]})["system"] == "Be brief."


def test_an_instruction_alone_is_the_prompt() -> None:
    assert sent({"messages": [{"role": "system", "content": "Write."}]}) == {
        "messages": [{"role": "user", "content": "Write."}]
    }


def test_breakpoints_of_the_prompt_cache_are_kept() -> None:
    mark = {"type": "ephemeral", "ttl": "1h"}
    body = sent(
        {
            "messages": [
                {"role": "system", "content": "Long.", "cache_control": mark},
                {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": mark}]},
                {"role": "assistant", "content": "b", "cache_control": mark},
                {"role": "user", "content": [{"type": "text", "text": "c"}], "cache_control": mark},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
                    "cache_control": mark,
                },
                {"role": "tool", "tool_call_id": "t", "content": "d", "cache_control": mark},
            ],
            "tools": [{"type": "function", "function": {"name": "f"}, "cache_control": mark}],
        }
    )
    assert body == {
        "system": [{"type": "text", "text": "Long.", "cache_control": mark}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": mark}]},
            {"role": "assistant", "content": [{"type": "text", "text": "b", "cache_control": mark}]},
            {"role": "user", "content": [{"type": "text", "text": "c", "cache_control": mark}]},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}, "cache_control": mark}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t", "content": "d", "cache_control": mark}],
            },
        ],
        "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}, "cache_control": mark}],
    }


def test_messages_of_one_role_are_joined_and_blank_ones_left_out() -> None:
    assert messages_of(
        {"role": "user", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": " \n"}]},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": "d"},
        {"role": "assistant", "refusal": "e"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "f "}]},
    ) == [
        {
            "role": "user",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"type": "text", "text": "c"}],
        },
        {
            "role": "assistant",
            # A last message of the assistant's must not end in white space.
            "content": [{"type": "text", "text": "d"}, {"type": "text", "text": "e"}, {"type": "text", "text": "f"}],
        },
    ]


def test_pictures_and_files() -> None:
    assert blocks_of(
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}},
        {"type": "image_url", "image_url": {"url": "data:image/jpg;base64,/9j/", "detail": "auto"}},
        {"type": "image_url", "image_url": {"url": "HTTPS://x.test/a.png"}, "cache_control": {"type": "ephemeral"}},
        {"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}},
        {"type": "file", "file": {"file_data": NOTE, "filename": "a.md"}},
        {"type": "file", "file": {"file_data": "data:image/gif;base64,R0lG", "filename": "a.gif"}},
        {"type": "file", "file": {"file_data": "https://x.test/a.pdf"}},
        {"type": "image_url", "image_url": {"url": PDF}},
        {"type": "file", "file": {"file_data": "data:text/plain,Hi%20there"}},
    ) == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "/9j/"}},
        {
            "type": "image",
            "source": {"type": "url", "url": "HTTPS://x.test/a.png"},
            "cache_control": {"type": "ephemeral"},
        },
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
            "title": "a.pdf",
        },
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "# Grüße"},
            "title": "a.md",
        },
        {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lG"}},
        {"type": "document", "source": {"type": "url", "url": "https://x.test/a.pdf"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Hi there"}},
    ]


def test_an_uploaded_file_needs_its_beta() -> None:
    parts = [{"type": "file", "file": {"file_id": "file_1"}}, {"type": "file", "file": {"file_id": "file_2"}}]
    request = build({"messages": [{"role": "user", "content": parts}]})
    assert json.loads(request.body)["messages"][0]["content"][0] == {
        "type": "document",
        "source": {"type": "file", "file_id": "file_1"},
    }
    assert dict(request.headers)["anthropic-beta"] == "files-api-2025-04-14"
