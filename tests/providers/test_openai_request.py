"""What is sent to OpenAI-style vendors: the caller's body, changed as each vendor's row says."""

from typing import Any

import pytest

from streamweir.core.request import read_request
from streamweir.providers.azure import PROVIDER as AZURE
from streamweir.providers.base import Target
from streamweir.providers.compatible import VENDORS, Vendor, provider_of
from streamweir.providers.openai.request import write_body
from streamweir.providers.openai.vendor import Effort
from streamweir.wire import jsonio

HELLO: dict[str, Any] = {"role": "user", "content": "hello"}


def sent_by(vendor: Vendor | str, body: dict[str, Any], **target: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The body that goes to a vendor for a caller's body, and what was dropped."""
    row = VENDORS[vendor] if isinstance(vendor, str) else vendor
    request = read_request({"model": "asked/for", "messages": [HELLO], **body})
    before = jsonio.encode(request.body)
    written, dropped = write_body(request, Target(model="their-name", **target), row)
    assert jsonio.encode(request.body) == before, "the caller's body is never touched"
    return jsonio.decode(written), dropped


def plain(**fields: Any) -> Vendor:
    return Vendor(name="x", base_url="https://x.example/v1", **fields)


EVERYTHING: dict[str, Any] = {
    "stream": True,
    "stream_options": {"include_obfuscation": False},
    "n": 2,
    "max_completion_tokens": 100,
    "temperature": 1.8,
    "top_p": 0.5,
    "top_k": 5,
    "stop": ["x"],
    "seed": 7,
    "presence_penalty": 1.0,
    "frequency_penalty": 1.0,
    "logit_bias": {"1": 1},
    "logprobs": True,
    "top_logprobs": 2,
    "user": "u",
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {}}},
    "prediction": {"type": "content", "content": "x"},
    "reasoning_effort": "low",
    "verbosity": "low",
    "service_tier": "flex",
    "store": True,
    "metadata": {"a": "b"},
    "prompt_cache_key": "k",
    "safety_identifier": "s",
    "my_own": {"kept": True},
}
LEFT_OUT = {
    "openai": ("top_k",),
    "openai-compatible": (),
    "openrouter": (),
    "groq": ("logit_bias", "logprobs", "metadata", "n", "prediction", "store", "top_logprobs"),
    "mistral": (
        "logit_bias",
        "logprobs",
        "prompt_cache_key",
        "safety_identifier",
        "service_tier",
        "store",
        "stream_options.include_obfuscation",
        "top_k",
        "top_logprobs",
        "user",
        "verbosity",
    ),
    "deepseek": ("logit_bias", "n", "response_format", "seed"),
    "xai": ("logit_bias", "metadata", "store"),
    "together": (),
    "fireworks": (),
    "cerebras": ("frequency_penalty", "logit_bias", "parallel_tool_calls", "presence_penalty", "service_tier"),
    "perplexity": (
        "logit_bias",
        "logprobs",
        "n",
        "parallel_tool_calls",
        "seed",
        "stream_options.include_obfuscation",
        "tool_choice",
        "tools",
        "top_logprobs",
    ),
    "nvidia": (),
    "huggingface": (),
    "moonshot": (),
    "zai": (
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "n",
        "parallel_tool_calls",
        "presence_penalty",
        "response_format",
        "seed",
        "stream_options.include_obfuscation",
        "tool_choice",
        "top_logprobs",
    ),
    "alibaba": ("reasoning_effort",),
    "cohere": (
        "logit_bias",
        "metadata",
        "n",
        "parallel_tool_calls",
        "prediction",
        "prompt_cache_key",
        "safety_identifier",
        "service_tier",
        "store",
        "stream_options.include_obfuscation",
        "top_logprobs",
        "user",
        "verbosity",
    ),
    "sambanova": ("frequency_penalty", "logit_bias", "presence_penalty"),
    "writer": (),
    "venice": (),
    "ollama": ("logit_bias", "n"),
    "llamacpp": (),
    "vllm": (),
    "lmstudio": (),
    "mistralrs": (),
    "gpustack": (),
    "ollama-cloud": (),
    "doubleword": (),
    "copilot": (),
    "snowflake": (),
    "novita": (),
    "hyperbolic": (),
    "nebius": (),
    "crusoe": (),
    "braintrust-proxy": (),
    "litellm-proxy": (),
}


