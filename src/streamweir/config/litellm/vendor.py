"""LiteLLM's providers and our kinds, one row each.

LiteLLM names the provider before the first slash of a model. A row has our kind, the variable from which LiteLLM reads
the key if the file has none, and the address, if our kind has another one or none. Providers that are not listed are
not supported.
"""

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from streamweir.config.address import fault_of_base_url


class Vendor(NamedTuple):
    kind: str
    key: str | None = None
    base_url: str | None = None


_COMPATIBLE = "openai-compatible"
VENDORS = {
    "openai": Vendor("openai", "OPENAI_API_KEY"),
    "azure": Vendor("azure", "AZURE_API_KEY", "${AZURE_API_BASE}"),
    "azure_ai": Vendor("azure", "AZURE_AI_API_KEY", "${AZURE_AI_API_BASE}"),
    "anthropic": Vendor("anthropic", "ANTHROPIC_API_KEY"),
    "gemini": Vendor("gemini", "GEMINI_API_KEY"),
    "vertex_ai": Vendor("vertex"),
    "vertex_ai_beta": Vendor("vertex"),
    "bedrock": Vendor("bedrock"),
    "bedrock_converse": Vendor("bedrock"),
    "bedrock_mantle": Vendor("bedrock-mantle", "BEDROCK_MANTLE_API_KEY"),
    "cerebras": Vendor("cerebras", "CEREBRAS_API_KEY"),
    "cohere": Vendor("cohere", "COHERE_API_KEY"),
    "cohere_chat": Vendor("cohere", "COHERE_API_KEY"),
    "dashscope": Vendor("alibaba", "DASHSCOPE_API_KEY"),
    "deepseek": Vendor("deepseek", "DEEPSEEK_API_KEY"),
    "fireworks_ai": Vendor("fireworks", "FIREWORKS_API_KEY"),
    "groq": Vendor("groq", "GROQ_API_KEY"),
    "huggingface": Vendor("huggingface", "HF_TOKEN"),
    "hyperbolic": Vendor("hyperbolic", "HYPERBOLIC_API_KEY"),
    "mistral": Vendor("mistral", "MISTRAL_API_KEY"),
    "moonshot": Vendor("moonshot", "MOONSHOT_API_KEY"),
    "nebius": Vendor("nebius", "NEBIUS_API_KEY"),
    "novita": Vendor("novita", "NOVITA_API_KEY"),
    "nvidia_nim": Vendor("nvidia", "NVIDIA_NIM_API_KEY"),
    "openrouter": Vendor("openrouter", "OPENROUTER_API_KEY"),
    "perplexity": Vendor("perplexity", "PERPLEXITYAI_API_KEY"),
    "sambanova": Vendor("sambanova", "SAMBANOVA_API_KEY"),
    "together_ai": Vendor("together", "TOGETHER_API_KEY"),
    "xai": Vendor("xai", "XAI_API_KEY"),
    "zai": Vendor("zai", "ZAI_API_KEY"),
    "hosted_vllm": Vendor("vllm"),
    "litellm_proxy": Vendor("litellm-proxy", "LITELLM_PROXY_API_KEY", "${LITELLM_PROXY_API_BASE}"),
    "llamafile": Vendor("llamacpp"),
    "lm_studio": Vendor("lmstudio"),
    "ollama": Vendor("ollama"),
    "ollama_chat": Vendor("ollama"),
    # Compatible with OpenAI, without a kind of their own.
    "ai21": Vendor(_COMPATIBLE, "AI21_API_KEY", "https://api.ai21.com/studio/v1"),
    "ai21_chat": Vendor(_COMPATIBLE, "AI21_API_KEY", "https://api.ai21.com/studio/v1"),
    "codestral": Vendor(_COMPATIBLE, "CODESTRAL_API_KEY", "https://codestral.mistral.ai/v1"),
    "custom_openai": Vendor(_COMPATIBLE),
    "deepinfra": Vendor(_COMPATIBLE, "DEEPINFRA_API_KEY", "https://api.deepinfra.com/v1/openai"),
    "friendliai": Vendor(_COMPATIBLE, "FRIENDLI_TOKEN", "https://api.friendli.ai/serverless/v1"),
    "github": Vendor(_COMPATIBLE, "GITHUB_API_KEY", "https://models.inference.ai.azure.com"),
    "meta_llama": Vendor(_COMPATIBLE, "LLAMA_API_KEY", "https://api.llama.com/compat/v1"),
    "openai_like": Vendor(_COMPATIBLE),
    "volcengine": Vendor(_COMPATIBLE, "VOLCENGINE_API_KEY", "https://ark.cn-beijing.volces.com/api/v3"),
    "xinference": Vendor(_COMPATIBLE),
}
BEDROCK = ("bedrock", "bedrock_converse")
_BEDROCK_WIRES = {"converse": "converse", "invoke": "messages", "openai": "chat"}
_BEDROCK_ROUTE = re.compile(r"^(?:(?:converse|invoke|openai)/)?(?:[a-z]{2,5}(?:-[a-z]+)+-[0-9]{1,2}/)?")
"""Before a model: how it is asked, and its region."""
_BY_NAME = (
    (re.compile(r"(gpt|chatgpt|o\d|ft:gpt|codex)"), "openai"),
    (re.compile(r"claude"), "anthropic"),
    (re.compile(r"gemini"), "vertex_ai"),
    (re.compile(r"command"), "cohere"),
)
"""The provider of a model without one, as in LiteLLM's own table."""
_OTHER = re.compile(
    r"whisper|^tts-|-tts|transcribe|dall-e|gpt-image|image-generation|imagen|rerank|moderation|realtime|sora|veo-"
)


