"""Reasons why settings of LiteLLM are not converted. Settings that are not listed get a general reason."""

_CALLER = "the caller sets the parameters of a request"
_RETRY = "the gateway decides itself how often to retry"
_EJECTION = "the gateway decides itself when to eject a target"
_CALLBACK = "there are no callbacks: see the request log and /metrics"
_CACHE = "answers are not cached"
_REFUSED = "a refused request is not sent to another model"
_KEYS = "limits are set on keys, not on targets"
_DROP = "unsupported parameters are always dropped, and reported to the caller"

_REQUEST_PARAMETERS = (
    "frequency_penalty logit_bias logprobs max_completion_tokens max_tokens metadata modify_params n presence_penalty "
    "reasoning_effort response_format seed stop temperature thinking tool_choice tools top_k top_p user"
)
_CALLBACKS = "callbacks failure_callback langfuse_default_tags s3_callback_params service_callbacks success_callback"
_ALERTS = "alert_to_webhook_url alert_types alerting alerting_args alerting_threshold"


def _each(names: str, reason: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


DEPLOYMENT = {
    **_each(_REQUEST_PARAMETERS, _CALLER),
    **_each("max_retries num_retries", _RETRY),
    **_each("allowed_fails cooldown_time", _EJECTION),
    **_each("budget_duration max_budget max_parallel_requests", _KEYS),
    **_each("input_cost_per_second output_cost_per_second", "prices are per token"),
    "drop_params": _DROP,
    "mock_response": "use a provider of the kind sim",
    "tags": "targets are not chosen by tags",
    "vertex_credentials": "a service account's file is not read: Vertex is asked with an access token",
}
MODEL_INFO = {
    "access_groups": "set the allowed models on each key",
    "base_model": "if the price list does not have the model, give it a price",
    "id": "targets have no ids",
}
LITELLM = {
    **_each(_CALLBACKS, _CALLBACK),
    **_each("cache cache_params", _CACHE),
    **_each("num_retries", _RETRY),
    **_each("allowed_fails cooldown_time", _EJECTION),
    **_each("content_policy_fallbacks context_window_fallbacks", _REFUSED),
    **_each("budget_duration max_budget", "budgets are set on keys"),
    "drop_params": _DROP,
    "set_verbose": "set server.log.level",
}
ROUTER = {
    **_each("model_group_retry_policy num_retries retry_after retry_policy", _RETRY),
    **_each("allowed_fails allowed_fails_policy cooldown_time disable_cooldowns", _EJECTION),
    **_each("content_policy_fallbacks context_window_fallbacks", _REFUSED),
    **_each("cache_kwargs cache_responses", _CACHE),
    **_each("enable_pre_call_check enable_pre_call_checks", "the provider decides whether a request fits"),
    "default_litellm_params": _CALLER,
    "default_max_parallel_requests": _KEYS,
    "enable_tag_filtering": "targets are not chosen by tags",
}
GENERAL = {
    **_each(_ALERTS, "there are no alerts: watch /metrics"),
    **_each("global_max_parallel_requests max_parallel_requests", "streams are limited by a key's max_streams"),
    "custom_auth": "keys are in the database or in this file",
    "database_url": "its keys and spend stay there; streamweir uses its own database: see store.url",
    "store_prompts_in_spend_logs": "set log_content on the keys whose content is to be stored",
    "use_x_forwarded_for": "name the proxies in server.trusted_proxies",
}
TOP = {
    "guardrails": "there are no guardrails",
    "include": "other files are not read: import them one by one",
    "mcp_servers": "there are no MCP servers",
}