def test_every_row_is_in_the_table() -> None:
    assert set(LEFT_OUT) == set(VENDORS)


@pytest.mark.parametrize("name", sorted(LEFT_OUT))
def test_what_a_vendor_cannot_take_is_left_out_and_named(name: str) -> None:
    body, dropped = sent_by(name, EVERYTHING)
    vendor = VENDORS[name]
    assert tuple(sorted(dropped)) == LEFT_OUT[name]
    assert body["model"] == "their-name"
    assert body["stream"] is True
    assert body["my_own"] == {"kept": True}
    assert body["temperature"] == min(1.8, vendor.most_temperature)
    assert ("stream_options" in body) is vendor.takes_stream_options
    for path in dropped:
        assert path.split(".")[0] not in body
    limit = vendor.limit_member or "max_completion_tokens"
    assert {key: body[key] for key in body if key.startswith("max_")} == {limit: 100}


@pytest.mark.parametrize("vendor", VENDORS.values(), ids=lambda vendor: vendor.name)
def test_a_row_is_plausible(vendor: Vendor) -> None:
    assert vendor.base_url.startswith(("https://", "http://localhost"))
    assert not vendor.base_url.endswith("/")
    assert vendor.canonical_for <= {"openai"}
    assert (vendor.canonical_for != frozenset()) is (vendor.name == "openai")
    assert not vendor.refuses & {"model", "messages", "stream", "stream_options"}


class TestUsage:
    def test_is_asked_for_whatever_the_caller_said(self) -> None:
        for options in (None, {}, {"include_usage": False}):
            body, dropped = sent_by("openai", {"stream": True, "stream_options": options})
            assert body["stream_options"] == {"include_usage": True}
            assert dropped == ()

    def test_is_asked_for_beside_the_callers_own_options(self) -> None:
        body, _ = sent_by("openai", {"stream": True, "stream_options": {"include_obfuscation": False}})
        assert body["stream_options"] == {"include_obfuscation": False, "include_usage": True}

    def test_is_not_asked_for_where_the_target_refused_that(self) -> None:
        body, dropped = sent_by(
            "vllm", {"stream": True, "stream_options": {"include_usage": True}}, asks_for_usage=False
        )
        assert "stream_options" not in body
        assert dropped == ()

    def test_is_not_asked_for_without_a_stream(self) -> None:
        body, dropped = sent_by("openai", {"stream": False})
        assert body == {"model": "their-name", "messages": [HELLO]}
        assert dropped == ()


class TestMembers:
    def test_a_value_that_asks_for_nothing_is_dropped_without_a_word(self) -> None:
        neutral = {"n": 1, "logprobs": False, "logit_bias": {}, "store": False, "metadata": {}}
        body, dropped = sent_by("groq", neutral)
        assert body == {"model": "their-name", "messages": [HELLO]}
        assert dropped == ()

    def test_null_is_as_good_as_absent_for_members_we_know(self) -> None:
        body, _ = sent_by("openai", {"temperature": None, "stop": None, "their_own": None})
        assert body == {"model": "their-name", "messages": [HELLO], "their_own": None}

    def test_a_seed_may_have_another_name(self) -> None:
        body, dropped = sent_by("mistral", {"seed": 3})
        assert body["random_seed"] == 3
        assert "seed" not in body
        assert dropped == ()
        assert "random_seed" not in sent_by("mistral", {})[0]

    @pytest.mark.parametrize("sent", ["max_tokens", "max_completion_tokens"])
    @pytest.mark.parametrize("taken", ["max_tokens", "max_completion_tokens", None])
    def test_the_limit_goes_under_the_name_that_is_taken(self, sent: str, taken: str | None) -> None:
        body, dropped = sent_by(plain(limit_member=taken), {sent: 5})
        assert body == {"model": "their-name", "messages": [HELLO], taken or sent: 5}
        assert dropped == ()

    def test_a_schema_is_dropped_where_only_json_is_taken(self) -> None:
        schema = {"type": "json_schema", "json_schema": {"name": "s", "schema": {}}}
        assert sent_by("deepseek", {"response_format": schema})[1] == ("response_format",)
        body, dropped = sent_by("deepseek", {"response_format": {"type": "json_object"}})
        assert body["response_format"] == {"type": "json_object"}
        assert dropped == ()

    def test_no_tools_may_be_called_where_none_is_not_a_word(self) -> None:
        tools = [{"type": "function", "function": {"name": "f"}}]
        body, dropped = sent_by("zai", {"tools": tools, "tool_choice": "none"})
        assert "tools" not in body
        assert dropped == ("tools", "tool_choice")
        body, dropped = sent_by("zai", {"tools": tools, "tool_choice": "auto"})
        assert body["tools"] == tools
        assert dropped == ()


