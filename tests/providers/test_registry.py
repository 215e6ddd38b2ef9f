"""Names to providers."""

import pytest

from streamweir.providers.compatible import VENDORS
from streamweir.providers.registry import (
    abort_stops_billing,
    default_base_url,
    native_wire,
    provider_named,
)
from streamweir.wire.native import NativeWire


@pytest.mark.parametrize("name", ["anthropic", "azure", "gemini", "vertex", *VENDORS])
def test_every_name_has_a_provider(name: str) -> None:
    provider = provider_named(name)
    assert provider.decoder() is not provider.decoder(), "one decoder per answer"
    assert provider_named(name) is provider, "providers hold no state"


def test_vertex_is_geminis_wire() -> None:
    assert provider_named("vertex") is provider_named("gemini")


@pytest.mark.parametrize("name", ["", "nobody", "OpenAI", "base"])
def test_an_unknown_name(name: str) -> None:
    with pytest.raises(KeyError):
        provider_named(name)


def test_who_writes_a_wire_that_may_be_passed_on() -> None:
    assert native_wire("openai") is NativeWire.OPENAI_CHAT
    assert native_wire("anthropic") is NativeWire.ANTHROPIC_MESSAGES
    assert not any(native_wire(name) for name in ("azure", "gemini", "groq", "openai-compatible"))


@pytest.mark.parametrize("name", ["anthropic", "azure", "gemini", "vertex", *VENDORS])
def test_every_name_has_an_address_and_a_word_on_aborts(name: str) -> None:
    assert default_base_url(name).startswith(("https://", "http://localhost"))
    assert abort_stops_billing(name) in (True, False)


def test_where_an_abort_is_known_to_end_the_bill() -> None:
    assert all(abort_stops_billing(name) for name in ("openai", "anthropic", "azure", "vllm"))
    assert not any(abort_stops_billing(name) for name in ("gemini", "vertex", "groq", "openai-compatible"))
