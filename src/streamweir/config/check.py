"""Checks that involve several values of a configuration: names must exist, be unique, or match each other.

Every check reports its problems and continues, so that all problems are found at once. Pure: files and hosts are not
accessed. A reason never contains a secret or an address.
"""

import ipaddress
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import product
from json import dumps
from urllib.parse import urlsplit

from streamweir.config.address import (
    BUILT_IN,
    base_url_of,
    fault_of_base_url,
    fault_of_proxy,
    is_loopback,
    split_listen,
)
from streamweir.config.checks.cloud_check import NAMED_BY_PLACE, check_cloud
from streamweir.config.checks.cors_check import check_cors
from streamweir.config.checks.credential_check import check_credentials
from streamweir.config.checks.header_check import check_headers
from streamweir.config.checks.limit_rule_check import check_limit_rules
from streamweir.config.checks.oidc_check import check_oidc
from streamweir.config.checks.payment_check import check_payments
from streamweir.config.checks.target_check import check_body_settings, check_contradictions, check_target
from streamweir.config.checks.telemetry_check import check_telemetry
from streamweir.config.checks.weak_key import MIN_KEY_LENGTH, is_easy_to_guess
from streamweir.config.checks.webhook_check import check_webhooks
from streamweir.config.error import ConfigProblem, entry, member
from streamweir.config.model import Config, Key, Model, Provider, Server
from streamweir.config.price import check_prices
from streamweir.config.rate import check_price
from streamweir.config.route import routes_of
from streamweir.frontends.table import FRONTENDS
from streamweir.policy.access import fault_of_scopes
from streamweir.policy.limits.key_limits import NAMES
from streamweir.policy.routing.route import FALLBACKS, MAX_NAME_LENGTH, REFUSAL_FALLBACKS, is_pattern
from streamweir.providers.registry import FAMILIES, provider_names, wires_of

_PROVIDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PATH_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")
_MAX_KEY_LENGTH = 512
_MAX_TARGET_LENGTH = 2048
"""Limit for a target's model, which may be longer than a caller's model name."""
_STORE_SCHEMES = ("sqlite", "postgresql", "postgres")
_SHARED_SCHEMES = ("redis", "rediss", "valkey", "valkeys", "unix")


def kinds() -> list[str]:
    return sorted([*provider_names(), *BUILT_IN])


def check(config: Config) -> list[ConfigProblem]:
    return [
        *_server(config.server),
        *_default_model(config),
        *_stores(config),
        *check_payments(config),
        *check_oidc(config),
        *_duplicates("providers", "name", [provider.name for provider in config.providers]),
        *(each for provider in config.providers for each in _provider(provider)),
        *_duplicates("models", "id", [model.id for model in config.models]),
        *(each for model in config.models for each in _model(model, config)),
        *_fallbacks(config),
        *check_contradictions(config.models),
        *_duplicates("price_groups", "name", [group.name for group in config.price_groups]),
        *check_prices(config),
        *_duplicates("keys", "name", [key.name for key in config.keys]),
        *(each for key in config.keys for each in _key(key)),
        *_equal_keys(config.keys),
        *_duplicates("webhooks", "name", [webhook.name for webhook in config.webhooks]),
        *check_webhooks(config),
        *check_telemetry(config.telemetry),
        *_duplicates("limits", "name", [rule.name for rule in config.limits]),
        *check_limit_rules(config),
    ]


def check_listen(config: Config) -> list[ConfigProblem]:
    """Without keys, the gateway may listen on loopback only."""
    address = split_listen(config.server.listen)
    if config.keys or address is None or is_loopback(address[0]):
        return []
    reason = "without [[keys]] it must be a loopback address, such as 127.0.0.1:8080"
    return [ConfigProblem("server.listen", reason)]


