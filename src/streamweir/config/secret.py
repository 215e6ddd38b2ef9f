"""Lists the secrets of a configuration, and masks secrets for display.

A provider may quote the key or the headers of a request, and a caller its own key. Strings that look like keys are
masked anyway; with this list, secrets of any form are masked. Very short secrets are left out, because they may be
common words.
"""

import re

from streamweir.config.model import Config, Provider

MIN_SECRET_LENGTH = 12
MASK = "****"
_MIN_SHOWN_LENGTH = 16
"""The last four characters of a secret of this length may be shown (docs/spec/security.md S11)."""
_TAIL = re.compile(r"[?#].*", re.DOTALL)
_HTTP_TAIL = re.compile(r"/(?=.).*|[?#].*", re.DOTALL)
_QUERY = re.compile(r"[?#].*=", re.DOTALL)


def secrets_of(config: Config) -> list[str]:
    """Without duplicates; the longest first, because one can contain another."""
    known = {str(key.key) for key in config.keys if len(key.key) >= MIN_SECRET_LENGTH}
    if config.payments is not None:
        sent = (config.payments.webhook_secret, config.payments.secret_key or "")
        known |= {str(secret) for secret in sent if len(secret) >= MIN_SECRET_LENGTH}
    if config.oidc is not None and config.oidc.client_secret:
        known.add(str(config.oidc.client_secret))
    known = known.union(*(secrets_for(config, provider.name) for provider in config.providers))
    for webhook in config.webhooks:
        known |= {str(each) for each in (webhook.url, webhook.secret, webhook.old_secret) if each}
    known |= {str(each) for each in config.telemetry.headers.values() if len(each) >= MIN_SECRET_LENGTH}
    return sorted(known, key=lambda secret: (-len(secret), secret))


def secrets_for(config: Config, provider: str) -> set[str]:
    """What is sent to a provider, and may be quoted by it."""
    known: set[str] = set()
    for each in config.providers:
        if each.name == provider:
            known |= secrets_in(each)
    for model in config.models:
        for target in model.targets:
            if target.provider == provider:
                known |= {str(value) for value in target.headers.values() if len(value) >= MIN_SECRET_LENGTH}
    return known


def secrets_in(provider: Provider) -> set[str]:
    """What is sent to it and to its token service, apart from the headers of targets."""
    sent = [provider.api_key, *provider.headers.values()]
    sent += [credential.key for credential in provider.api_keys if credential.key is not None]
    for table in (provider.aws, provider.google, provider.entra):
        sent += [getattr(table, name) or "" for name in table.secrets] if table is not None else []
    return {str(secret) for secret in sent if len(secret) >= MIN_SECRET_LENGTH}


def passwords_in(config: Config) -> list[str]:
    """Of URLs, with the characters around them: a password may be a short word."""
    urls = [config.store.url, config.telemetry.proxy]
    urls += [config.shared.url if config.shared is not None else None, config.oidc.proxy if config.oidc else None]
    urls += [provider.proxy for provider in config.providers] + [webhook.proxy for webhook in config.webhooks]
    urls += [target.proxy for model in config.models for target in model.targets]
    user_infos = [url.partition("://")[2].rpartition("@")[0] for url in urls if url is not None]
    return [f":{password}@" for each in user_infos if (password := each.partition(":")[2])]


def masked(secret: str) -> str:
    """The last four characters, to distinguish secrets; nothing of a short one."""
    if not secret:
        return ""
    return MASK + secret[-4:] if len(secret) >= _MIN_SHOWN_LENGTH else MASK


def masked_url(url: str) -> str:
    """The URL without user name, password and query. An unquoted password may contain any character of a URL; if the
    part before the last @ may be a query, everything after the scheme is masked. The path of a webhook may be a token.
    """
    scheme, separator, rest = url.partition("://")
    user_info, at, where = rest.rpartition("@")
    if _QUERY.search(user_info):
        return f"{scheme}{separator}{MASK}"
    tail = _HTTP_TAIL if scheme in ("http", "https") else _TAIL
    shown = tail.sub(lambda found: found[0][0] + MASK, where)
    return f"{scheme}{separator}{MASK if user_info else ''}{at}{shown}"
