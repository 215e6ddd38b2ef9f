"""Request bodies for Converse: what goes in, what comes out, what is named as dropped."""

import base64
import json
from typing import Any

import pytest

from streamweir.core.request import read_request
from streamweir.providers.base import Target, UpstreamRequest, count_request
from streamweir.providers.converse import PROVIDER
from streamweir.providers.converse.model import UNKNOWN, traits_of

CLAUDE = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
OLD_CLAUDE = "anthropic.claude-3-5-sonnet-20241022-v2:0"
NEW_CLAUDE = "global.anthropic.claude-opus-5"
NOVA = "amazon.nova-micro-v1:0"
NOVA_2 = "us.amazon.nova-2-lite-v1:0"
LLAMA = "us.meta.llama3-3-70b-instruct-v1:0"
GPT = "us.openai.gpt-5.6-sol"
GPT_OSS = "openai.gpt-oss-120b-1:0"
MISTRAL = "mistral.mistral-large-2407-v1:0"
QWEN = "qwen.qwen3-32b-v1:0"
KIMI = "moonshot.kimi-k2-thinking"
PROFILE = "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/a1b2c3d4e5f6"
USER = {"role": "user", "content": "Hi"}
WROTE = {"role": "user", "content": [{"text": "Hi"}]}
POINT = {"cachePoint": {"type": "default"}}
MARK = {"type": "ephemeral"}
PNG = "data:image/png;base64,iVBORw=="
PDF = "data:application/pdf;base64,JVBERg=="
TOOL = {"type": "function", "function": {"name": "f", "description": "Does f.", "parameters": {"type": "object"}}}
SPEC = {"toolSpec": {"name": "f", "description": "Does f.", "inputSchema": {"json": {"type": "object"}}}}
OTHER = {"type": "function", "function": {"name": "g"}}
OTHER_SPEC = {"toolSpec": {"name": "g", "inputSchema": {"json": {"type": "object", "properties": {}}}}}


def build(members: dict[str, Any], model: str = NOVA, **target: Any) -> UpstreamRequest:
    request = read_request({"model": "m", "messages": [USER], **members})
    return PROVIDER.build_request(request, Target(model=model, **target))


def sent(members: dict[str, Any], model: str = NOVA) -> Any:
    return json.loads(build(members, model).body)


def messages_of(*messages: dict[str, Any], model: str = CLAUDE) -> Any:
    return sent({"messages": list(messages)}, model)["messages"]


def blocks_of(*parts: dict[str, Any], model: str = CLAUDE) -> Any:
    return messages_of({"role": "user", "content": list(parts)}, model=model)[0]["content"]


