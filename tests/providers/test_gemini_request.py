"""A chat request to Gemini's: addresses, messages, tools, output, and what is left out by name."""

import json
from typing import Any

import pytest

from streamweir.core.request import read_request
from streamweir.providers.base import Target, UpstreamRequest
from streamweir.providers.gemini import PROVIDER

STUDIO = Target(model="gemini-2.5-flash", api_key="studio-key")
VERTEX = Target(model="gemini-2.5-flash", api_key="token", project="my project", location="europe-west4")
HELLO = {"role": "user", "content": "Hello"}
HELLO_CONTENT = {"role": "user", "parts": [{"text": "Hello"}]}
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def build(target: Target = STUDIO, **members: Any) -> UpstreamRequest:
    return PROVIDER.build_request(read_request({"model": "m", "messages": [HELLO], **members}), target)


def body_of(built: UpstreamRequest) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(built.body)
    return body


def config_of(built: UpstreamRequest) -> dict[str, Any]:
    config: dict[str, Any] = body_of(built).get("generationConfig", {})
    return config


def contents_of(*messages: dict[str, Any], target: Target = STUDIO) -> list[Any]:
    contents: list[Any] = body_of(build(target, messages=list(messages)))["contents"]
    return contents


@pytest.mark.parametrize(
    ("target", "stream", "path"),
    [
        (STUDIO, True, "/models/gemini-2.5-flash:streamGenerateContent?alt=sse"),
        (STUDIO, False, "/models/gemini-2.5-flash:generateContent"),
        (Target(model="models/gemini-x"), False, "/models/gemini-x:generateContent"),
        (Target(model="a/../b?c#d"), False, "/models/a%2F..%2Fb%3Fc%23d:generateContent"),
        (
            VERTEX,
            True,
            "/projects/my%20project/locations/europe-west4/publishers/google/models/gemini-2.5-flash"
            ":streamGenerateContent?alt=sse",
        ),
        (
            Target(model="publishers/google/models/g", project="p"),
            False,
            "/projects/p/locations/global/publishers/google/models/g:generateContent",
        ),
        (
            Target(model="g", project="p"),
            False,
            "/projects/p/locations/global/publishers/google/models/g:generateContent",
        ),
    ],
)
def test_addresses(target: Target, stream: bool, path: str) -> None:
    assert build(target, stream=stream).path == path


def test_keys() -> None:
    whole = (("content-type", "application/json"), ("accept", "application/json"))
    assert build().headers == (("x-goog-api-key", "studio-key"), *whole)
    assert build(VERTEX).headers == (("authorization", "Bearer token"), *whole)
    assert build(Target(model="g")).headers == whole
    assert dict(build(stream=True).headers)["accept"] == "text/event-stream"


def test_the_least_request() -> None:
    built = build(stream=True, stream_options={"include_usage": True})
    assert body_of(built) == {"contents": [HELLO_CONTENT]}
    assert built.dropped == ()


def test_roles_and_merging() -> None:
    built = build(
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
            HELLO,
            {"role": "user", "content": [{"type": "text", "text": "there"}]},
            {"role": "assistant", "content": "Hi."},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
            {"role": "system", "content": "Later."},
            {"role": "assistant", "content": None, "refusal": "Never."},
            {"role": "user", "content": ""},
        ]
    )
    assert body_of(built) == {
        "contents": [
            {"role": "user", "parts": [{"text": "Hello"}, {"text": "there"}]},
            {"role": "model", "parts": [{"text": "Hi."}, {"text": "No."}, {"text": "Never."}]},
        ],
        "systemInstruction": {"parts": [{"text": "Be brief."}, {"text": "Be kind."}, {"text": "Later."}]},
    }
    assert built.dropped == ()


def test_instructions_alone_become_the_users_message() -> None:
    built = build(messages=[{"role": "system", "content": "Say hello."}])
    assert body_of(built) == {"contents": [{"role": "user", "parts": [{"text": "Say hello."}]}]}


