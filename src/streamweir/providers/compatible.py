"""The vendors that use OpenAI's wire, one row each.

A row contains only the differences from the defaults of `openai.vendor.Vendor`, documented or
observed. A new vendor is a new row and a fixture folder with its name. Whether an abort stops the billing follows
OpenRouter's published list of providers; for self-hosted servers it always does.
"""

from functools import cache

from msgspec import structs

from streamweir.core.router_members import OTHER_MODEL_MEMBERS
from streamweir.providers.openai.embedding import OpenAIEmbeddings
from streamweir.providers.openai.provider import OpenAIProvider
from streamweir.providers.openai.text import TextProvider
from streamweir.providers.openai.vendor import Effort, EmbeddingRow, ResponsesWire, Vendor
from streamweir.wire.native import NativeWire

__all__ = ["OPENAI", "VENDORS", "Vendor", "embeddings_of", "provider_of", "text_provider_of"]

OPENAI_ONLY = frozenset(
    {
        "audio",
        "function_call",
        "functions",
        "metadata",
        "modalities",
        "prediction",
        "prompt_cache_key",
        "safety_identifier",
        "service_tier",
        "store",
        "verbosity",
        "web_search_options",
    }
)
"""Members that strict vendors refuse as unknown."""
_MESSAGE = frozenset({"role", "content", "tool_calls", "tool_call_id"})
"""The members of a message that every vendor accepts."""
_LOGPROBS = frozenset({"logit_bias", "logprobs", "top_logprobs"})
_PENALTIES = frozenset({"frequency_penalty", "presence_penalty"})
_TOOLS = frozenset({"function_call", "functions", "parallel_tool_calls", "tool_choice", "tools"})

RESPONSES_ONLY = r"(^|/)(o[134]-pro|gpt-5[^/]*-pro|.*codex.*|.*deep-research)"
"""OpenAI's models that chat completions do not serve."""
OPENAI_SEARCHES = frozenset({"web_search", "web_search_preview"})

_ALL = "."
"""Legacy text completions for every model."""
INSTRUCT = r"instruct|davinci-002|babbage-002"
"""OpenAI's models that have them, which are not models for chat."""

OPENAI = Vendor(
    name="openai",
    completions=INSTRUCT,
    base_url="https://api.openai.com/v1",
    native_wire=NativeWire.OPENAI_CHAT,
    responses=ResponsesWire(server_tools=OPENAI_SEARCHES, only=RESPONSES_ONLY),
    abort_stops_billing=True,
    takes_developer_role=True,
    limit_member="max_completion_tokens",
    refuses=frozenset({"top_k"}),
)