def call(id: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def use(id: str, name: str = "f", **input: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": id, "name": name, "input": input}}


def result(id: str, text: str) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": id, "content": [{"text": text}]}}


def calls_of(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [call(id) for id in ids]}


def answer(id: str, content: Any = "1", **members: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content, **members}


def test_address_and_headers() -> None:
    whole = build({}, api_key="k")
    assert whole.path == "/model/amazon.nova-micro-v1%3A0/converse"
    assert whole.headers == (
        ("authorization", "Bearer k"),
        ("content-type", "application/json"),
        ("accept", "application/json"),
    )
    streamed = build({"stream": True})
    assert streamed.path == "/model/amazon.nova-micro-v1%3A0/converse-stream"
    assert streamed.headers == (
        ("content-type", "application/json"),
        ("accept", "application/vnd.amazon.eventstream"),
    )
    assert build({}, PROFILE).path == (
        "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A123456789012%3Aapplication-inference-profile%2Fa1b2c3d4e5f6/converse"
    )


@pytest.mark.parametrize(
    ("model", "path"),
    [
        (CLAUDE, "/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/count-tokens"),
        (
            "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-opus-4-6-v1",
            "/model/anthropic.claude-opus-4-6-v1/count-tokens",
        ),
        (PROFILE, None),
        (NOVA, None),
    ],
)
def test_tokens_of_claude_are_counted(model: str, path: str | None) -> None:
    members = {"messages": [{"role": "system", "content": "S"}, USER], "tools": [TOOL], "max_tokens": 9, "stop": ["x"]}
    request = build(members, model)
    count = count_request(PROVIDER, request, Target(model=model, api_key="k"))
    assert (count and count.path) == path
    if count is not None:
        assert count.headers == request.headers
        body = json.loads(request.body)
        assert json.loads(count.body) == {
            "input": {"converse": {name: body[name] for name in ("messages", "system", "toolConfig")}}
        }


def test_the_least_body() -> None:
    assert sent({}) == {"messages": [WROTE]}
    assert sent({"stream": True}) == {"messages": [WROTE]}
    assert sent({}, CLAUDE) == {"messages": [WROTE], "inferenceConfig": {"maxTokens": 32_000}}


SCHEMA = {"type": "json_schema", "json_schema": {"name": "a b", "description": "D.", "schema": {"type": "object"}}}
FORMAT = {
    "textFormat": {
        "type": "json_schema",
        "structure": {"jsonSchema": {"schema": '{"type":"object"}', "name": "a_b", "description": "D."}},
    }
}
BODIES: list[tuple[str, str, dict[str, Any], dict[str, Any], list[str]]] = [
    # why, model, members of the caller, members of the body, what was dropped
    ("limit", NOVA, {"max_tokens": 7}, {"inferenceConfig": {"maxTokens": 7}}, []),
    ("newer limit", LLAMA, {"max_completion_tokens": 7}, {"inferenceConfig": {"maxTokens": 7}}, []),
    (
        "sampling",
        LLAMA,
        {"temperature": 0, "top_p": 0.5},
        {"inferenceConfig": {"temperature": 0, "topP": 0.5}},
        [],
    ),
    ("a temperature beyond the range", LLAMA, {"temperature": 1.5}, {"inferenceConfig": {"temperature": 1}}, []),
    ("no sampling", GPT, {"temperature": 0.2, "top_p": 0.5}, {}, ["temperature", "top_p"]),
    ("no sampling, beyond the range", GPT, {"temperature": 1.5}, {}, ["temperature"]),
    ("no sampling, with the default", GPT, {"temperature": 1, "top_p": 1}, {}, []),
    ("Nova's top_k", NOVA, {"top_k": 9}, {"additionalModelRequestFields": {"inferenceConfig": {"topK": 9}}}, []),
    (
        "Claude's top_k",
        CLAUDE,
        {"top_k": 9},
        {"inferenceConfig": {"maxTokens": 32_000}, "additionalModelRequestFields": {"top_k": 9}},
        [],
    ),
    ("no top_k", LLAMA, {"top_k": 9}, {}, ["top_k"]),
    ("stop", NOVA, {"stop": "END"}, {"inferenceConfig": {"stopSequences": ["END"]}}, []),
    ("blank stop", NOVA, {"stop": ["", "\n"]}, {"inferenceConfig": {"stopSequences": ["\n"]}}, ["stop[0]"]),
    (
        "Claude says which stop it was, and takes no blank one",
        CLAUDE,
        {"stop": ["a", "\n"]},
        {
            "inferenceConfig": {"maxTokens": 32_000, "stopSequences": ["a"]},
            "additionalModelResponseFieldPaths": ["/stop_sequence"],
        },
        ["stop[1]"],
    ),
    ("a schema", QWEN, {"response_format": SCHEMA}, {"outputConfig": FORMAT}, []),
    ("a schema for a model without", NOVA, {"response_format": SCHEMA}, {}, ["response_format"]),
    ("JSON without a schema", QWEN, {"response_format": {"type": "json_object"}}, {}, ["response_format"]),
    ("plain text", NOVA, {"response_format": {"type": "text"}}, {}, []),
    ("service tier of another price", NOVA, {"service_tier": "priority"}, {}, ["service_tier"]),
    ("service tier auto", NOVA, {"service_tier": "auto"}, {}, []),
    (
        "metadata",
        NOVA,
        {"metadata": {"team": "a b", "bad": "\u00e9", "wide": "\u2003"}},
        {"requestMetadata": {"team": "a b"}},
        ["metadata.bad", "metadata.wide"],
    ),
    (
        "more metadata than fits",
        NOVA,
        {"metadata": {f"m{i}": "" for i in range(17)}},
        {"requestMetadata": {f"m{i}": "" for i in range(16)}},
        ["metadata.m16"],
    ),
    ("defaults", NOVA, {"n": 1, "presence_penalty": 0, "logprobs": False, "user": "", "store": False}, {}, []),
    (
        "what has no equivalent",
        NOVA,
        {"seed": 1, "user": "u", "logit_bias": {"5": 1}, "parallel_tool_calls": False, "verbosity": "low"},
        {},
        ["seed", "logit_bias", "verbosity", "parallel_tool_calls", "user"],
    ),
    (
        "Converse's own members are not a caller's to set",
        NOVA,
        {
            "guardrailConfig": {"guardrailIdentifier": "g"},
            "additionalModelRequestFields": {"speed": "fast"},
            "performanceConfig": {"latency": "optimized"},
            "thinking": {"type": "enabled"},
        },
        {},
        ["guardrailConfig", "additionalModelRequestFields", "performanceConfig", "thinking"],
    ),
]


@pytest.mark.parametrize(
    ("model", "members", "written", "dropped"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES]
)
def test_members(model: str, members: dict[str, Any], written: dict[str, Any], dropped: list[str]) -> None:
    built = build(members, model)
    assert json.loads(built.body) == {"messages": [WROTE], **written}
    assert list(built.dropped) == dropped


FIELDS: list[tuple[str, dict[str, Any], Any, list[str]]] = [
    # model, members of the caller, additionalModelRequestFields, what was dropped
    (CLAUDE, {"reasoning": {"max_tokens": 2048}}, {"thinking": {"type": "enabled", "budget_tokens": 2048}}, []),
    (
        CLAUDE,
        {"thinking": {"type": "enabled", "budget_tokens": 3000}},
        {"thinking": {"type": "enabled", "budget_tokens": 3000}},
        [],
    ),
    (
        NEW_CLAUDE,
        {"reasoning_effort": "high"},
        {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"}},
        [],
    ),
    (NEW_CLAUDE, {"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}, []),
    (OLD_CLAUDE, {"reasoning_effort": "high"}, None, ["reasoning_effort"]),
    (NOVA, {"reasoning_effort": "high"}, None, ["reasoning_effort"]),
    (
        NOVA_2,
        {"reasoning_effort": "minimal"},
        {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}},
        [],
    ),
    (NOVA_2, {"reasoning_effort": "max"}, {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}}, []),
    (
        NOVA_2,
        {"reasoning_effort": "high", "temperature": 0.1, "top_k": 3},
        {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}},
        ["temperature", "top_k"],
    ),
    (
        NOVA_2,
        {"reasoning_effort": "high", "max_tokens": 9},
        {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "medium"}},
        [],
    ),
    (NOVA_2, {"reasoning": {"enabled": False}}, None, []),
    (GPT_OSS, {"reasoning_effort": "xhigh"}, {"reasoning_effort": "high"}, []),
    (GPT_OSS, {"reasoning_effort": "none"}, {"reasoning_effort": "low"}, ["reasoning_effort"]),
    (GPT, {"reasoning_effort": "xhigh"}, {"reasoning": {"effort": "xhigh"}}, []),
    (GPT, {"reasoning_effort": "minimal"}, {"reasoning": {"effort": "low"}}, []),
    (GPT, {"reasoning": {"enabled": False}}, {"reasoning": {"effort": "none"}}, []),
    (GPT, {"reasoning": {"max_tokens": 900}}, {"reasoning": {"effort": "medium"}}, ["reasoning.max_tokens"]),
    (KIMI, {"reasoning_effort": "low"}, {"reasoning_effort": "low"}, []),
    (QWEN, {"reasoning_effort": "fierce"}, {"reasoning_config": "high"}, []),
    (QWEN, {"reasoning_effort": "none"}, None, ["reasoning_effort"]),
    (LLAMA, {"reasoning": {"effort": "low", "enabled": True}}, None, ["reasoning.effort", "reasoning.enabled"]),
    (PROFILE, {"reasoning_effort": "low", "reasoning": {"summary": "auto"}}, None, ["reasoning_effort"]),
    (GPT, {"reasoning": {"summary": "auto"}}, None, []),
]


@pytest.mark.parametrize(("model", "members", "fields", "dropped"), FIELDS)
def test_reasoning(model: str, members: dict[str, Any], fields: Any, dropped: list[str]) -> None:
    built = build(members, model)
    assert json.loads(built.body).get("additionalModelRequestFields") == fields
    assert list(built.dropped) == dropped


def test_a_budget_is_part_of_the_limit() -> None:
    body = sent({"reasoning": {"max_tokens": 4000}, "max_tokens": 3000, "temperature": 0.5}, CLAUDE)
    assert body["inferenceConfig"] == {"maxTokens": 3000}
    assert body["additionalModelRequestFields"]["thinking"]["budget_tokens"] == 2400
    assert sent({}, OLD_CLAUDE)["inferenceConfig"] == {"maxTokens": 8192}
    limited = build({}, CLAUDE, max_output_tokens=500)
    assert json.loads(limited.body)["inferenceConfig"] == {"maxTokens": 500}


def test_roles_alternate_and_instructions_are_apart() -> None:
    body = sent(
        {
            "messages": [
                {"role": "system", "content": "S"},
                {"role": "user", "content": "a"},
                {"role": "developer", "content": [{"type": "text", "text": "D"}, {"type": "text", "text": " "}]},
                {"role": "user", "content": "b", "name": "n"},
                {"role": "assistant", "content": "c", "refusal": "no"},
                {"role": "assistant", "content": " d \n"},
            ]
        }
    )
    assert body["system"] == [{"text": "S"}, {"text": "D"}]
    assert body["messages"] == [
        {"role": "user", "content": [{"text": "a"}, {"text": "b"}]},
        {"role": "assistant", "content": [{"text": "c"}, {"text": "no"}, {"text": " d"}]},
    ]
    assert sent({"messages": [{"role": "system", "content": "S"}]}) == {
        "messages": [{"role": "user", "content": [{"text": "S"}]}]
    }


def test_sound() -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
    strange = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "midi"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "a"}, sound, strange]}]
    built = build({"messages": messages}, "mistral.voxtral-small-24b-2507")
    written = json.loads(built.body)["messages"][0]["content"]
    assert written == [{"text": "a"}, {"audio": {"format": "wav", "source": {"bytes": "AA=="}}}]
    assert built.dropped == ("messages[0].content[2]",)
    assert build({"messages": messages}, CLAUDE).dropped == ("messages[0].content[1]", "messages[0].content[2]")