def called(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_calls_and_results() -> None:
    messages: list[dict[str, Any]] = [
        HELLO,
        {"role": "assistant", "tool_calls": [called("c1", "weather", '{"city": "Rome"}'), called("c2", "now", "")]},
        {"role": "tool", "tool_call_id": "c2", "content": "noon"},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": '{"sky": "blue"}'}]},
        {"role": "tool", "tool_call_id": "c1", "content": "too late", "is_error": True},
        {"role": "tool", "tool_call_id": "c9", "content": "[1]", "name": "lost"},
        {"role": "tool", "tool_call_id": "c8", "content": "{}"},
    ]
    assert contents_of(*messages) == [
        HELLO_CONTENT,
        {
            "role": "model",
            "parts": [
                {"functionCall": {"name": "weather", "args": {"city": "Rome"}, "id": "c1"}},
                {"functionCall": {"name": "now", "args": {}, "id": "c2"}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "now", "response": {"result": "noon"}, "id": "c2"}},
                {"functionResponse": {"name": "weather", "response": {"sky": "blue"}, "id": "c1"}},
                {"functionResponse": {"name": "weather", "response": {"error": "too late"}, "id": "c1"}},
                {"functionResponse": {"name": "lost", "response": {"result": "[1]"}, "id": "c9"}},
                {"functionResponse": {"name": "c8", "response": {}, "id": "c8"}},
            ],
        },
    ]
    for content in contents_of(*messages, target=VERTEX):  # Vertex refuses the ids
        for part in content["parts"]:
            assert "id" not in part.get("functionCall", part.get("functionResponse", {}))


def test_an_image_in_a_result_stands_beside_it() -> None:
    content = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": PIXEL}}]
    (_, last) = contents_of(
        {"role": "assistant", "tool_calls": [called("c1", "look", "{}")]},
        {"role": "tool", "tool_call_id": "c1", "content": content},
    )
    assert [list(part) for part in last["parts"]] == [["functionResponse"], ["inlineData"]]


def test_legacy_calls_and_results() -> None:
    contents = contents_of(
        {"role": "assistant", "content": "One moment.", "function_call": {"name": "f", "arguments": '{"a":1}'}},
        {"role": "function", "name": "f", "content": "ok"},
        {"role": "function", "name": "g", "content": None},
    )
    assert contents == [
        {"role": "model", "parts": [{"text": "One moment."}, {"functionCall": {"name": "f", "args": {"a": 1}}}]},
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "f", "response": {"result": "ok"}}},
                {"functionResponse": {"name": "g", "response": {"result": ""}}},
            ],
        },
    ]


@pytest.mark.parametrize(
    ("arguments", "args"),
    [
        ("", {}),
        (" ", {}),
        ('{"a": [1]}', {"a": [1]}),
        ("[1]", {"INVALID_JSON": "[1]"}),
        ('{"a":', {"INVALID_JSON": '{"a":'}),
        ("[" * 5000, {"INVALID_JSON": "[" * 5000}),
    ],
)
def test_arguments_are_an_object(arguments: str, args: dict[str, Any]) -> None:
    (content,) = contents_of({"role": "assistant", "tool_calls": [called("c", "f", arguments)]})
    assert content["parts"][0]["functionCall"]["args"] == args


def test_a_custom_call_keeps_its_input() -> None:
    call = {"id": "c", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    (content,) = contents_of({"role": "assistant", "tool_calls": [call]})
    assert content["parts"] == [{"functionCall": {"name": "shell", "args": {"input": "ls"}, "id": "c"}}]


def image(url: str, **members: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **members}}


def file(**members: Any) -> dict[str, Any]:
    return {"type": "file", "file": members}


def inline(kind: str, data: str) -> dict[str, Any]:
    return {"inlineData": {"mimeType": kind, "data": data}}


def at(uri: str, kind: str | None = None) -> dict[str, Any]:
    return {"fileData": {"fileUri": uri, **({"mimeType": kind} if kind else {})}}


