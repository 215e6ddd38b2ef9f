"""Reasons why settings of LiteLLM are not converted. Settings that are not listed get a general reason."""

_RETRY = "how often an attempt is repeated does not depend on the error: see num_retries"
_EJECTION = "when a target is ejected does not depend on the error: see allowed_fails"
_CALLBACK = "there are no callbacks: see the request log and /metrics"
_CACHE = "answers are not cached"
_BUDGET = "budgets are set on keys"
_DROP = "unsupported parameters are always dropped, and reported to the caller"
_TAGS = "targets are not chosen by tags"

_CALLBACKS = "callbacks failure_callback langfuse_default_tags s3_callback_params service_callbacks success_callback"
_ALERTS = "alert_to_webhook_url alert_types alerting alerting_args alerting_threshold"


def _each(names: str, reason: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


DEPLOYMENT = {
    "aws_web_identity_token": "name the file with the token: web_identity_token_file in [providers.aws]",
    **_each("budget_duration max_budget", _BUDGET),
    **_each("input_cost_per_second output_cost_per_second", "prices are per token"),
    "base_url": "api_base overrides it",
    "drop_params": _DROP,
    "max_retries": "LiteLLM does not use it either: see num_retries",
    "mock_response": "use a provider of the kind sim",
    "modify_params": "requests are always made to fit the provider",
    "region_name": "targets are not chosen by their region",
    "tags": _TAGS,
    "vertex_credentials": "write them to a file, and set google.credentials_file of the provider",
}
MODEL_INFO = {
    **_each("input_cost_per_second output_cost_per_second", "prices are per token"),
    "access_groups": "set the allowed models on each key",
    "allowed_fails_policy": _EJECTION,
    "base_model": "if the price list does not have the model, give it a price",
    "max_input_tokens": "the provider decides whether a prompt fits: see context_fallbacks",
}
LITELLM = {
    **_each(_CALLBACKS, _CALLBACK),
    **_each("cache cache_params", _CACHE),
    **_each("budget_duration max_budget", _BUDGET),
    "cost_discount_config": "set discount_percent on the keys of the providers",
    "cost_margin_config": "set markup_percent of a price group",
    "drop_params": _DROP,
    "set_verbose": "set server.log.level",
}
ROUTER = {
    **_each("model_group_retry_policy retry_policy", _RETRY),
    **_each("cache_kwargs cache_responses", _CACHE),
    **_each("enable_pre_call_check enable_pre_call_checks", "the provider decides whether a prompt fits"),
    **_each("redis_db redis_host redis_password redis_port", "redis_url overrides it, or there is no redis_host"),
    **_each("enable_tag_filtering tag_filtering_match_any tag_routing_prefix", _TAGS),
    "allowed_fails_policy": _EJECTION,
    "disable_cooldowns": "targets are ejected when they fail: see max_failures",
    "max_fallbacks": "see max_attempts, which bounds all attempts of a request",
    "retry_after": "the pause before a repeat grows from 0.1 s, or is what the provider asks for",
    "routing_strategy_args": "the strategies have no settings",
}
CHECKS = {
    "deployment_affinity": "requests of one conversation stay together, not those of one key",
    "router_budget_limiting": _BUDGET,
}
GENERAL = {
    **_each(_ALERTS, "name the receiver in [[webhooks]]"),
    **_each("global_max_parallel_requests max_parallel_requests", "streams are limited by a key's max_streams"),
    "custom_auth": "keys are in the database or in this file",
    "database_url": "its keys and spend stay there; streamweir uses its own database: see store.url",
    "enforce_fallback_budget": "a budget always holds for fallbacks, too",
    "enforce_fallback_model_access": "a key that may use a model is also answered by its fallbacks",
    "store_prompts_in_spend_logs": "set log_content on the keys whose content is to be stored",
    "use_x_forwarded_for": "name the proxies in server.trusted_proxies",
}
TOP = {
    "guardrails": "there are no guardrails",
    "include": "other files are not read: import them one by one",
    "mcp_servers": "there are no MCP servers",
}