def split_model(model: str, provider: str | None) -> tuple[str | None, str]:
    """The provider's name (None if unknown), and the provider's name of the model."""
    first, slash, rest = model.partition("/")
    if provider is not None:
        return provider, rest if slash and first == provider else model
    if slash and re.fullmatch(r"[a-z0-9_]+", first):
        return first, rest
    return next((name for form, name in _BY_NAME if form.match(model)), None), model


def is_supported(model: str, mode: str | None) -> bool:
    """Whether there is an API for it here. Decided by its mode, else by its name."""
    return mode in ("chat", "completion", "embedding", "responses") if mode else not _OTHER.search(model.lower())


def wire_of(provider: str, model: str, mode: str | None) -> str | None:
    """The API that LiteLLM would use. None: it does not say."""
    if provider in BEDROCK:
        return _BEDROCK_WIRES.get(model.partition("/")[0])
    if provider not in ("openai", "azure"):
        return None
    return "responses" if mode == "responses" or model.startswith("responses/") else None


def upstream_model(provider: str, model: str) -> str:
    """Without the prefixes that are instructions for LiteLLM."""
    if provider == "azure":
        return re.sub(r"^(o_series|gpt5_series|responses)/", "", model)
    if provider == "openai":
        return model.removeprefix("responses/")
    if provider in BEDROCK and not model.startswith("arn:"):
        return _BEDROCK_ROUTE.sub("", model)
    if provider == "huggingface" and model.count("/") == 2:  # inference provider, organization, model
        through, _, rest = model.partition("/")
        return f"{rest}:{through}"
    return model


_ON_VERTEX = re.compile(
    r"\*|gemini-|claude-|text-|textembedding|multimodalembedding|(?!gemini/|bge/|openai/\d+$)[^/]+/[^/]"
)
"""Endpoints of the operator's own project are left out: they have numbers, or one of these publishers."""


def why_unsupported(provider: str, model: str) -> str | None:
    """Why the model is not supported at this provider. None if it is."""
    if provider not in VENDORS:
        return f"the provider {provider[:40]!r} has no kind of ours"
    if provider in ("vertex_ai", "vertex_ai_beta") and _ON_VERTEX.match(model) is None:
        return "of Vertex, only Gemini, Claude, embeddings and open models can be had"
    if provider in BEDROCK and re.match(r"(agent|agentcore|mantle|llama|deepseek_r1|nova|qwen[23])/", model):
        return f"its route {model.partition('/')[0]!r} cannot be had here"
    return None


def kind_for(provider: str, base_url: str | None) -> str:
    """The kind. With another address, OpenAI and Hugging Face become generic compatible servers."""
    vendor = VENDORS[provider]
    if base_url is None or base_url.startswith("https://api.openai.com"):
        return vendor.kind
    return _COMPATIBLE if provider in ("openai", "huggingface") else vendor.kind


def convert_base_url(provider: str, base_url: str) -> str:
    """Converts LiteLLM's `api_base` to our `base_url`, which includes the version; also if it is a variable."""
    url = re.sub(r"(/v1/messages|/messages|/chat/completions)$", "", base_url.rstrip("/")).rstrip("/")
    if provider in ("azure", "azure_ai"):
        return re.sub(r"/(openai|models|anthropic)(/.*)?$", "", url)
    if VENDORS[provider].kind.startswith("bedrock"):
        return re.sub(r"(/openai/v1|/anthropic/v1|/openai|/anthropic|/v1)$", "", url)
    if provider in ("anthropic", "ollama", "ollama_chat", "huggingface") and not url.endswith("/v1"):
        return f"{url}/v1"
    if provider == "gemini" and not re.search(r"/v1(beta)?$", url):
        return f"{url}/v1beta"
    return url


def base_url_fault(base_url: str, kind: str) -> str | None:
    """The fault of an address. An address with a variable is not checked."""
    return fault_of_base_url(base_url.replace("$$", "$"), kind) if "${" not in base_url.replace("$$", "") else None


def provider_name(provider: str, kind: str, base_url: str | None) -> str:
    """LiteLLM's name; for a generic server, the first label of its host name."""
    if kind != _COMPATIBLE or provider not in ("openai", "custom_openai", "openai_like", "huggingface"):
        return provider
    host = (urlsplit(base_url).hostname or "") if base_url is not None and "$" not in base_url else ""
    label = host.split(".")[0]
    return label if re.fullmatch(r"[a-z][a-z0-9-]{2,39}", label) and label != "api" else "compatible"