def test_only_text_where_there_is_only_text() -> None:
    picture = {"type": "image_url", "image_url": {"url": PNG}}
    word = {"type": "text", "text": "a", "cache_control": MARK}
    messages = [
        {"role": "system", "content": [picture, word]},
        USER,
        {"role": "assistant", "content": [picture], "tool_calls": [call("c")]},
        answer("c", [word, word], cache_control=MARK),
    ]
    built = build({"messages": messages, "tools": [TOOL]}, CLAUDE)
    body = json.loads(built.body)
    assert (body["system"], body["messages"][1]["content"]) == ([{"text": "a"}, POINT], [use("c")])
    assert body["messages"][2]["content"][1:] == [POINT], "there are none within a result"
    dropped = ["[0].content[0]", "[2].content[0]", "[3].content[0].cache_control", "[3].content[1].cache_control"]
    assert list(built.dropped) == [f"messages{path}" for path in dropped]


def test_images_and_documents_are_sent_as_bytes() -> None:
    note = "data:text/markdown;charset=utf-8;base64,IyBO"
    parts = [
        {"type": "text", "text": " \n"},
        {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "data:image/jpg;base64,/9g="}},
        {"type": "file", "file": {"file_data": PDF, "filename": "a/b__c.\u00e9.pdf"}},
        {"type": "file", "file": {"file_data": PDF, "filename": "a/b__c.\u00e9.pdf"}},
        {"type": "file", "file": {"file_data": note}},
        {"type": "file", "file": {"file_data": "data:,plain"}},
        {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
        {"type": "file", "file": {"file_data": "s3://bucket/a.pdf"}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "file", "file": {"file_data": "data:application/zip;base64,AA=="}},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
        {"type": "video_url", "video_url": {"url": "x"}},
        {"type": "refusal", "refusal": "no"},
    ]
    built = build({"messages": [{"role": "user", "content": parts}]})
    assert json.loads(built.body)["messages"][0]["content"] == [
        {"image": {"format": "png", "source": {"bytes": "iVBORw=="}}},
        {"image": {"format": "jpeg", "source": {"bytes": "/9g="}}},
        {"document": {"format": "pdf", "name": "a b c", "source": {"bytes": "JVBERg=="}}},
        {"document": {"format": "pdf", "name": "a b c 2", "source": {"bytes": "JVBERg=="}}},
        {"document": {"format": "md", "name": "Document", "source": {"bytes": "IyBO"}}},
        {"document": {"format": "txt", "name": "Document 2", "source": {"bytes": "cGxhaW4="}}},
        {"text": "no"},
    ]
    at = "messages[0].content"
    assert list(built.dropped) == [f"{at}[1].image_url.detail", *(f"{at}[{i}]" for i in range(7, 13))]