@pytest.mark.parametrize(
    ("part", "studio", "vertex"),
    [
        (image(PIXEL), inline("image/png", "iVBORw0KGgo="), None),
        (image("DATA:image/webp;x=y;BASE64,AA=="), inline("image/webp", "AA=="), None),
        (image("data:image/svg+xml,%3Csvg/%3E"), inline("image/svg+xml", "PHN2Zy8+"), None),
        (image("data:,hi"), inline("text/plain", "aGk="), None),
        (image("https://x.example/a.PNG?size=1"), at("https://x.example/a.PNG?size=1", "image/png"), None),
        (image("https://x.example/a"), at("https://x.example/a"), at("https://x.example/a", "image/jpeg")),
        ({"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}, inline("audio/wav", "AA"), None),
        ({"type": "input_audio", "input_audio": {"data": "AA", "format": "pcm16"}}, inline("audio/pcm", "AA"), None),
        (file(file_data="data:application/pdf;base64,AA"), inline("application/pdf", "AA"), None),
        (file(file_data="AA"), inline("application/pdf", "AA"), None),
        (file(file_data="AA", filename="notes.txt"), inline("text/plain", "AA"), None),
        (file(file_data="https://x.example/y", filename="y.pdf"), at("https://x.example/y", "application/pdf"), None),
        (file(file_id="https://g.example/v1beta/files/abc"), at("https://g.example/v1beta/files/abc"), None),
    ],
)
def test_media(part: dict[str, Any], studio: dict[str, Any], vertex: dict[str, Any] | None) -> None:
    message = {"role": "user", "content": [part]}
    assert contents_of(message) == [{"role": "user", "parts": [studio]}]
    assert contents_of(message, target=VERTEX) == [{"role": "user", "parts": [vertex or studio]}]


@pytest.mark.parametrize(
    ("messages", "dropped"),
    [
        ([{"role": "user", "content": [file(file_id="file-abc")]}], ("messages[0].content[0]",)),
        ([{"role": "user", "content": [file()]}], ("messages[0].content[0]",)),
        ([{"role": "user", "content": [image("data:image/png")]}], ("messages[0].content[0]",)),
        ([{"role": "user", "content": [image("a.png")]}], ("messages[0].content[0]",)),
        ([{"role": "user", "content": [image("gs://bucket/a.webp")]}], ("messages[0].content[0]",)),
        ([{"role": "user", "content": [{"type": "video_url", "video_url": {}}]}], ("messages[0].content[0]",)),
        ([{"role": "system", "content": [image(PIXEL)]}], ("messages[0].content[0]",)),
        ([{"role": "user", "content": [image(PIXEL, detail="low")]}], ("messages[0].content[0].image_url.detail",)),
        ([{"role": "user", "content": [image(PIXEL, detail="auto")]}], ()),
        ([{**HELLO, "name": "ann"}], ("messages[0].name",)),
        ([{**HELLO, "cache_control": {"type": "ephemeral"}}], ("messages[0].cache_control",)),
        (
            [{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]}],
            ("messages[0].content[0].cache_control",),
        ),
    ],
)
def test_what_messages_lose_is_named(messages: list[dict[str, Any]], dropped: tuple[str, ...]) -> None:
    assert build(messages=messages).dropped == dropped


SCHEMA = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}}


def function(name: str, **members: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **members}}


def test_tools_keep_their_schema() -> None:
    built = build(
        tools=[function("f", description="Does f.", parameters=SCHEMA, strict=True), function("g", parameters={})]
    )
    assert body_of(built)["tools"] == [
        {
            "functionDeclarations": [
                {"name": "f", "description": "Does f.", "parametersJsonSchema": SCHEMA},
                {"name": "g"},
            ]
        }
    ]
    assert "toolConfig" not in body_of(built)
    assert built.dropped == ("tools[0].function.strict",)


