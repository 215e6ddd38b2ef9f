"""Members of a request by which routers choose a model. They are never sent: the gateway has chosen."""

OTHER_MODEL_MEMBERS = frozenset(
    {
        "content_policy_fallbacks",
        "context_window_fallback_dict",
        "context_window_fallbacks",
        "fallbacks",
        "model_list",
        "models",
        "preset",
        "route",
        "user_config",
    }
)
"""Members of routers, with which a caller could choose another model than the one that is allowed and billed."""