def test_a_turn_with_calls() -> None:
    """All results stand in one message, in the order of the calls, before what the user says."""
    written = messages_of(
        USER,
        {**calls_of("c1", "c2"), "content": "Let me see."},
        {"role": "user", "content": "Well?"},
        answer("c2", "two"),
        answer("c1", "one"),
    )
    assert written[1:] == [
        {"role": "assistant", "content": [{"text": "Let me see."}, use("c1"), use("c2")]},
        {"role": "user", "content": [result("c1", "one"), result("c2", "two"), {"text": "Well?"}]},
    ]


def test_results() -> None:
    picture = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": PNG}}]
    written = messages_of(
        USER,
        calls_of("a", "b", "c", "d"),
        answer("a", picture),
        answer("b", " "),
        answer("c", "", is_error=True),
        answer("d", "bad", is_error=True),
    )
    assert [block["toolResult"] for block in written[2]["content"]] == [
        {
            "toolUseId": "a",
            "content": [{"text": "see"}, {"image": {"format": "png", "source": {"bytes": "iVBORw=="}}}],
        },
        {"toolUseId": "b", "content": []},
        {"toolUseId": "c", "content": [{"text": "Error"}], "status": "error"},
        {"toolUseId": "d", "content": [{"text": "bad"}], "status": "error"},
    ]