def check_workers(config: Config, workers: int) -> list[ConfigProblem]:
    """Several workers can only apply a limit together with shared state."""
    if workers == 1 or config.shared is not None:
        return []
    limited: list[tuple[str, object]] = [(member("keys", key.name), key) for key in config.keys]
    limited += [(member("limits", rule.name), rule) for rule in config.limits]
    for provider in config.providers:
        at = member("providers", provider.name)
        limited.append((at, provider))
        limited += [(member(f"{at}.api_keys", each.name or ""), each) for each in provider.api_keys]
    for model in config.models:
        at = f"{member('models', model.id)}.targets"
        limited += [(entry(at, index), target) for index, target in enumerate(model.targets)]
    reason = f"a limit with {workers} workers needs [shared] (Valkey or Redis)"
    return [
        ConfigProblem(f"{where}.{name}", reason)
        for where, each in limited
        for name in (*NAMES, "budget_usd")
        if getattr(each, name, None) is not None
    ]


def _server(server: Server) -> Iterator[ConfigProblem]:
    if server.health_listen is not None and split_listen(server.health_listen) is None:
        reason = f"expected HOST:PORT such as 127.0.0.1:8081 or 0.0.0.0:8081, got {dumps(server.health_listen)}"
        yield ConfigProblem("server.health_listen", reason)
    if split_listen(server.listen) is None:
        reason = f"expected HOST:PORT such as 127.0.0.1:8080, [::1]:8080 or 0.0.0.0:8080, got {dumps(server.listen)}"
        yield ConfigProblem("server.listen", reason)
    yield from _dialect("server.dialect", server.dialect)
    for index, proxy in enumerate(server.trusted_proxies):
        try:
            ipaddress.ip_network(proxy, strict=False)
        except ValueError:
            reason = f"expected an IP address or a network such as 10.0.0.0/8, got {dumps(proxy)}"
            yield ConfigProblem(entry("server.trusted_proxies", index), reason)
    if server.cors is not None:
        yield from check_cors(server.cors)


def _default_model(config: Config) -> Iterator[ConfigProblem]:
    default_model = config.server.default_model
    if default_model is None:
        return
    route = routes_of(config).resolve(default_model)
    if route is None:
        yield _unserved("server.default_model", default_model, config)
    elif is_pattern(default_model) and any(model.id == route.configured_id for model in config.models):
        yield ConfigProblem("server.default_model", "expected the name of one model, without *")


def _unserved(where: str, name: str, config: Config) -> ConfigProblem:
    names = [model.id for model in config.models] + [f"{each.name}/..." for each in config.providers]
    return ConfigProblem(where, f"no model and no provider is named {dumps(name)}{_suggestion(name, names)}")


def _stores(config: Config) -> Iterator[ConfigProblem]:
    if config.store.is_none:
        for key in config.keys:
            if key.budget_usd is not None:
                where = f"{member('keys', key.name)}.budget_usd"
                yield ConfigProblem(where, 'needs a database: set store.url to something other than "none"')
    else:
        yield from _url("store.url", config.store.url, _STORE_SCHEMES)
    for index, pattern in enumerate(config.store.redact):
        try:
            re.compile(pattern)
        except re.error as reason:
            yield ConfigProblem(entry("store.redact", index), f"not a regular expression: {reason}")
    if config.shared is not None:
        yield from _url("shared.url", config.shared.url, _SHARED_SCHEMES)


def _url(where: str, url: str, schemes: Sequence[str]) -> Iterator[ConfigProblem]:
    if not url.startswith(tuple(f"{scheme}://" for scheme in schemes)):
        yield ConfigProblem(where, f"must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}")
        return
    try:
        urlsplit(url).port  # noqa: B018 (reading it is the check)
    except ValueError:
        yield ConfigProblem(where, "is not a valid URL: the host or the port cannot be read")