def test_legacy_functions_are_tools() -> None:
    functions = [{"name": "f", "parameters": SCHEMA, "strict": True}]
    built = build(functions=functions, function_call={"name": "f"})
    assert body_of(built)["tools"] == [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": SCHEMA}]}]
    assert body_of(built)["toolConfig"] == {
        "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]},
    }
    assert built.dropped == ("functions[0].strict",)


def test_tools_of_googles_own_and_those_of_others() -> None:
    built = build(
        tools=[
            {"type": "google_search"},
            {"type": "codeExecution", "codeExecution": {"x": 1}},
            {"type": "web_search_preview"},
            {"type": "custom", "custom": {"name": "c"}, "cache_control": {"type": "ephemeral"}},
        ],
        tool_choice="auto",
    )
    assert body_of(built)["tools"] == [{"googleSearch": {}}, {"codeExecution": {"x": 1}}]
    assert "toolConfig" not in body_of(built)
    assert built.dropped == ("tools[2]", "tools[3].cache_control", "tools[3]")


@pytest.mark.parametrize(
    ("choice", "config", "shown"),
    [
        ("auto", {"mode": "AUTO"}, ["f", "g"]),
        ("none", {"mode": "NONE"}, ["f", "g"]),
        ("required", {"mode": "ANY"}, ["f", "g"]),
        (
            {"type": "function", "function": {"name": "g"}},
            {"mode": "ANY", "allowedFunctionNames": ["g"]},
            ["f", "g"],
        ),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [function("g")]}},
            {"mode": "ANY", "allowedFunctionNames": ["g"]},
            ["f", "g"],
        ),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [function("g")]}},
            {"mode": "AUTO"},
            ["g"],
        ),
    ],
)
def test_tool_choice(choice: Any, config: dict[str, Any], shown: list[str]) -> None:
    body = body_of(build(tools=[function("f"), function("g")], tool_choice=choice))
    assert body["toolConfig"] == {"functionCallingConfig": config}
    assert [declared["name"] for declared in body["tools"][0]["functionDeclarations"]] == shown


@pytest.mark.parametrize(
    ("members", "config"),
    [
        ({"max_tokens": 10}, {"maxOutputTokens": 10}),
        ({"max_completion_tokens": 11, "max_tokens": 10}, {"maxOutputTokens": 11}),
        ({"temperature": 0, "top_p": 0.5, "top_k": 40}, {"temperature": 0, "topP": 0.5, "topK": 40}),
        ({"top_k": 0}, {}),
        ({"seed": 7}, {"seed": 7}),
        ({"seed": -(2**31)}, {"seed": -(2**31)}),
        ({"presence_penalty": 0, "frequency_penalty": 0.0}, {}),
        ({"n": 3}, {"candidateCount": 3}),
        ({"n": 1}, {}),
        ({"stop": "END"}, {"stopSequences": ["END"]}),
        ({"stop": []}, {}),
        ({"logprobs": True}, {"responseLogprobs": True}),
        ({"logprobs": True, "top_logprobs": 4}, {"responseLogprobs": True, "logprobs": 4}),
        ({"logprobs": False}, {}),
        ({"response_format": {"type": "text"}}, {}),
        ({"response_format": {"type": "json_object"}}, {"responseMimeType": "application/json"}),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
            {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA},
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
            {"responseMimeType": "application/json"},
        ),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "description": "An x.", "schema": {"type": "object"}},
                }
            },
            {
                "responseMimeType": "application/json",
                "responseJsonSchema": {"type": "object", "description": "An x."},
            },
        ),
        ({"modalities": ["text"]}, {}),
        ({"modalities": ["text", "image"]}, {"responseModalities": ["TEXT", "IMAGE"]}),
        ({"modalities": ["audio"]}, {"responseModalities": ["AUDIO"]}),
    ],
)
def test_generation_config(members: dict[str, Any], config: dict[str, Any]) -> None:
    built = build(**members)
    assert config_of(built) == config
    assert ("generationConfig" in body_of(built)) == bool(config)
    assert built.dropped == ()


@pytest.mark.parametrize(
    ("target", "are_taken"),
    [
        (STUDIO, False),
        (Target(model="gemini-flash-latest"), False),
        (Target(model="gemini-2.0-flash"), True),
        (VERTEX, True),
    ],
)
def test_penalties(target: Target, are_taken: bool) -> None:
    built = build(target, presence_penalty=0.5, frequency_penalty=-1)
    assert config_of(built) == ({"presencePenalty": 0.5, "frequencyPenalty": -1} if are_taken else {})
    assert built.dropped == (() if are_taken else ("presence_penalty", "frequency_penalty"))


