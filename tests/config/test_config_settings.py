"""A configuration as it is shown: every setting once, as text, and of no secret more than its end."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from msgspec import Struct

from streamweir.config.model import (
    Config,
    DatedPrice,
    GroupPrice,
    Key,
    LimitRule,
    Limits,
    Log,
    Model,
    PriceGroup,
    Provider,
    Server,
    Shared,
    Store,
    Target,
    Tls,
    Webhook,
)
from streamweir.config.secret import masked, masked_url
from streamweir.config.settings import Setting, sections_of
from streamweir.config.telemetry import Telemetry
from streamweir.policy.pricing.charge_rule import ChargeRules

EVERYTHING = Config(
    server=Server(
        listen="0.0.0.0:80",
        tls=Tls(cert_file="/etc/tls/cert.pem", key_file="/etc/tls/key.pem"),
        trusted_proxies=("10.0.0.0/8", "::1"),
        metrics_public=True,
        limits=Limits(lag_s=0.25, connections=7),
        log=Log(level="debug"),
    ),
    store=Store(url="postgresql://books:hunter2@db.example:5432/books?sslpassword=hunter3", redact=("a+", "b")),
    shared=Shared(url="rediss://:hunter4@cache.example"),
    providers=(
        Provider(
            name="my.provider",
            kind="openai",
            api_key="sk-proj-0123456789abcdef",
            proxy="http://me:hunter5@proxy.example:3128",
            headers={"x-team": "hunter6", "X Odd": "https://hunter7.example"},
        ),
        Provider(name="short", kind="openai", api_key="hunter8"),
    ),
    models=(
        Model(
            id="a/b",
            targets=(
                Target(
                    provider="my.provider",
                    model="m",
                    weight=2,
                    retries=0,
                    proxy="http://me:hunter9@proxy.example:3128",
                    headers={"x-region": "hunter10-and-more"},
                ),
            ),
            price=(DatedPrice(input=0.000001, output=100.0, starts=datetime(2027, 1, 2, tzinfo=UTC)),),
        ),
    ),
    price_groups=(
        PriceGroup(
            name="resale",
            markup_percent=20.0,
            prices=(GroupPrice(model="a*", markup_percent=0.5),),
            charge=ChargeRules(cut="nothing"),
        ),
    ),
    webhooks=(
        Webhook(
            name="ops",
            url="https://hooks.example/services/hunter11?token=hunter12",
            secret="whsec_hunter13-and-more",  # noqa: S106
        ),
    ),
    keys=(
        Key(name="ci", key="sk-ci-0123456789abcdefghij", expires=datetime(2027, 1, 2, tzinfo=UTC), models=()),
        Key(name="bare", key="sk-bare-0123456789abcdefg"),
    ),
    telemetry=Telemetry(headers={"x-token": "hunter14-and-more"}),
    limits=(LimitRule(name="trial", per="user", budget_usd=0.5, key="ci"),),
)


def settings(config: Config) -> dict[str, Setting]:
    every = [setting for section in sections_of(config) for setting in section.entries]
    found = {setting.path: setting for setting in every}
    assert len(found) == len(every), "each once"
    return found


def leaves(value: object) -> Iterator[object]:
    if isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from leaves(getattr(value, name))
    elif isinstance(value, tuple) and value and isinstance(value[0], Struct):
        for each in value:
            yield from leaves(each)
    elif isinstance(value, dict):
        yield from value.values()
    else:
        yield value


def test_every_setting_is_there() -> None:
    assert len(settings(EVERYTHING)) == len(list(leaves(EVERYTHING)))


def test_nothing_is_set_by_default() -> None:
    found = settings(Config())
    assert not any(setting.is_set for setting in found.values())
    names = ["server", "store", "shared", "routing", "payments", "oidc", "streams", "alerts", "telemetry"]
    assert [section.name for section in sections_of(Config())] == names
    assert (found["shared"].value, found["server.tls"].value, found["store.redact"].value) == ("", "", "")
    assert found["store.url"].value == "sqlite:///streamweir.db"


def test_what_was_given_is_set() -> None:
    found = settings(EVERYTHING)
    shown = {path: setting.value for path, setting in found.items() if setting.is_set}
    assert shown == {
        "server.listen": "0.0.0.0:80",
        "server.limits.connections": "7",
        "server.limits.lag_s": "0.25",
        "server.tls.cert_file": "/etc/tls/cert.pem",
        "server.tls.key_file": "/etc/tls/key.pem",
        "server.trusted_proxies": "10.0.0.0/8, ::1",
        "server.metrics_public": "true",
        "server.log.level": "debug",
        "store.url": "postgresql://****@db.example:5432/books?****",
        "store.redact": "a+, b",
        "shared.url": "rediss://****@cache.example",
        'providers."my.provider".name': "my.provider",
        'providers."my.provider".kind': "openai",
        'providers."my.provider".api_key': "****cdef",
        'providers."my.provider".proxy': "http://****@proxy.example:3128",
        'providers."my.provider".headers.x-team': "****",
        'providers."my.provider".headers."X Odd"': "****",
        "providers.short.name": "short",
        "providers.short.kind": "openai",
        "providers.short.api_key": "****",
        'models."a/b".id': "a/b",
        'models."a/b".targets[0].provider': "my.provider",
        'models."a/b".targets[0].model': "m",
        'models."a/b".targets[0].weight': "2",
        'models."a/b".targets[0].proxy': "http://****@proxy.example:3128",
        'models."a/b".targets[0].headers.x-region': "****",
        'models."a/b".targets[0].retries': "0",
        'models."a/b".price[0].input': "0.000001",
        'models."a/b".price[0].output': "100",
        'models."a/b".price[0].from': "2027-01-02T00:00:00+00:00",
        "price_groups.resale.name": "resale",
        "price_groups.resale.markup_percent": "20",
        "price_groups.resale.prices[0].model": "a*",
        "price_groups.resale.prices[0].markup_percent": "0.5",
        "price_groups.resale.charge.cut": "nothing",
        "keys.ci.name": "ci",
        "keys.ci.key": "****ghij",
        "keys.ci.models": "",
        "keys.ci.expires": "2027-01-02T00:00:00+00:00",
        "keys.bare.name": "bare",
        "keys.bare.key": "****defg",
        "webhooks.ops.name": "ops",
        "webhooks.ops.url": "https://hooks.example/****",
        "webhooks.ops.secret": "****more",
        "telemetry.headers.x-token": "****",
        "limits.trial.name": "trial",
        "limits.trial.per": "user",
        "limits.trial.budget_usd": "0.5",
        "limits.trial.key": "ci",
    }
    secret = {path for path, setting in found.items() if setting.is_secret and setting.is_set}
    assert secret == {path for path, value in shown.items() if value.startswith("****") or "://" in value}
    assert "hunter" not in repr(sections_of(EVERYTHING))


def test_a_member_of_a_body_that_looks_like_a_secret_is_not_shown() -> None:
    provider = Provider(
        name="up",
        kind="openai",
        defaults={"temperature": 0.5, "metadata": {"team": "core"}, "tag": "sk-proj-4f9a8b7c6d5e4f9a8b7c6d5e"},
        override={"stop": ["END"], "password": "hunter2", "on": True},
        drop=("seed", "user"),
    )
    found = settings(Config(providers=(provider,)))
    shown = {
        path.removeprefix("providers.up."): (each.value, each.is_secret)
        for path, each in found.items()
        if path.startswith(("providers.up.defaults", "providers.up.override", "providers.up.drop"))
    }
    assert shown == {
        "defaults.temperature": ("0.5", False),
        "defaults.metadata": ('{"team": "core"}', False),
        "defaults.tag": ("****", True),
        "override.stop": ('["END"]', False),
        "override.password": ("****", True),
        "override.on": ("true", False),
        "drop": ("seed, user", False),
    }


def test_a_known_secret_is_removed_everywhere() -> None:
    key = "sk-proj-0123456789abcdef"
    provider = Provider(name="up", kind="openai", api_key=key, base_url=f"https://up.example/{key}/v1")
    found = settings(Config(store=Store(redact=(f"x{key}",)), providers=(provider,)))
    assert (found["providers.up.base_url"].value, found["store.redact"].value) == (
        "https://up.example/****/v1",
        "x****",
    )
    assert found["providers.up.base_url"].is_secret


@pytest.mark.parametrize(
    ("secret", "shown"),
    [("", ""), ("a", "****"), ("a" * 15, "****"), ("a" * 12 + "bcde", "****bcde")],
)
def test_the_end_of_a_secret_is_shown_where_it_is_long(secret: str, shown: str) -> None:
    assert masked(secret) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("none", "none"),
        ("sqlite:////srv/books.db", "sqlite:////srv/books.db"),
        ("postgresql://db.example/books", "postgresql://db.example/books"),
        ("postgresql://me@db.example/books", "postgresql://****@db.example/books"),
        ("postgresql://me:pass/w?rd#@db.example/books", "postgresql://****@db.example/books"),
        ("postgresql://me:p@ss@db.example", "postgresql://****@db.example"),
        ("postgresql://db.example/books?user=me@server&password=hunter2", "postgresql://****"),
        ("postgresql:///books?host=/run&password=hunt@er2", "postgresql://****"),
        ("postgresql://me:a?b=c@db.example/books", "postgresql://****"),
        ("postgresql:///books?password=pass", "postgresql:///books?****"),
        ("unix:///run/valkey.sock#pass", "unix:///run/valkey.sock#****"),
        ("redis://:pass@[::1]:6379/0", "redis://****@[::1]:6379/0"),
    ],
)
def test_an_address_is_shown_without_its_user(url: str, shown: str) -> None:
    assert masked_url(url) == shown