_ROWS = (
    OPENAI,
    # Any other server: its members are not known, so only the gateway's own and a router's are left out.
    Vendor(
        name="openai-compatible",
        base_url="http://localhost:8000/v1",
        refuses=OTHER_MODEL_MEMBERS,
        responses=ResponsesWire(),
    ),
    Vendor(
        name="openrouter",
        completions=_ALL,
        base_url="https://openrouter.ai/api/v1",
        responses=ResponsesWire(server_tools=frozenset({"web_search"})),
        takes_developer_role=True,
        refuses=OTHER_MODEL_MEMBERS,
        effort=Effort.OBJECT,
        takes_cache_control=True,
        reasoning_text="reasoning",
        takes_reasoning_details=True,
    ),
    Vendor(
        # It answers unknown members with 400, also in messages; the penalties are documented as ignored.
        name="groq",
        base_url="https://api.groq.com/openai/v1",
        responses=ResponsesWire(),
        embeddings=None,
        takes_names=False,
        refuses=(OPENAI_ONLY - {"function_call", "functions", "service_tier"}) | _LOGPROBS | _PENALTIES | {"n"},
        message_members=_MESSAGE | {"function_call"},
    ),
    Vendor(
        # It answers unknown members with 422, also in messages; usage is on the finish frame without being requested.
        name="mistral",
        base_url="https://api.mistral.ai/v1",
        embeddings=EmbeddingRow(
            dimensions="output_dimension", dimensions_only="codestral", refuses=frozenset({"user"})
        ),
        takes_stream_options=False,
        takes_names=False,
        limit_member="max_tokens",
        renames=(("seed", "random_seed"),),
        refuses=(OPENAI_ONLY - {"metadata", "prediction", "prompt_cache_key"}) | _LOGPROBS | {"top_k", "user"},
        message_members=_MESSAGE | {"prefix"},
        call_id_length=9,
        max_temperature=1.5,
        efforts=frozenset({"none", "high"}),
    ),
    Vendor(
        name="deepseek",
        base_url="https://api.deepseek.com",
        responses=ResponsesWire(takes_reasoning_text=True),
        embeddings=None,
        abort_stops_billing=True,
        limit_member="max_tokens",
        refuses=frozenset({"logit_bias", "n", "seed"}),
        formats=frozenset({"json_object"}),
        effort=Effort.SWITCH,
        reasoning_text="reasoning_content",
    ),
    Vendor(
        # Reasoning models refuse the penalties and `stop`; only the newer ones accept an effort.
        name="xai",
        base_url="https://api.x.ai/v1",
        responses=ResponsesWire(
            reasoning_format="xai-responses-v1", server_tools=frozenset({"web_search", "x_search"})
        ),
        embeddings=None,
        abort_stops_billing=True,
        added_limit="max_completion_tokens",
        refuses=frozenset({"logit_bias", "metadata", "store"}),
        model_refuses=(
            (r"grok-(?!2|3(?!-mini))(?!.*non-reasoning)", _PENALTIES | {"stop"}),
            (r"grok-(4$|4-|4\.20|code|build)", frozenset({"reasoning_effort"})),
        ),
        reasoning_text="reasoning_content",
    ),
    Vendor(
        name="together",
        completions=_ALL,
        base_url="https://api.together.xyz/v1",
        abort_stops_billing=True,
        limit_member="max_tokens",
    ),
    Vendor(
        name="fireworks",
        completions=_ALL,
        base_url="https://api.fireworks.ai/inference/v1",
        responses=ResponsesWire(),
        abort_stops_billing=True,
        reasoning_text="reasoning_content",
    ),
    Vendor(
        name="cerebras",
        completions=_ALL,
        base_url="https://api.cerebras.ai/v1",
        embeddings=None,
        limit_member="max_completion_tokens",
        refuses=_PENALTIES | {"logit_bias", "parallel_tool_calls", "service_tier"},
        message_members=_MESSAGE | {"name", "reasoning"},
        max_temperature=1.5,
        reasoning_text="reasoning",
    ),
    Vendor(
        # It answers from the web and calls no tools; usage is on every frame without being requested.
        name="perplexity",
        base_url="https://api.perplexity.ai",
        responses=ResponsesWire(path="/v1/responses"),
        embeddings=EmbeddingRow(
            path="/v1/embeddings", max_inputs=512, takes_base64=False, sends_int8=True, refuses=frozenset({"user"})
        ),
        takes_stream_options=False,
        limit_member="max_tokens",
        refuses=_TOOLS | _LOGPROBS | {"n", "seed"},
        formats=frozenset({"json_schema"}),
    ),
    Vendor(
        # Its models for retrieval refuse a text without a kind.
        name="nvidia",
        base_url="https://integrate.api.nvidia.com/v1",
        embeddings=EmbeddingRow(input_type="input_type", default_input_type="passage"),
        limit_member="max_tokens",
    ),
    Vendor(
        name="huggingface",
        base_url="https://router.huggingface.co/v1",
        limit_member="max_tokens",
        responses=ResponsesWire(),
    ),
    Vendor(
        # The sampling parameters of its kimi models are fixed: any other value is answered with 400.
        name="moonshot",
        base_url="https://api.moonshot.ai/v1",
        embeddings=None,
        model_refuses=((r"kimi-", _PENALTIES | {"n", "temperature", "top_p"}),),
        max_temperature=1.0,
        effort=Effort.SWITCH,
        reasoning_text="reasoning_content",
    ),
    Vendor(
        name="zai",
        base_url="https://api.z.ai/api/paas/v4",
        takes_stream_options=False,
        takes_names=False,
        limit_member="max_tokens",
        refuses=_LOGPROBS | _PENALTIES | {"n", "parallel_tool_calls", "seed", "tool_choice"},
        max_temperature=1.0,
        formats=frozenset({"json_object"}),
        effort=Effort.SWITCH,
        reasoning_text="reasoning_content",
    ),
    Vendor(
        name="alibaba",
        base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        embeddings=EmbeddingRow(max_inputs=10),
        limit_member="max_tokens",
        effort=Effort.ENABLE,
        takes_cache_control=True,
    ),
    Vendor(
        name="cohere",
        base_url="https://api.cohere.ai/compatibility/v1",
        embeddings=EmbeddingRow(max_inputs=96, input_type="input_type", refuses=frozenset({"user"})),
        abort_stops_billing=True,
        takes_stream_options=False,
        limit_member="max_tokens",
        refuses=OPENAI_ONLY | {"logit_bias", "n", "parallel_tool_calls", "top_logprobs", "user"},
        max_temperature=1.0,
        efforts=frozenset({"none", "high"}),
    ),
    Vendor(
        # The penalties and biases are documented as ignored.
        name="sambanova",
        base_url="https://api.sambanova.ai/v1",
        refuses=_PENALTIES | {"logit_bias"},
    ),
    Vendor(
        name="writer", base_url="https://api.writer.com/v1", path="/chat", embeddings=None, limit_member="max_tokens"
    ),
    Vendor(name="venice", base_url="https://api.venice.ai/api/v1", reasoning_text="reasoning_content"),
    Vendor(
        name="ollama",
        completions=_ALL,
        takes_prompt_lists=False,
        base_url="http://localhost:11434/v1",
        responses=ResponsesWire(),
        abort_stops_billing=True,
        limit_member="max_tokens",
        refuses=frozenset({"logit_bias", "n"}),
        reasoning_text="reasoning",
    ),
    Vendor(
        name="llamacpp",
        completions=_ALL,
        base_url="http://localhost:8080/v1",
        responses=ResponsesWire(takes_reasoning_text=True),
        abort_stops_billing=True,
        system_first=True,
        limit_member="max_tokens",
        reasoning_text="reasoning_content",
    ),
    Vendor(
        name="vllm",
        completions=_ALL,
        base_url="http://localhost:8000/v1",
        responses=ResponsesWire(takes_reasoning_text=True),
        names_stop_sequence=True,
        abort_stops_billing=True,
        system_first=True,
        reasoning_text="reasoning_content",
    ),
    Vendor(
        name="lmstudio",
        completions=_ALL,
        base_url="http://localhost:1234/v1",
        abort_stops_billing=True,
        limit_member="max_tokens",
        responses=ResponsesWire(takes_reasoning_text=True),
    ),
    Vendor(
        name="mistralrs",
        completions=_ALL,
        base_url="http://localhost:1234/v1",
        abort_stops_billing=True,
        limit_member="max_tokens",
    ),
    Vendor(
        name="gpustack",
        completions=_ALL,
        base_url="http://localhost/v1",
        abort_stops_billing=True,
        limit_member="max_tokens",
    ),
    Vendor(
        name="ollama-cloud", base_url="https://ollama.com/v1", limit_member="max_tokens", reasoning_text="reasoning"
    ),
    Vendor(name="doubleword", base_url="https://api.doubleword.ai/v1", reasoning_text="reasoning_content"),
    Vendor(name="copilot", base_url="https://api.githubcopilot.com", responses=ResponsesWire()),
    Vendor(
        name="snowflake",
        base_url="https://ACCOUNT.snowflakecomputing.com/api/v2/cortex/v1",
        sends_finish=False,
        limit_member="max_completion_tokens",
        takes_reasoning_details=True,
    ),
    Vendor(name="novita", completions=_ALL, base_url="https://api.novita.ai/openai/v1", abort_stops_billing=True),
    Vendor(name="hyperbolic", completions=_ALL, base_url="https://api.hyperbolic.xyz/v1", abort_stops_billing=True),
    Vendor(name="nebius", completions=_ALL, base_url="https://api.tokenfactory.nebius.com/v1"),
    Vendor(name="crusoe", base_url="https://managed-inference-api-proxy.crusoecloud.com/v1"),
    Vendor(name="braintrust-proxy", base_url="https://api.braintrust.dev/v1/proxy", takes_developer_role=True),
    Vendor(
        # It passes requests on to any provider, and translates these members itself.
        name="litellm-proxy",
        completions=_ALL,
        base_url="http://localhost:4000/v1",
        responses=ResponsesWire(),
        takes_developer_role=True,
        refuses=OTHER_MODEL_MEMBERS,
        takes_cache_control=True,
        reasoning_text="reasoning_content",
    ),
)

VENDORS: dict[str, Vendor] = {vendor.name: vendor for vendor in _ROWS}


@cache
def provider_of(vendor: Vendor) -> OpenAIProvider:
    return OpenAIProvider(vendor)


@cache
def embeddings_of(vendor: Vendor) -> OpenAIEmbeddings | None:
    row = vendor.embeddings
    if row is None:
        return None
    return OpenAIEmbeddings(
        vendor.name, structs.replace(row, refuses=row.refuses | (vendor.refuses & OTHER_MODEL_MEMBERS))
    )


@cache
def text_provider_of(vendor: Vendor) -> TextProvider:
    return TextProvider(vendor)
