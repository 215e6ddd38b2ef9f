"""The keys and the rules for limits of the operator's file, as the gateway uses them. Secrets are kept as digests."""

from streamweir.config.model import Config
from streamweir.config.model import Key as KeyConfig
from streamweir.policy.access import DEFAULT_WORKSPACE, Key, KeyRing, digest_of
from streamweir.policy.limits.budget import nano_of
from streamweir.policy.limits.key_limits import limits_of
from streamweir.policy.limits.limit_rule import LimitRule


def key_ring(config: Config) -> KeyRing:
    return KeyRing([_key(key) for key in config.keys])


def limit_rules_of(config: Config) -> tuple[LimitRule, ...]:
    return tuple(
        [
            LimitRule(
                name=rule.name,
                per=rule.per,
                budget_nano=nano_of(rule.budget_usd),
                budget_period=rule.budget_period,
                workspace=rule.workspace,
                key=rule.key,
                anonymous=rule.anonymous or "share",
                alert_percent=rule.alert_percent,
            )
            for rule in config.limits
        ]
    )


def _key(key: KeyConfig) -> Key:
    return Key(
        name=key.name,
        digest=digest_of(key.key),
        last4=key.key[-4:],
        dialect=key.dialect,
        models=key.models,
        scopes=frozenset(key.scopes),
        expires_at=key.expires.timestamp() if key.expires is not None else None,
        **limits_of(key),
        budget_nano=nano_of(key.budget_usd) if key.budget_usd is not None else None,
        budget_period=key.budget_period or "total",
        id=f"file:{key.name}",
        workspace_id=key.workspace or DEFAULT_WORKSPACE,
        log_content=key.log_content,
        show_routing=key.show_routing,
        show_cost=key.show_cost,
        resumable=key.resumable,
        price_group=key.price_group,
    )