def _provider(provider: Provider) -> Iterator[ConfigProblem]:
    where = member("providers", provider.name)
    if not _PROVIDER_NAME.fullmatch(provider.name):
        reason = "must be letters, digits, dots, hyphens and underscores: callers name models as NAME/MODEL"
        yield ConfigProblem(f"{where}.name", reason)
    if provider.kind not in kinds():
        yield ConfigProblem(
            f"{where}.kind", f"unknown kind {dumps(provider.kind)}{_suggestion(provider.kind, kinds(), 3)}"
        )
        return
    yield from _check_address(provider, where)
    yield from _settings_of_kind(provider, where)
    yield from check_credentials(provider, where)
    yield from check_cloud(provider, where)
    yield from check_headers(provider.headers, f"{where}.headers")
    yield from check_body_settings(provider, where)
    for index, name in enumerate(provider.models):
        yield from _model_name(entry(f"{where}.models", index), name)


def _check_address(provider: Provider, where: str) -> Iterator[ConfigProblem]:
    if provider.kind in BUILT_IN:
        for name in ("base_url", "proxy", "ca_file"):
            if getattr(provider, name) is not None:
                yield ConfigProblem(f"{where}.{name}", f"does not apply to the kind {dumps(provider.kind)}")
        return
    if provider.base_url is not None:
        fault = fault_of_base_url(provider.base_url, provider.kind)
        if fault is not None:
            yield ConfigProblem(f"{where}.base_url", fault)
    elif provider.kind not in NAMED_BY_PLACE and base_url_of(provider) is None:
        yield ConfigProblem(f"{where}.base_url", f"missing: the kind {dumps(provider.kind)} has no public address")
    fault = fault_of_proxy(provider.proxy) if provider.proxy is not None else None
    if fault is not None:
        yield ConfigProblem(f"{where}.proxy", fault)


_FAMILY_SETTINGS = tuple(dict.fromkeys(name for family in FAMILIES.values() for name in family.settings))


def _settings_of_kind(provider: Provider, where: str) -> Iterator[ConfigProblem]:
    family = FAMILIES.get(provider.kind)
    own = family.settings if family is not None else ()
    for name in _FAMILY_SETTINGS:
        if getattr(provider, name) is not None and name not in own:
            yield ConfigProblem(f"{where}.{name}", f"does not apply to the kind {dumps(provider.kind)}")
    if provider.kind == "vertex" and provider.project is None:
        yield ConfigProblem(f"{where}.project", 'missing: the kind "vertex" needs the project')
    elif "project" in own and provider.location is not None and provider.project is None:
        yield ConfigProblem(f"{where}.location", "has no effect without project")
    for name in ("project", "api_version"):
        value = getattr(provider, name)
        if value is not None and not _PATH_WORD.fullmatch(value):
            yield ConfigProblem(f"{where}.{name}", "must be letters, digits, dots, colons, hyphens and underscores")
    if provider.wire is not None and provider.wire not in wires_of(provider.kind):
        yield ConfigProblem(f"{where}.wire", _no_wire(provider.kind))
    if provider.location is not None and not re.fullmatch(r"[a-z0-9-]+", provider.location):
        yield ConfigProblem(f"{where}.location", "expected the name of a location such as global or europe-west4")


def _no_wire(kind: str) -> str:
    return f"the kind {dumps(kind)} has {' and '.join(dumps(wire) for wire in wires_of(kind))} alone"


def _model(model: Model, config: Config) -> Iterator[ConfigProblem]:
    where = member("models", model.id)
    yield from _model_name(f"{where}.id", model.id)
    if not model.targets:
        yield ConfigProblem(f"{where}.targets", "must name at least one target")
    providers = [provider.name for provider in config.providers]
    kinds = {provider.name: provider.kind for provider in config.providers}
    seen: set[tuple[str, str]] = set()
    for index, target in enumerate(model.targets):
        at = entry(f"{where}.targets", index)
        if target.provider not in providers:
            reason = f"there is no provider {dumps(target.provider)}{_suggestion(target.provider, providers)}"
            yield ConfigProblem(f"{at}.provider", reason)
        elif target.wire is not None and target.wire not in wires_of(kinds[target.provider]):
            yield ConfigProblem(f"{at}.wire", _no_wire(kinds[target.provider]))
        else:
            yield from check_target(target, kinds[target.provider], at)
        yield from _model_name(f"{at}.model", target.model, _MAX_TARGET_LENGTH)
        if target.cost is not None:
            yield from check_price(target.cost, f"{at}.cost")
        if (target.provider, target.model) in seen:
            yield ConfigProblem(at, "is listed twice: use weight to give a target a larger share")
        seen.add((target.provider, target.model))