def test_arguments_are_an_object() -> None:
    custom = {"id": "c", "type": "custom", "custom": {"name": "h", "input": "x"}}
    turn = {
        "role": "assistant",
        "content": "",
        "tool_calls": [call("a", "f", '{"x":1}'), call("b", "f", '{"x'), custom],
    }
    assert messages_of(USER, turn)[1]["content"] == [
        use("a", x=1),
        use("b", INVALID_JSON='{"x'),
        use("c", "h", input="x"),
    ]


def test_legacy_calls_have_ids_of_ours() -> None:
    turn = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    written = messages_of(USER, turn, {"role": "function", "name": "f", "content": "1"})
    assert written[1:] == [
        {"role": "assistant", "content": [use("call_1")]},
        {"role": "user", "content": [result("call_1", "1")]},
    ]


@pytest.mark.parametrize(
    ("model", "id", "length"),
    [
        (CLAUDE, "functions.get:0", None),
        (CLAUDE, "x" * 65, 64),
        (CLAUDE, "a|b", 64),
        (MISTRAL, "abcDEF123", None),
        (MISTRAL, "call_1", 9),
    ],
)
def test_ids_of_other_vendors(model: str, id: str, length: int | None) -> None:
    """They are changed in the same way for the call and its result, if they are not accepted."""
    written = messages_of(USER, calls_of(id), answer(id), model=model)
    used = written[1]["content"][0]["toolUse"]["toolUseId"]
    assert written[2]["content"][0]["toolResult"]["toolUseId"] == used
    assert used == id if length is None else len(used) == length and used.isalnum()


CHOICES: list[tuple[str, Any, list[dict[str, Any]], Any, list[str]]] = [
    # model, tool_choice, tools sent, toolChoice sent, what was dropped
    (CLAUDE, "auto", [SPEC, OTHER_SPEC], None, []),
    (CLAUDE, "required", [SPEC, OTHER_SPEC], {"any": {}}, []),
    (CLAUDE, {"type": "function", "function": {"name": "g"}}, [SPEC, OTHER_SPEC], {"tool": {"name": "g"}}, []),
    (MISTRAL, {"type": "function", "function": {"name": "g"}}, [OTHER_SPEC], {"any": {}}, []),
    (MISTRAL, {"type": "function", "function": {"name": "x"}}, [SPEC, OTHER_SPEC], {"tool": {"name": "x"}}, []),
    (LLAMA, "required", [SPEC, OTHER_SPEC], None, ["tool_choice"]),
    (LLAMA, {"type": "function", "function": {"name": "g"}}, [SPEC, OTHER_SPEC], None, ["tool_choice"]),
    (
        NOVA,
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
        [SPEC],
        {"any": {}},
        [],
    ),
]


