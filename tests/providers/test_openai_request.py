"""What is sent to OpenAI-style vendors: the caller's body, changed as each vendor's row says."""

from typing import Any

import pytest

from streamweir.core.request import read_request
from streamweir.providers.azure.chat import PROVIDER as AZURE
from streamweir.providers.base import Target
from streamweir.providers.compatible import VENDORS, Vendor, provider_of
from streamweir.providers.openai.request import write_body
from streamweir.wire import jsonio
from streamweir.wire.native import NativeWire
from support.openai_body import HELLO, plain, sent_by

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
    "groq": (
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "metadata",
        "n",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "safety_identifier",
        "store",
        "top_logprobs",
        "verbosity",
    ),
    "mistral": (
        "logit_bias",
        "logprobs",
        "reasoning_effort",
        "safety_identifier",
        "service_tier",
        "store",
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
        "reasoning_effort",
        "safety_identifier",
        "service_tier",
        "store",
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
    assert body["temperature"] == min(1.8, vendor.max_temperature)
    assert ("stream_options" in body) is vendor.takes_stream_options
    for path in dropped:
        assert path.split(".")[0] not in body
    limit = vendor.limit_member or "max_completion_tokens"
    assert {key: body[key] for key in body if key.startswith("max_")} == {limit: 100}


@pytest.mark.parametrize("vendor", VENDORS.values(), ids=lambda vendor: vendor.name)
def test_a_row_is_plausible(vendor: Vendor) -> None:
    assert vendor.base_url.startswith(("https://", "http://localhost"))
    assert not vendor.base_url.endswith("/")
    assert vendor.native_wire == (NativeWire.OPENAI_CHAT if vendor.name == "openai" else None)
    assert not vendor.refuses & {"model", "messages", "stream", "stream_options"}


class TestUsage:
    def test_usage_is_always_requested(self) -> None:
        for options in (None, {}, {"include_usage": False}):
            body, dropped = sent_by("openai", {"stream": True, "stream_options": options})
            assert body["stream_options"] == {"include_usage": True}
            assert dropped == ()

    def test_is_asked_for_beside_the_callers_own_options(self) -> None:
        body, _ = sent_by("openai", {"stream": True, "stream_options": {"include_obfuscation": False}})
        assert body["stream_options"] == {"include_obfuscation": False, "include_usage": True}

    def test_is_not_asked_for_where_the_target_refused_that(self) -> None:
        body, dropped = sent_by(
            "vllm", {"stream": True, "stream_options": {"include_usage": True}}, requests_usage=False
        )
        assert "stream_options" not in body
        assert dropped == ()

    def test_only_other_options_are_lost_where_it_cannot_be_asked_for(self) -> None:
        options = {"include_usage": True, "include_obfuscation": False, "continuous_usage_stats": True}
        body, dropped = sent_by("mistral", {"stream": True, "stream_options": options})
        assert "stream_options" not in body
        assert dropped == ("stream_options.continuous_usage_stats",)

    def test_is_not_asked_for_without_a_stream(self) -> None:
        body, dropped = sent_by("openai", {"stream": False})
        assert body == {"model": "their-name", "messages": [HELLO]}
        assert dropped == ()


class TestMembers:
    def test_a_default_value_is_dropped_silently(self) -> None:
        neutral = {"n": 1, "logprobs": False, "logit_bias": {}, "store": False, "metadata": {}}
        body, dropped = sent_by("groq", neutral)
        assert body == {"model": "their-name", "messages": [HELLO]}
        assert dropped == ()

    def test_null_is_the_same_as_absent_for_known_members(self) -> None:
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

    def test_one_limit_is_sent_where_both_were(self) -> None:
        body, dropped = sent_by(plain(), {"max_tokens": 5, "max_completion_tokens": 7})
        assert body == {"model": "their-name", "messages": [HELLO], "max_completion_tokens": 7}
        assert dropped == ()

    def test_json_is_dropped_where_only_a_schema_is_taken(self) -> None:
        schema = {"type": "json_schema", "json_schema": {"name": "s", "schema": {}}}
        assert sent_by("perplexity", {"response_format": schema})[0]["response_format"] == schema
        body, dropped = sent_by("perplexity", {"response_format": {"type": "json_object"}})
        assert "response_format" not in body
        assert dropped == ("response_format",)
        text = {"type": "text"}
        assert sent_by("perplexity", {"response_format": text})[0]["response_format"] == text

    @pytest.mark.parametrize(
        ("sent", "written"),
        [
            ("any", "required"),
            ({"type": "tool", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
            ({"type": "function", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
            ({"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "f"}}),
            ({"type": "custom", "custom": {"name": "f"}}, {"type": "custom", "custom": {"name": "f"}}),
        ],
    )
    def test_a_choice_in_the_words_of_another_wire_is_written_in_openais(self, sent: Any, written: Any) -> None:
        assert sent_by("openai", {"tool_choice": sent})[0]["tool_choice"] == written

    @pytest.mark.parametrize("name", ["openrouter", "litellm-proxy", "openai-compatible"])
    def test_a_router_gets_no_other_models(self, name: str) -> None:
        body, dropped = sent_by(name, {"models": ["dear"], "route": "fallback", "fallbacks": [{"model": "dear"}]})
        assert body == {"model": "their-name", "messages": [HELLO]}
        assert dropped == ("models", "route", "fallbacks")

    @pytest.mark.parametrize(
        ("vendor", "model", "dropped"),
        [
            ("moonshot", "kimi-k2.6", ("temperature", "top_p", "n", "presence_penalty")),
            ("moonshot", "moonshot-v1-8k", ()),
            ("xai", "grok-4.5", ("presence_penalty", "stop")),
            ("xai", "grok-3-mini", ("presence_penalty", "stop")),
            ("xai", "grok-3", ()),
            ("xai", "grok-4-1-fast-non-reasoning", ("reasoning.effort",)),
            ("xai", "grok-4.20-reasoning", ("reasoning.effort", "presence_penalty", "stop")),
            ("xai", "grok-4", ("reasoning.effort", "presence_penalty", "stop")),
        ],
    )
    def test_some_models_refuse_more_than_their_vendor(self, vendor: str, model: str, dropped: tuple[str, ...]) -> None:
        asked = {
            "temperature": 0.5,
            "top_p": 0.9,
            "n": 2,
            "presence_penalty": 1,
            "stop": "x",
            "reasoning": {"effort": "low"},
        }
        request = read_request({"model": "m", "messages": [HELLO], **asked})
        written, left_out = write_body(request, Target(model=model), VENDORS[vendor])
        assert left_out == dropped
        assert (
            not {path.replace("reasoning.effort", "reasoning_effort") for path in dropped}
            & jsonio.decode(written).keys()
        )

    def test_a_fixed_temperature_is_not_reported_if_it_was_requested(self) -> None:
        request = read_request({"model": "m", "messages": [HELLO], "temperature": 1, "top_p": 1.0})
        written, dropped = write_body(request, Target(model="kimi-k3"), VENDORS["moonshot"])
        assert jsonio.decode(written).keys() == {"model", "messages"}
        assert dropped == ()

    def test_a_schema_is_dropped_where_only_json_is_taken(self) -> None:
        schema = {"type": "json_schema", "json_schema": {"name": "s", "schema": {}}}
        assert sent_by("deepseek", {"response_format": schema})[1] == ("response_format",)
        body, dropped = sent_by("deepseek", {"response_format": {"type": "json_object"}})
        assert body["response_format"] == {"type": "json_object"}
        assert dropped == ()

    def test_tools_are_removed_if_none_is_not_supported(self) -> None:
        tools = [{"type": "function", "function": {"name": "f"}}]
        body, dropped = sent_by("zai", {"tools": tools, "tool_choice": "none"})
        assert "tools" not in body
        assert dropped == ("tools", "tool_choice")
        body, dropped = sent_by("zai", {"tools": tools, "tool_choice": "auto"})
        assert body["tools"] == tools
        assert dropped == ()


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