@pytest.mark.parametrize(
    ("members", "dropped"),
    [
        ({"seed": 2**31}, ("seed",)),
        ({"web_search_options": {}}, ("web_search_options",)),
        ({"top_logprobs": 2}, ("top_logprobs",)),
        ({"top_logprobs": 0, "verbosity": "medium", "made_up": None}, ()),
        ({"tool_choice": "required"}, ("tool_choice",)),
        ({"function_call": {"name": "f"}}, ("function_call",)),
        ({"tool_choice": "none"}, ()),
        ({"stream": True, "stream_options": {"include_obfuscation": True}}, ("stream_options.include_obfuscation",)),
        ({"stop": list("abcdefg")}, ("stop[5]", "stop[6]")),
        ({"modalities": ["text", "smell"]}, ("modalities[1]",)),
        ({"parallel_tool_calls": False}, ("parallel_tool_calls",)),
        ({"parallel_tool_calls": True, "store": False, "logit_bias": {}}, ()),
        ({"logit_bias": {"5": 1}, "user": "u"}, ("logit_bias", "user")),
        ({"store": True, "metadata": {"a": "b"}}, ("store", "metadata")),
        ({"audio": {"voice": "x"}, "prediction": {"type": "content"}}, ("audio", "prediction")),
        ({"verbosity": "low", "web_search_options": {"a": 1}}, ("verbosity", "web_search_options")),
        ({"prompt_cache_key": "k", "safety_identifier": "s"}, ("prompt_cache_key", "safety_identifier")),
        ({"something": 1, "labels": {"a": "b"}}, ("something", "labels")),
        ({"service_tier": "scale"}, ("service_tier",)),
    ],
)
def test_what_cannot_be_taken_is_named(members: dict[str, Any], dropped: tuple[str, ...]) -> None:
    built = build(**members)
    assert built.dropped == dropped
    if members.get("stop"):
        assert config_of(built)["stopSequences"] == list("abcde")
    else:
        assert body_of(built) == {"contents": [HELLO_CONTENT]}


def test_members_of_geminis_own() -> None:
    settings = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    built = build(VERTEX, safety_settings=settings, cachedContent="cachedContents/x", labels={"team": "a"})
    body = body_of(built)
    assert (body["safetySettings"], body["cachedContent"], body["labels"]) == (
        settings,
        "cachedContents/x",
        {"team": "a"},
    )
    assert built.dropped == ()


@pytest.mark.parametrize(
    ("tier", "sent"),
    [("flex", "flex"), ("priority", "priority"), ("default", "standard"), ("auto", None), (None, None)],
)
def test_service_tier(tier: str | None, sent: str | None) -> None:
    built = build(service_tier=tier)
    assert body_of(built).get("serviceTier") == sent
    assert built.dropped == ()
    on_vertex = build(VERTEX, service_tier=tier)
    assert "serviceTier" not in body_of(on_vertex)
    assert on_vertex.dropped == (("service_tier",) if tier in ("flex", "priority") else ())