@pytest.mark.parametrize(("model", "choice", "tools", "written", "dropped"), CHOICES)
def test_choices(model: str, choice: Any, tools: list[Any], written: Any, dropped: list[str]) -> None:
    built = build({"tools": [TOOL, OTHER], "tool_choice": choice}, model)
    config = json.loads(built.body)["toolConfig"]
    assert (config["tools"], config.get("toolChoice")) == (tools, written)
    assert list(built.dropped) == dropped


def test_a_choice_of_none() -> None:
    """There is no word for it: without calls in the conversation the tools are left out, else they are required."""
    first = build({"tools": [TOOL], "tool_choice": "none"})
    assert "toolConfig" not in json.loads(first.body)
    assert first.dropped == ()
    history = [USER, calls_of("c1"), answer("c1")]
    second = build({"tools": [TOOL], "tool_choice": "none", "messages": history})
    assert json.loads(second.body)["toolConfig"] == {"tools": [SPEC]}
    assert second.dropped == ("tool_choice",)


def test_a_conversation_with_calls_has_tools() -> None:
    turn = {"role": "assistant", "content": None, "tool_calls": [call("a", "g"), call("b", "g"), call("c", "h")]}
    built = build({"messages": [USER, turn, answer("a"), answer("b"), answer("c")], "tool_choice": "required"})
    tools = json.loads(built.body)["toolConfig"]["tools"]
    assert [tool["toolSpec"]["name"] for tool in tools] == ["g", "h"]
    assert built.dropped == ("tool_choice",)


def test_tools() -> None:
    strict = {
        "type": "function",
        "function": {"name": "s", "strict": True, "description": " ", "parameters": {"properties": {}}},
    }
    tools = [strict, {"type": "custom", "custom": {"name": "c"}}, {"type": "web_search_20250305", "name": "web_search"}]
    built = build({"tools": tools}, CLAUDE)
    spec = {"name": "s", "inputSchema": {"json": {"type": "object", "properties": {}}}, "strict": True}
    assert json.loads(built.body)["toolConfig"] == {"tools": [{"toolSpec": spec}]}
    assert built.dropped == ("tools[1]", "tools[2]")
    assert build({"tools": [strict]}, OLD_CLAUDE).dropped == ("tools[0].function.strict",)
    assert build({"functions": [{"name": "s", "strict": True}]}).dropped == ("functions[0].strict",)
    assert "toolConfig" not in sent({"tools": tools[1:]})


def test_a_forced_call_and_a_budget_exclude_each_other() -> None:
    built = build({"tools": [TOOL], "tool_choice": "required", "reasoning": {"max_tokens": 2000}}, CLAUDE)
    assert "additionalModelRequestFields" not in json.loads(built.body)
    assert built.dropped == ("reasoning.max_tokens",)
    history = [USER, calls_of("c1"), answer("c1")]
    assert build({"messages": history, "tools": [TOOL], "reasoning_effort": "low"}, CLAUDE).dropped == (
        "reasoning_effort",
    )