def _fallbacks(config: Config) -> Iterator[ConfigProblem]:
    """A cycle over several models is allowed: each of them is tried once."""
    routes = routes_of(config)
    for model, setting in product(config.models, (FALLBACKS, *REFUSAL_FALLBACKS.values())):
        names: tuple[str, ...] = getattr(model, setting)
        for index, name in enumerate(names):
            at, route = entry(f"{member('models', model.id)}.{setting}", index), routes.resolve(name)
            if route is None:
                yield _unserved(at, name, config)
            elif route.configured_id == model.id:
                yield ConfigProblem(at, f"{dumps(name)} is the model itself")
            elif name in names[:index]:
                yield ConfigProblem(at, f"{dumps(name)} is listed twice")


def _key(key: Key) -> Iterator[ConfigProblem]:
    where = member("keys", key.name)
    if not key.name.isprintable() or key.name != key.name.strip():
        yield ConfigProblem(f"{where}.name", "must be plain text without spaces at the start or end")
    if not MIN_KEY_LENGTH <= len(key.key) <= _MAX_KEY_LENGTH:
        yield ConfigProblem(f"{where}.key", f"must have {MIN_KEY_LENGTH} to {_MAX_KEY_LENGTH} characters")
    elif not key.key.isascii() or not key.key.isprintable() or " " in key.key:
        yield ConfigProblem(f"{where}.key", "contains a character that cannot be sent, such as a space or a line break")
    elif is_easy_to_guess(key.key):
        yield ConfigProblem(f"{where}.key", "is too easy to guess: create one with `openssl rand -hex 24`")
    if key.dialect is not None:
        yield from _dialect(f"{where}.dialect", key.dialect)
    for index, pattern in enumerate(key.models or ()):
        if not pattern or "*" in pattern[:-1]:
            reason = "expected a model id, or a prefix followed by *"
            yield ConfigProblem(entry(f"{where}.models", index), reason)
    if not key.scopes:
        yield ConfigProblem(f"{where}.scopes", "must name at least one scope")
    if fault := fault_of_scopes(key.scopes):
        yield ConfigProblem(f"{where}.scopes", fault)
    if key.budget_period is not None and key.budget_usd is None:
        yield ConfigProblem(f"{where}.budget_period", "has no effect without budget_usd")


def _equal_keys(keys: Sequence[Key]) -> Iterator[ConfigProblem]:
    owners: dict[str, str] = {}
    for key in keys:
        owner = owners.setdefault(key.key, key.name)
        if owner != key.name:
            yield ConfigProblem(f"{member('keys', key.name)}.key", f"is the same as {member('keys', owner)}.key")


def _dialect(where: str, name: str) -> Iterator[ConfigProblem]:
    if name not in (names := FRONTENDS.dialects):
        yield ConfigProblem(where, f"unknown dialect {dumps(name)}: expected {', '.join(names)}")


def _model_name(where: str, name: str, max_length: int = MAX_NAME_LENGTH) -> Iterator[ConfigProblem]:
    if not 1 <= len(name) <= max_length or not name.isprintable() or name != name.strip():
        yield ConfigProblem(where, f"expected a model name of 1 to {max_length} characters, without spaces around it")


def _duplicates(where: str, key: str, names: Sequence[str]) -> Iterator[ConfigProblem]:
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        at = first.setdefault(name, index)
        if at != index:
            yield ConfigProblem(f"{entry(where, index)}.{key}", f"{dumps(name)} is already used by {entry(where, at)}")


def _suggestion(name: str, names: Sequence[str], count: int = 1) -> str:
    matches = get_close_matches(name, names, count, 0.5)
    return f", did you mean {' or '.join(matches)}?" if matches else f" (known: {', '.join(names) or 'none'})"
