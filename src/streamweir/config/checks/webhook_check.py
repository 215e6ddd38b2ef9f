"""Checks the operator's webhooks and what they are told. Pure. A reason never contains a URL or a secret."""

from collections.abc import Iterator

from streamweir.config.address import fault_of_proxy, fault_of_webhook
from streamweir.config.error import ConfigProblem, member
from streamweir.config.model import Config, Webhook
from streamweir.policy.limits.budget import nano_of
from streamweir.policy.webhook_signature import read_secret


def check_webhooks(config: Config) -> Iterator[ConfigProblem]:
    if config.webhooks and config.store.is_none:
        yield ConfigProblem("webhooks", 'need a database: set store.url to something other than "none"')
    for webhook in config.webhooks:
        yield from _check(webhook)
    try:
        nano_of(config.alerts.credit_low_usd)
    except ValueError as reason:
        yield ConfigProblem("alerts.credit_low_usd", str(reason))


def _check(webhook: Webhook) -> Iterator[ConfigProblem]:
    where = member("webhooks", webhook.name)
    if not webhook.name.isprintable() or webhook.name != webhook.name.strip():
        yield ConfigProblem(f"{where}.name", "must be plain text without spaces at the start or end")
    faults = {
        "url": fault_of_webhook(webhook.url),
        "proxy": fault_of_proxy(webhook.proxy) if webhook.proxy is not None else None,
        "secret": _fault_of_secret(webhook.secret),
        "old_secret": _fault_of_secret(webhook.old_secret) if webhook.old_secret is not None else None,
    }
    for name, fault in faults.items():
        if fault is not None:
            yield ConfigProblem(f"{where}.{name}", fault)


def _fault_of_secret(secret: str) -> str | None:
    try:
        read_secret(secret)
    except ValueError as reason:
        return f"{reason}: create one with `echo whsec_$(openssl rand -base64 32)`"
    return None