SIGNED = {"type": "reasoning.text", "text": "hm", "signature": "s", "format": "anthropic-claude-v1", "index": 0}
REDACTED = {"type": "reasoning.encrypted", "data": "EgAA", "format": "anthropic-claude-v1", "index": 1}
SEALED = {"type": "reasoning.encrypted", "data": "Z0E=", "format": "bedrock-converse-v1", "index": 0}
SIGNED_BLOCK = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}
REDACTED_BLOCK = {"reasoningContent": {"redactedContent": base64.b64encode(b"EgAA").decode()}}
SEALED_BLOCK = {"reasoningContent": {"redactedContent": "Z0E="}}
DETAILS: list[tuple[str, list[dict[str, Any]], list[dict[str, Any]], list[int]]] = [
    # model, reasoning_details, blocks of the assistant's message, the entries that were dropped
    (CLAUDE, [SIGNED, REDACTED], [SIGNED_BLOCK, REDACTED_BLOCK, {"text": "t"}, use("c")], []),
    (CLAUDE, [{**SIGNED, "index": 1}], [{"text": "t"}, SIGNED_BLOCK, use("c")], []),
    (CLAUDE, [{**SIGNED, "index": 9}], [{"text": "t"}, use("c"), SIGNED_BLOCK], []),
    (CLAUDE, [{**SIGNED, "signature": None}, {**SIGNED, "text": None}], [SIGNED_BLOCK, {"text": "t"}, use("c")], []),
    (CLAUDE, [{"type": "reasoning.text", "text": "hm"}, SEALED], [{"text": "t"}, use("c")], [1, 0]),
    (
        CLAUDE,
        [{**REDACTED, "format": "google-gemini-v1"}, {"type": "reasoning.summary", "summary": "x"}],
        [{"text": "t"}, use("c")],
        [0, 1],
    ),
    (GPT, [SEALED, SIGNED, REDACTED], [SEALED_BLOCK, {"text": "t"}, use("c")], [1, 2]),
    (PROFILE, [SEALED, {**SIGNED, "index": 1}], [SEALED_BLOCK, SIGNED_BLOCK, {"text": "t"}, use("c")], []),
]


@pytest.mark.parametrize(("model", "details", "blocks", "dropped"), DETAILS)
def test_reasoning_goes_back_to_its_place(model: str, details: Any, blocks: Any, dropped: list[int]) -> None:
    turn = {"role": "assistant", "content": "t", "tool_calls": [call("c")], "reasoning_details": details}
    built = build({"messages": [USER, turn, answer("c")], "tools": [TOOL]}, model)
    assert json.loads(built.body)["messages"][1]["content"] == blocks
    assert list(built.dropped) == [f"messages[1].reasoning_details[{j}]" for j in dropped]


def test_reasoning_text_alone_is_left_out() -> None:
    built = build({"messages": [USER, {"role": "assistant", "content": "t", "reasoning": "hm"}]}, CLAUDE)
    assert built.dropped == ("messages[1].reasoning",)


def test_cache_points() -> None:
    marked = {"type": "text", "text": "a", "cache_control": MARK}
    body = sent(
        {
            "tools": [{**TOOL, "cache_control": {**MARK, "ttl": "1h"}}, OTHER],
            "messages": [
                {"role": "system", "content": "S", "cache_control": {**MARK, "ttl": "5m"}},
                {"role": "user", "content": [marked, {"type": "text", "text": "b"}]},
                calls_of("c1"),
                answer("c1", [marked, {"type": "text", "text": "x"}]),
            ],
        },
        CLAUDE,
    )
    assert body["toolConfig"]["tools"] == [SPEC, {"cachePoint": {"type": "default", "ttl": "1h"}}, OTHER_SPEC]
    assert body["system"] == [{"text": "S"}, POINT]
    assert body["messages"][0]["content"] == [{"text": "a"}, POINT, {"text": "b"}]
    assert body["messages"][2]["content"][1:] == [POINT]


def test_too_many_cache_points() -> None:
    """The last four stay: they cover the longest beginnings of the prompt."""
    parts = [{"type": "text", "text": str(i), "cache_control": MARK} for i in range(4)]
    built = build(
        {
            "tools": [{**TOOL, "cache_control": MARK}],
            "messages": [{"role": "system", "content": "S", "cache_control": MARK}, {"role": "user", "content": parts}],
        },
        CLAUDE,
    )
    body = json.loads(built.body)
    assert (body["toolConfig"]["tools"], body["system"]) == ([SPEC], [{"text": "S"}])
    assert body["messages"][0]["content"].count(POINT) == 4
    assert built.dropped == ("tools[0].cache_control", "messages[0].cache_control")