THINKING: list[tuple[str, dict[str, Any], dict[str, Any], tuple[str, ...]]] = [
    ("gemini-2.5-flash", {}, {}, ()),
    ("gemini-2.5-flash", {"reasoning_effort": "none"}, {"thinkingBudget": 0}, ()),
    ("gemini-2.5-flash", {"reasoning": {"enabled": False}}, {"thinkingBudget": 0}, ()),
    ("gemini-2.5-flash", {"reasoning": {"max_tokens": 0}}, {"thinkingBudget": 0}, ()),
    ("gemini-2.5-flash", {"reasoning_effort": "low"}, {"thinkingBudget": 1024, "includeThoughts": True}, ()),
    ("gemini-2.5-flash", {"reasoning_effort": "medium"}, {"thinkingBudget": 8192, "includeThoughts": True}, ()),
    ("gemini-2.5-flash", {"reasoning_effort": "max"}, {"thinkingBudget": 24576, "includeThoughts": True}, ()),
    ("gemini-2.5-pro", {"reasoning_effort": "xhigh"}, {"thinkingBudget": 32768, "includeThoughts": True}, ()),
    (
        "gemini-2.5-pro",
        {"reasoning_effort": "none"},
        {"thinkingBudget": 128, "includeThoughts": True},
        ("reasoning_effort",),
    ),
    (
        "gemini-2.5-pro",
        {"reasoning": {"max_tokens": 0}},
        {"thinkingBudget": 128, "includeThoughts": True},
        ("reasoning.max_tokens",),
    ),
    ("gemini-2.5-pro", {"reasoning": {"max_tokens": 99999, "exclude": True}}, {"thinkingBudget": 32768}, ()),
    ("gemini-2.5-flash-lite", {"reasoning": {"max_tokens": 3, "exclude": True}}, {"thinkingBudget": 512}, ()),
    ("gemini-robotics-er-1.5", {"reasoning_effort": "high"}, {"thinkingBudget": 24576, "includeThoughts": True}, ()),
    ("gemini-flash-latest", {"reasoning_effort": "high"}, {"thinkingLevel": "high", "includeThoughts": True}, ()),
    ("gemini-flash-latest", {"reasoning_effort": "minimal"}, {"thinkingLevel": "low", "includeThoughts": True}, ()),
    (
        "gemini-flash-lite-latest",
        {"reasoning_effort": "minimal"},
        {"thinkingLevel": "minimal", "includeThoughts": True},
        (),
    ),
    ("gemini-2.5-flash", {"reasoning": {"enabled": True}}, {"includeThoughts": True}, ()),
    ("gemini-2.5-flash", {"reasoning": {"enabled": True, "exclude": True}}, {}, ()),
    ("gemini-2.5-flash", {"reasoning_effort": "fierce"}, {"includeThoughts": True}, ("reasoning_effort",)),
    ("gemini-2.5-flash", {"reasoning": {"effort": "fierce"}}, {"includeThoughts": True}, ("reasoning.effort",)),
    ("gemini-3-pro-preview", {"reasoning_effort": "low"}, {"thinkingLevel": "low", "includeThoughts": True}, ()),
    ("gemini-3-pro-preview", {"reasoning_effort": "medium"}, {"thinkingLevel": "high", "includeThoughts": True}, ()),
    ("gemini-3-pro-preview", {"reasoning_effort": "minimal"}, {"thinkingLevel": "low", "includeThoughts": True}, ()),
    ("gemini-3.1-pro", {"reasoning_effort": "medium"}, {"thinkingLevel": "medium", "includeThoughts": True}, ()),
    ("gemini-3-flash", {"reasoning_effort": "minimal"}, {"thinkingLevel": "minimal", "includeThoughts": True}, ()),
    ("gemini-3.8-flash", {"reasoning_effort": "minimal"}, {"thinkingLevel": "low", "includeThoughts": True}, ()),
    ("gemini-3.8-flash-lite", {"reasoning_effort": "xhigh"}, {"thinkingLevel": "high", "includeThoughts": True}, ()),
    (
        "publishers/google/models/gemini-3-flash",
        {"reasoning_effort": "none"},
        {"thinkingLevel": "minimal", "includeThoughts": True},
        ("reasoning_effort",),
    ),
    (
        "gemini-3-flash",
        {"reasoning": {"enabled": False, "exclude": True}},
        {"thinkingLevel": "minimal"},
        ("reasoning.enabled",),
    ),
    ("gemini-3-flash", {"reasoning": {"max_tokens": 2000, "exclude": True}}, {"thinkingBudget": 2000}, ()),
    ("gemini-2.0-flash", {"reasoning_effort": "high"}, {}, ("reasoning_effort",)),
    ("gemini-2.0-flash", {"reasoning_effort": "none"}, {}, ()),
    ("gemma-3-27b-it", {"reasoning": {"max_tokens": 100}}, {}, ("reasoning.max_tokens",)),
    ("gemma-3-27b-it", {"reasoning": {"enabled": True}}, {}, ()),
]


@pytest.mark.parametrize(("model", "members", "config", "dropped"), THINKING)
def test_thinking(model: str, members: dict[str, Any], config: dict[str, Any], dropped: tuple[str, ...]) -> None:
    built = build(Target(model=model), **members)
    assert config_of(built).get("thinkingConfig", {}) == config
    assert built.dropped == dropped