class TestReasoning:
    @pytest.mark.parametrize(
        ("effort", "asked", "members", "dropped"),
        [
            (Effort.WORD, {"reasoning_effort": "low"}, {"reasoning_effort": "low"}, ()),
            (Effort.WORD, {"reasoning": {"effort": "high"}}, {"reasoning_effort": "high"}, ()),
            (Effort.WORD, {"reasoning": {"enabled": False}}, {"reasoning_effort": "none"}, ()),
            (Effort.WORD, {"reasoning": {"enabled": True, "exclude": True}}, {}, ()),
            (Effort.WORD, {"reasoning": {"max_tokens": 9, "summary": "auto"}}, {}, ("max_tokens", "summary")),
            (Effort.OBJECT, {"reasoning_effort": "low"}, {"reasoning": {"effort": "low"}}, ()),
            (
                Effort.OBJECT,
                {"reasoning": {"max_tokens": 9, "exclude": True, "their_own": 1}},
                {"reasoning": {"max_tokens": 9, "exclude": True, "their_own": 1}},
                (),
            ),
            (
                Effort.SWITCH,
                {"reasoning_effort": "high"},
                {"thinking": {"type": "enabled"}, "reasoning_effort": "high"},
                (),
            ),
            (Effort.SWITCH, {"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}, ()),
            (Effort.SWITCH, {"reasoning": {"enabled": True}}, {"thinking": {"type": "enabled"}}, ()),
            (Effort.SWITCH, {"reasoning": {"max_tokens": 9}}, {}, ("max_tokens",)),
            (
                Effort.SWITCH,
                {"reasoning": {"enabled": True}, "thinking": {"type": "disabled"}},
                {"thinking": {"type": "disabled"}},
                (),
            ),
            (Effort.ENABLE, {"reasoning_effort": "none"}, {"enable_thinking": False}, ()),
            (Effort.ENABLE, {"reasoning": {"max_tokens": 9}}, {"enable_thinking": True, "thinking_budget": 9}, ()),
            (Effort.ENABLE, {"reasoning": {"effort": "low"}}, {"enable_thinking": True}, ("effort",)),
            (Effort.NONE, {"reasoning": {"effort": "low", "enabled": True}}, {}, ("effort",)),
            (Effort.NONE, {"reasoning": {"enabled": False}}, {}, ("enabled",)),
        ],
    )
    def test_is_asked_for_in_the_vendors_way(
        self, effort: Effort, asked: dict[str, Any], members: dict[str, Any], dropped: tuple[str, ...]
    ) -> None:
        body, left_out = sent_by(plain(effort=effort), asked)
        assert body == {"model": "their-name", "messages": [HELLO], **members}
        assert left_out == tuple(f"reasoning.{name}" for name in dropped)

    def test_the_short_form_is_named_as_it_was_sent(self) -> None:
        assert sent_by(plain(effort=Effort.NONE), {"reasoning_effort": "low"})[1] == ("reasoning_effort",)


class TestMessages:
    def test_a_developer_is_a_system_where_there_is_no_developer(self) -> None:
        messages = [{"role": "developer", "content": "be brief"}, HELLO]
        assert sent_by("groq", {"messages": messages})[0]["messages"][0]["role"] == "system"
        assert sent_by("openai", {"messages": messages})[0]["messages"][0]["role"] == "developer"

    def test_cache_marks_are_kept_only_where_they_are_taken(self) -> None:
        mark = {"cache_control": {"type": "ephemeral"}}
        asked: dict[str, Any] = {
            "messages": [
                {"role": "system", "content": "s", **mark},
                {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", **mark}]},
            ],
            "tools": [{"type": "function", "function": {"name": "f"}, **mark}],
        }
        body, dropped = sent_by("openrouter", asked)
        assert (body["messages"], body["tools"]) == (asked["messages"], asked["tools"])
        assert dropped == ()
        body, dropped = sent_by("openai", asked)
        assert b"cache_control" not in jsonio.encode(body)
        assert dropped == (
            "messages[0].cache_control",
            "messages[1].content[1].cache_control",
            "tools[0].cache_control",
        )

    def test_reasoning_goes_back_where_it_is_taken(self) -> None:
        details = [{"type": "reasoning.text", "text": "hm", "signature": "s", "index": 0}]
        said = {"role": "assistant", "content": "4", "reasoning_content": "hm", "reasoning_details": details}
        asked = {"messages": [HELLO, said, HELLO]}

        body, dropped = sent_by("openrouter", asked)
        assert body["messages"][1] == {
            "role": "assistant",
            "content": "4",
            "reasoning": "hm",
            "reasoning_details": details,
        }
        assert dropped == ()

        body, dropped = sent_by("deepseek", asked)
        assert body["messages"][1] == {"role": "assistant", "content": "4", "reasoning_content": "hm"}
        assert dropped == ("messages[1].reasoning_details",)

        body, dropped = sent_by("openai", asked)
        assert body["messages"][1] == {"role": "assistant", "content": "4"}
        assert dropped == ("messages[1].reasoning_details", "messages[1].reasoning_content")

    def test_empty_reasoning_is_dropped_without_a_word(self) -> None:
        said = {"role": "assistant", "content": "4", "reasoning_content": "", "reasoning": None}
        body, dropped = sent_by("openai", {"messages": [said]})
        assert body["messages"] == [{"role": "assistant", "content": "4"}]
        assert dropped == ()

    def test_a_failed_tool_result_has_no_word_on_this_wire(self) -> None:
        result = {"role": "tool", "tool_call_id": "c", "content": "boom", "is_error": True}
        body, dropped = sent_by("openai", {"messages": [HELLO, result]})
        assert body["messages"][1] == {"role": "tool", "tool_call_id": "c", "content": "boom"}
        assert dropped == ("messages[1].is_error",)

    def test_names_are_dropped_where_they_are_refused(self) -> None:
        named = {"role": "user", "content": "hi", "name": "ann"}
        assert sent_by("openai", {"messages": [named]})[0]["messages"] == [named]
        body, dropped = sent_by("groq", {"messages": [named]})
        assert body["messages"] == [{"role": "user", "content": "hi"}]
        assert dropped == ("messages[0].name",)


class TestAddress:
    def test_openai(self) -> None:
        request = read_request({"model": "m", "messages": [HELLO], "stream": True})
        built = provider_of(VENDORS["openai"]).build_request(request, Target(model="gpt", api_key="sk-1"))
        assert built.path == "/chat/completions"
        assert built.headers == (
            ("authorization", "Bearer sk-1"),
            ("content-type", "application/json"),
            ("accept", "text/event-stream"),
        )

    def test_a_whole_answer_without_a_key(self) -> None:
        request = read_request({"model": "m", "messages": [HELLO]})
        built = provider_of(VENDORS["ollama"]).build_request(request, Target(model="m"))
        assert built.headers == (("content-type", "application/json"), ("accept", "application/json"))

    def test_writer_has_a_path_of_its_own(self) -> None:
        request = read_request({"model": "m", "messages": [HELLO]})
        assert provider_of(VENDORS["writer"]).build_request(request, Target(model="m")).path == "/chat"

    @pytest.mark.parametrize(
        ("version", "path"),
        [
            (None, "/openai/v1/chat/completions"),
            ("v1", "/openai/v1/chat/completions"),
            ("2024-10-21", "/openai/deployments/my%20gpt%2F4/chat/completions?api-version=2024-10-21"),
        ],
    )
    def test_azure(self, version: str | None, path: str) -> None:
        request = read_request({"model": "m", "messages": [HELLO]})
        built = AZURE.build_request(request, Target(model="my gpt/4", api_key="k", api_version=version))
        assert built.path == path
        assert built.headers[0] == ("api-key", "k")
        assert jsonio.decode(built.body)["model"] == "my gpt/4"

    def test_azure_without_a_key(self) -> None:
        request = read_request({"model": "m", "messages": [HELLO]})
        assert AZURE.build_request(request, Target(model="m")).headers[0][0] == "content-type"
