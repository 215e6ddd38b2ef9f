"""What a request and its targets are in the words of OpenTelemetry's conventions for generative AI.

    operation   chat, text_completion or embeddings; none for a path that is no model's
    provider    the conventions' name for the kind of a provider, its address and port

Everything comes from the configuration and the path; names that callers choose are no part of it.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from streamweir.config.address import base_url_of
from streamweir.config.model import Config
from streamweir.frontends.table import FRONTENDS

OWN = "streamweir"
"""The provider of what the gateway answers itself: it has called none."""

_OPERATIONS = {"embeddings": "embeddings", "completions": "text_completion"}
"""By the API; the others are chats."""

_PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "openai": "openai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""Kinds, or their first words, whose name in the conventions is another one."""


class Destination(Struct, frozen=True):
    provider: str
    """`gen_ai.provider.name`."""
    host: str = ""
    """Empty: it has no address."""
    port: int = 0


class Destinations:
    """Where the attempts of requests go, by their targets."""

    def __init__(self, config: Config) -> None:
        self._of_provider = {
            each.name: _destination(provider_name(each.kind), base_url_of(each)) for each in config.providers
        }
        self._of_target: Mapping[str, Destination] = {
            f"{target.provider}/{target.model}": _destination(self._of_provider[target.provider].provider, url)
            for model in config.models
            for target in model.targets
            if (url := target.base_url) is not None
        }

    def of(self, target: str) -> Destination:
        """`target`: `{provider}/{model}`. A reload may have removed its provider."""
        own = self._of_target.get(target)
        if own is not None:
            return own
        name = target.partition("/")[0]
        return self._of_provider.get(name) or Destination(name)


def provider_name(kind: str) -> str:
    if kind == "openai-compatible":
        return kind
    return _PROVIDERS.get(kind) or _PROVIDERS.get(kind.partition("-")[0], kind)


def is_of_model(path: str) -> bool:
    """Whether a model answers there. Attempts are made for other paths, too, such as the playground's."""
    return path in FRONTENDS.by_path


def operation_in(dialect: str | None) -> str:
    return _OPERATIONS.get(dialect or "", "chat")


def _destination(provider: str, url: str | None) -> Destination:
    if url is None:
        return Destination(provider)
    parts = urlsplit(url)
    return Destination(provider, parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443))