DOCUMENT = {"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}}
PAGES = {"document": {"format": "pdf", "name": "a", "source": {"bytes": "JVBERg=="}}}
IMAGE = {"image": {"format": "png", "source": {"bytes": "iVBORw=="}}}
WORD = {"type": "text", "text": "a"}
MARKED = "messages[0].content[0].cache_control"
PLACES: list[tuple[str, list[dict[str, Any]], list[dict[str, Any]], list[str]]] = [
    (
        "behind an image",
        [{"type": "image_url", "image_url": {"url": PNG}, "cache_control": MARK}],
        [IMAGE, POINT],
        [],
    ),
    ("not behind a document", [WORD, {**DOCUMENT, "cache_control": MARK}], [{"text": "a"}, POINT, PAGES], []),
    ("not at the beginning", [{**DOCUMENT, "cache_control": MARK}, WORD], [PAGES, {"text": "a"}], [MARKED]),
    (
        "not twice",
        [{**WORD, "cache_control": MARK}, {**DOCUMENT, "cache_control": MARK}],
        [{"text": "a"}, POINT, PAGES],
        [],
    ),
    ("of another type", [{**WORD, "cache_control": {"type": "x"}}], [{"text": "a"}], [MARKED]),
    (
        "of another time",
        [{**WORD, "cache_control": {**MARK, "ttl": "2h"}}],
        [{"text": "a"}, POINT],
        [f"{MARKED}.ttl"],
    ),
]


@pytest.mark.parametrize(("parts", "blocks", "dropped"), [row[1:] for row in PLACES], ids=[row[0] for row in PLACES])
def test_places_of_cache_points(parts: Any, blocks: Any, dropped: list[str]) -> None:
    built = build({"messages": [{"role": "user", "content": parts}]}, CLAUDE)
    assert json.loads(built.body)["messages"][0]["content"] == blocks
    assert list(built.dropped) == dropped


def test_models_without_cache_points() -> None:
    tools = [{**TOOL, "cache_control": MARK}]
    messages = [{"role": "user", "content": "a", "cache_control": {**MARK, "ttl": "1h"}}]
    nova = build({"tools": tools, "messages": messages})
    assert json.loads(nova.body)["messages"][0]["content"] == [{"text": "a"}, POINT]
    assert nova.dropped == ("tools[0].cache_control", "messages[0].cache_control.ttl")
    llama = build({"tools": tools, "messages": messages}, LLAMA)
    assert POINT not in json.loads(llama.body)["messages"][0]["content"]
    assert llama.dropped == ("tools[0].cache_control", "messages[0].cache_control")


def test_a_reasoning_block_is_not_followed_by_a_cache_point() -> None:
    turn = {"role": "assistant", "content": "", "reasoning_details": [SIGNED], "cache_control": MARK}
    assert messages_of(USER, {**turn, "content": "t"})[1]["content"] == [SIGNED_BLOCK, {"text": "t"}, POINT]
    assert messages_of(USER, turn)[1]["content"] == [SIGNED_BLOCK]


def test_very_many_documents_of_one_name() -> None:
    parts = [{**DOCUMENT, "cache_control": MARK}, {"type": "text", "text": "a", "cache_control": MARK}] * 300
    blocks = json.loads(build({"messages": [{"role": "user", "content": parts}]}, CLAUDE).body)["messages"][0][
        "content"
    ]
    names = [block["document"]["name"] for block in blocks if "document" in block]
    assert names == ["a", *(f"a {i}" for i in range(2, 301))]
    assert blocks.count(POINT) == 4
    assert blocks[-2:] == [{"text": "a"}, POINT]


def test_choices_are_refused_before_the_call() -> None:
    request = read_request({"model": "m", "messages": [USER], "n": 2})
    refusal = PROVIDER.refusal_of(request, NOVA)
    assert refusal is not None
    assert (refusal.code, refusal.param) == ("invalid_value", "n")


@pytest.mark.parametrize(
    ("model", "is_known"),
    [
        (CLAUDE, True),
        ("arn:aws:bedrock:us-east-1::foundation-model/amazon.nova-pro-v1:0", True),
        ("arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.deepseek.r1-v1:0", True),
        ("us.ai21.jamba-1-5-large-v1:0", True),
        ("xai.grok-4.3", True),
        (PROFILE, False),
        ("my-own-model", False),
    ],
)
def test_whose_model_it_is(model: str, is_known: bool) -> None:
    assert (traits_of(model) is not UNKNOWN) is is_known
