"""Names to providers."""

import pytest

from streamweir.providers.base import Wire
from streamweir.providers.compatible import VENDORS
from streamweir.providers.registry import (
    abort_stops_billing,
    default_base_url,
    has_responses,
    is_responses_only,
    name_on,
    native_wire,
    provider_named,
    provider_names,
    wire_for,
    wires_of,
)
from streamweir.wire.native import NativeWire


@pytest.mark.parametrize("name", provider_names())
def test_every_name_has_a_provider(name: str) -> None:
    provider = provider_named(name)
    assert provider.decoder() is not provider.decoder(), "one decoder per answer"
    assert provider_named(name) is provider, "providers hold no state"


@pytest.mark.parametrize("name", ["azure", *(name for name, row in VENDORS.items() if row.responses is not None)])
def test_the_second_wire_of_a_provider_has_a_name_too(name: str) -> None:
    assert wires_of(name)[:2] == (Wire.CHAT, Wire.RESPONSES)
    provider = provider_named(name_on(name, Wire.RESPONSES))
    assert provider_named(provider.name) is provider
    assert provider.name == f"{name}-responses"
    assert native_wire(provider.name) is NativeWire.OPENAI_RESPONSES
    assert has_responses(name)


def test_providers_without_a_second_wire() -> None:
    for name in ("anthropic", "gemini", "mistral", "sim", "nobody"):
        assert wires_of(name) == (Wire.CHAT,)
        assert not has_responses(name)
    for name in ("mistral-responses", "nobody-responses", "-responses"):
        with pytest.raises(KeyError):
            provider_named(name)


@pytest.mark.parametrize(
    ("name", "model", "only"),
    [
        ("openai", "o1-pro", True),
        ("openai", "o3-pro-2025-06-10", True),
        ("openai", "gpt-5-pro", True),
        ("openai", "gpt-5.5-pro", True),
        ("openai", "gpt-5.1-codex-max", True),
        ("azure", "codex-mini", True),
        ("azure", "eu/o4-mini-deep-research", True),
        ("openai", "gpt-5.1", False),
        ("openai", "o3", False),
        ("openai", "gpt-4o-mini", False),
        ("openrouter", "openai/gpt-5.1-codex", False),
        ("anthropic", "codex", False),
    ],
)
def test_models_that_only_the_second_wire_serves(name: str, model: str, only: bool) -> None:
    assert is_responses_only(name, model) is only


BEDROCK = [
    ("bedrock", "amazon.nova-pro-v1:0", "converse", "bedrock"),
    ("bedrock", "openai.gpt-oss-120b-1:0", "converse", "bedrock"),
    ("bedrock", "google.gemma-3-27b-it", "converse", "bedrock"),
    ("bedrock", "arn:aws:bedrock:eu-west-1:1:application-inference-profile/x", "converse", "bedrock"),
    ("bedrock", "anthropic.claude-v2:1", "messages", "bedrock-messages"),
    ("bedrock", "global.anthropic.claude-opus-5-5", "messages", "bedrock-messages"),
    (
        "bedrock",
        "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-4-6-v1",
        "messages",
        "bedrock-messages",
    ),
    ("bedrock", "google.gemma-4-31b", "chat", "bedrock-chat"),
    ("bedrock", "us.openai.gpt-5.6-sol", "responses", "bedrock-responses"),
    ("bedrock", "xai.grok-4.3", "responses", "bedrock-responses"),
    ("bedrock-mantle", "qwen.qwen3-32b", "chat", "bedrock-mantle"),
    ("bedrock-mantle", "openai.gpt-5.4", "responses", "bedrock-mantle-responses"),
    ("bedrock-mantle", "anthropic.claude-opus-4-8", "messages", "bedrock-mantle-messages"),
]


@pytest.mark.parametrize(("kind", "model", "wire", "name"), BEDROCK)
def test_bedrock_is_asked_as_the_model_wants(kind: str, model: str, wire: str, name: str) -> None:
    chosen = wire_for(kind, model)
    assert chosen == wire
    assert name_on(kind, chosen) == name
    provider = provider_named(name)
    assert provider.name == name
    native = {"messages": NativeWire.ANTHROPIC_MESSAGES, "responses": NativeWire.OPENAI_RESPONSES}
    assert native_wire(name) is native.get(wire)


def test_vertex_is_geminis_wire() -> None:
    assert provider_named("vertex").name == provider_named("gemini").name


@pytest.mark.parametrize("name", ["", "nobody", "OpenAI", "base"])
def test_an_unknown_name(name: str) -> None:
    with pytest.raises(KeyError):
        provider_named(name)


def test_providers_with_a_native_wire() -> None:
    assert native_wire("openai") is NativeWire.OPENAI_CHAT
    assert native_wire("anthropic") is NativeWire.ANTHROPIC_MESSAGES
    assert not any(native_wire(name) for name in ("azure", "gemini", "groq", "openai-compatible"))


@pytest.mark.parametrize("name", provider_names())
def test_every_name_has_an_address_and_a_rule_for_aborts(name: str) -> None:
    assert default_base_url(name).startswith(("https://", "http://localhost"))
    assert abort_stops_billing(name) in (True, False)


def test_where_an_abort_is_known_to_end_the_bill() -> None:
    assert all(abort_stops_billing(name) for name in ("openai", "anthropic", "azure", "vllm"))
    assert not any(abort_stops_billing(name) for name in ("gemini", "vertex", "groq", "openai-compatible"))
